// The kernels of vector.h in terms of Vec, for every vector tier: include a lanes_<tier>.h first. Internal linkage.
#pragma once
#include <cmath>

#include "exponential_lanes.h"
#include "vector.h"

namespace tessera {
namespace {

void scale_row(const float* x, float factor, float* out, int n) {
  const Vec f = broadcast(factor);
  each_vector(
      n, [&](int i) { store(out + i, multiply(f, load(x + i))); },
      [&](int i, int count) {
        for (int k = i; k < i + count; ++k) out[k] = factor * x[k];
      });
}

void rms_norm(const float* x, const float* weight, float* out, int n, float epsilon) {
  Vec squares[4] = {zero(), zero(), zero(), zero()};  // four chains hide the latency of the addition
  int i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int k = 0; k < 4; ++k) {
      const Vec a = load(x + i + k * kLanes);
      squares[k] = multiply_add(a, a, squares[k]);
    }
  each_vector(
      n - i,
      [&](int k) {
        const Vec a = load(x + i + k);
        squares[0] = multiply_add(a, a, squares[0]);
      },
      [&](int k, int count) {
        const Vec a = load_some(x + i + k, count);
        squares[1] = multiply_add(a, a, squares[1]);
      });
  const float total = sum(add(add(squares[0], squares[1]), add(squares[2], squares[3])));
  const float plain_factor = 1.0f / std::sqrt(total / static_cast<float>(n) + epsilon);
  if (weight == nullptr) return scale_row(x, plain_factor, out, n);
  const Vec factor = broadcast(plain_factor);
  each_vector(
      n, [&](int k) { store(out + k, multiply(multiply(load(x + k), factor), load(weight + k))); },
      [&](int k, int count) {
        store_some(out + k, multiply(multiply(load_some(x + k, count), factor), load_some(weight + k, count)), count);
      });
}

void rope(float* x, const float* cosines, const float* sines, int pairs, bool halves) {
  int i = 0;
  if (halves) {
    for (; i + kLanes <= pairs; i += kLanes) {
      const Vec a = load(x + i), b = load(x + pairs + i), c = load(cosines + i), s = load(sines + i);
      store(x + i, subtract(multiply(a, c), multiply(b, s)));
      store(x + pairs + i, multiply_add(a, s, multiply(b, c)));
    }
  } else {
    for (; i + kLanes / 2 <= pairs; i += kLanes / 2)
      store(x + 2 * i, rotate_pairs(load(x + 2 * i), cosines + i, sines + i));
  }
  for (; i < pairs; ++i) {
    float& first = x[halves ? i : 2 * i];
    float& second = x[halves ? i + pairs : 2 * i + 1];
    const float a = first, b = second;
    first = a * cosines[i] - b * sines[i];
    second = a * sines[i] + b * cosines[i];
  }
}

// x / (1 + e^-argument): silu with x as its argument, the tanh form of gelu with 2 y, sigmoid with 1 in place of x.
inline Vec gated(Vec x, Vec argument, Vec up) {
  const Vec one = broadcast(1.0f);
  return multiply(divide(x, add(one, exponential(subtract(zero(), argument)))), up);
}
inline Vec gelu_argument(Vec x) {  // 2 sqrt(2 / pi) (x + 0.044715 x³)
  const Vec inner = multiply_add(multiply(broadcast(0.044715f), multiply(x, x)), x, x);
  return multiply(broadcast(1.5957691216057308f), inner);
}

inline Vec swiglu_oai(Vec gate, Vec up) {
  const Vec x = least_of(broadcast(7.0f), gate);
  const Vec bounded = greatest_of(broadcast(-7.0f), least_of(broadcast(7.0f), up));
  return gated(x, multiply(broadcast(1.702f), x), add(bounded, broadcast(1.0f)));
}

template <class Gate>
inline void gate_all(const float* gate, const float* up, float* out, int n, Gate&& apply) {
  each_vector(
      n, [&](int i) { store(out + i, apply(load(gate + i), load(up + i))); },
      [&](int i, int count) {
        store_some(out + i, apply(load_some(gate + i, count), load_some(up + i, count)), count);
      });
}

void glu(const float* gate, const float* up, float* out, int n, Activation activation) {
  if (activation == Activation::silu)
    gate_all(gate, up, out, n, [](Vec x, Vec u) { return gated(x, x, u); });
  else if (activation == Activation::gelu)
    gate_all(gate, up, out, n, [](Vec x, Vec u) { return gated(x, gelu_argument(x), u); });
  else if (activation == Activation::sigmoid)
    gate_all(gate, up, out, n, [](Vec x, Vec u) { return gated(broadcast(1.0f), x, u); });
  else if (activation == Activation::swiglu_oai)
    gate_all(gate, up, out, n, [](Vec x, Vec u) { return swiglu_oai(x, u); });
  else
    gate_all(gate, up, out, n, [](Vec x, Vec u) { return multiply(x, u); });
}

void add_rows(const float* a, const float* b, float* out, int n) {
  each_vector(
      n, [&](int i) { store(out + i, add(load(a + i), load(b + i))); },
      [&](int i, int count) {
        for (int k = i; k < i + count; ++k) out[k] = a[k] + b[k];
      });
}

void add_scaled(const float* x, float factor, float* out, int n) {
  const Vec f = broadcast(factor);
  each_vector(
      n, [&](int i) { store(out + i, multiply_add(f, load(x + i), load(out + i))); },
      [&](int i, int count) {
        for (int k = i; k < i + count; ++k) out[k] = __builtin_fmaf(factor, x[k], out[k]);
      });
}

void soft_cap(const float* x, float cap, float* out, int n) {
  const Vec c = broadcast(cap), twice_inverse = broadcast(2.0f / cap);
  each_vector(
      n, [&](int i) { store(out + i, capped(load(x + i), c, twice_inverse)); },
      [&](int i, int count) { store_some(out + i, capped(load_some(x + i, count), c, twice_inverse), count); });
}

// Columns of the state are lanes. C vectors of them stay in registers while all rows pass by twice; the second time
// they come from the first-level cache.
template <int C>
inline void delta_columns(const DeltaStep& s, int first) {
  const auto at = [&](const float* matrix, int k, int c) {
    return matrix + static_cast<ptrdiff_t>(k) * s.value_dim + first + c * kLanes;
  };
  Vec seen[C], mixed[C];
  for (int c = 0; c < C; ++c) seen[c] = mixed[c] = zero();
  for (int k = 0; k < s.key_dim; ++k) {
    const Vec key = broadcast(s.key[k]);
    for (int c = 0; c < C; ++c) seen[c] = multiply_add(load(at(s.state, k, c)), key, seen[c]);
  }
  const Vec decay = broadcast(s.decay), beta = broadcast(s.beta);
  Vec change[C];
  for (int c = 0; c < C; ++c)
    change[c] = multiply(beta, subtract(load(s.value + first + c * kLanes), multiply(decay, seen[c])));
  for (int k = 0; k < s.key_dim; ++k) {
    const Vec key = broadcast(s.key[k]), query = broadcast(s.query[k]);
    for (int c = 0; c < C; ++c) {
      const Vec next = multiply_add(key, change[c], multiply(decay, load(at(s.state, k, c))));
      store(s.next + (at(s.state, k, c) - s.state), next);
      mixed[c] = multiply_add(next, query, mixed[c]);
    }
  }
  for (int c = 0; c < C; ++c) store(s.out + first + c * kLanes, multiply(broadcast(s.scale), mixed[c]));
}

void delta_step(const DeltaStep& s) {
  int first = 0;
  for (; first + 4 * kLanes <= s.value_dim; first += 4 * kLanes) delta_columns<4>(s, first);
  for (; first + kLanes <= s.value_dim; first += kLanes) delta_columns<1>(s, first);
  for (; first < s.value_dim; ++first) {
    float seen = 0, mixed = 0;
    for (int k = 0; k < s.key_dim; ++k) seen += s.state[static_cast<ptrdiff_t>(k) * s.value_dim + first] * s.key[k];
    const float change = s.beta * (s.value[first] - s.decay * seen);
    for (int k = 0; k < s.key_dim; ++k) {
      const ptrdiff_t at = static_cast<ptrdiff_t>(k) * s.value_dim + first;
      s.next[at] = s.decay * s.state[at] + s.key[k] * change;
      mixed += s.next[at] * s.query[k];
    }
    s.out[first] = s.scale * mixed;
  }
}

}  // namespace
}  // namespace tessera
