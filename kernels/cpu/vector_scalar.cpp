// Reference tier: plain loops in the order of the formulas.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "vector.h"

namespace tessera {
namespace {

void rms_norm(const float* x, const float* weight, float* out, int n, float epsilon) {
  double squares = 0;
  for (int i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * x[i];
  const float factor = static_cast<float>(1.0 / std::sqrt(squares / n + epsilon));
  for (int i = 0; i < n; ++i) out[i] = x[i] * factor * (weight != nullptr ? weight[i] : 1.0f);
}

void rope(float* x, const float* cosines, const float* sines, int pairs, bool halves) {
  for (int i = 0; i < pairs; ++i) {
    float& first = x[halves ? i : 2 * i];
    float& second = x[halves ? i + pairs : 2 * i + 1];
    const float a = first, b = second;
    first = a * cosines[i] - b * sines[i];
    second = a * sines[i] + b * cosines[i];
  }
}

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

float silu(float x) { return x / (1.0f + std::exp(-x)); }

// (1 + tanh y) / 2 = 1 / (1 + e^-2y), which keeps its digits where tanh y is near -1.
float gelu(float x) {
  const float twice = 1.5957691216057308f * (x + 0.044715f * x * x * x);  // 2 sqrt(2 / pi) (x + 0.044715 x³)
  return x / (1.0f + std::exp(-twice));
}

float swiglu_oai(float gate, float up) {
  const float x = std::min(gate, 7.0f);
  return x / (1.0f + std::exp(-1.702f * x)) * (std::clamp(up, -7.0f, 7.0f) + 1.0f);
}

void glu(const float* gate, const float* up, float* out, int n, Activation activation) {
  if (activation == Activation::silu)
    for (int i = 0; i < n; ++i) out[i] = silu(gate[i]) * up[i];
  else if (activation == Activation::gelu)
    for (int i = 0; i < n; ++i) out[i] = gelu(gate[i]) * up[i];
  else if (activation == Activation::sigmoid)
    for (int i = 0; i < n; ++i) out[i] = sigmoid(gate[i]) * up[i];
  else if (activation == Activation::swiglu_oai)
    for (int i = 0; i < n; ++i) out[i] = swiglu_oai(gate[i], up[i]);
  else
    for (int i = 0; i < n; ++i) out[i] = gate[i] * up[i];
}

void add(const float* a, const float* b, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

void add_scaled(const float* x, float factor, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] += factor * x[i];
}

void scale(const float* x, float factor, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = factor * x[i];
}

void soft_cap(const float* x, float cap, float* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = cap * std::tanh(x[i] / cap);
}

void delta_step(const DeltaStep& s) {
  for (int v = 0; v < s.value_dim; ++v) {
    float seen = 0, mixed = 0;
    for (int k = 0; k < s.key_dim; ++k) seen += s.state[static_cast<ptrdiff_t>(k) * s.value_dim + v] * s.key[k];
    const float change = s.beta * (s.value[v] - s.decay * seen);
    for (int k = 0; k < s.key_dim; ++k) {
      const ptrdiff_t at = static_cast<ptrdiff_t>(k) * s.value_dim + v;
      s.next[at] = s.decay * s.state[at] + s.key[k] * change;
      mixed += s.next[at] * s.query[k];
    }
    s.out[v] = s.scale * mixed;
  }
}

}  // namespace

void fill_vector_scalar(VectorKernels& kernels) {
  kernels = {"scalar", rms_norm, rope, glu, add, add_scaled, scale, soft_cap, delta_step};
}

}  // namespace tessera
