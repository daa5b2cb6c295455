// Elementwise and row-wise operations on float32, the interface between the tiers (vector_<tier>.cpp) and the program
// interpreter. Plain data and function pointers only: files compiled for different ISA tiers include this header.
#pragma once
#include <cstdint>

namespace tessera {

// gelu: the tanh form. sigmoid has no factor x: it opens or closes `up`. swiglu_oai, gpt-oss's:
// gate sigmoid(1.702 gate) (up + 1), with gate at most 7 and up within ±7. linear: the gate is a plain factor.
enum class Activation : int32_t { silu = 0, gelu = 1, sigmoid = 2, swiglu_oai = 3, linear = 4 };

// One token of one head of the gated delta rule. state, next: [key_dim, value_dim] and may be the same memory.
//   next = decay * state + key dᵀ, with d = beta (value - decay * stateᵀ key);  out = scale * nextᵀ query
struct DeltaStep {
  const float* state;
  float* next;
  const float *query, *key, *value;
  float decay, beta, scale;
  int key_dim, value_dim;
  float* out;  // [value_dim]
};

struct VectorKernels {
  const char* tier;
  // out[i] = x[i] / sqrt(mean(x²) + epsilon) * weight[i]; out may be x, weight null: ones.
  void (*rms_norm)(const float* x, const float* weight, float* out, int n, float epsilon);
  // Rotates `pairs` pairs of x in place; pair i is (x[2i], x[2i+1]), or with `halves` (x[i], x[i + pairs]).
  void (*rope)(float* x, const float* cosines, const float* sines, int pairs, bool halves);
  // out[i] = activation(gate[i]) * up[i]; out may be gate or up.
  void (*glu)(const float* gate, const float* up, float* out, int n, Activation activation);
  void (*add)(const float* a, const float* b, float* out, int n);       // out may be a or b
  void (*add_scaled)(const float* x, float factor, float* out, int n);  // out[i] += factor * x[i]
  void (*scale)(const float* x, float factor, float* out, int n);       // out may be x
  void (*soft_cap)(const float* x, float cap, float* out, int n);       // out[i] = cap tanh(x[i] / cap); out may be x
  void (*delta_step)(const DeltaStep& step);
};

// Each tier overwrites what it does better; scalar fills all. Called in rising order of tiers.
void fill_vector_scalar(VectorKernels& kernels);
void fill_vector_avx2(VectorKernels& kernels);
void fill_vector_avx512(VectorKernels& kernels);

}  // namespace tessera
