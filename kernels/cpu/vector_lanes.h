// The kernels of vector.h in terms of Vec, for every vector tier: include a lanes_<tier>.h first. Internal linkage.
#pragma once
#include <cmath>

#include "vector.h"

namespace tessera {
namespace {

// e^x to 2 units in the last place; 0 below the smallest normal result, infinity never (x is capped at 88.37), NaN kept.
// x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 is split in two so that r is exact; e^r by its Taylor polynomial to r^7,
// whose remainder is below 2^-26.
inline Vec exponential(Vec x) {
  const Vec least = broadcast(-87.3365447505531f);
  const Vec bounded = greatest_of(least, least_of(broadcast(88.3762626647949f), x));
  const Vec n = round_to_whole(multiply(bounded, broadcast(1.44269504088896f)));
  Vec r = multiply_add(n, broadcast(-0.693359375f), bounded);
  r = multiply_add(n, broadcast(2.12194440e-4f), r);
  Vec p = broadcast(1.0f / 5040);
  p = multiply_add(p, r, broadcast(1.0f / 720));
  p = multiply_add(p, r, broadcast(1.0f / 120));
  p = multiply_add(p, r, broadcast(1.0f / 24));
  p = multiply_add(p, r, broadcast(1.0f / 6));
  p = multiply_add(p, r, broadcast(0.5f));
  p = multiply_add(p, r, broadcast(1.0f));
  p = multiply_add(p, r, broadcast(1.0f));
  return keep_from(times_power_of_two(p, n), x, least);
}

// Calls body(i) for whole vectors, then tail(i, count) once for what is left.
template <class Body, class Tail>
inline void each_vector(int n, Body&& body, Tail&& tail) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i);
  if (i < n) tail(i, n - i);
}

// A vector of the `count` values at p, the rest 0.
inline Vec load_some(const float* p, int count) {
  alignas(64) float buffer[kLanes] = {};
  for (int i = 0; i < count; ++i) buffer[i] = p[i];
  return load(buffer);
}
inline void store_some(float* p, Vec a, int count) {
  alignas(64) float buffer[kLanes];
  store(buffer, a);
  for (int i = 0; i < count; ++i) p[i] = buffer[i];
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
      n - i, [&](int k) { const Vec a = load(x + i + k); squares[0] = multiply_add(a, a, squares[0]); },
      [&](int k, int count) { const Vec a = load_some(x + i + k, count); squares[1] = multiply_add(a, a, squares[1]); });
  const float total = sum(add(add(squares[0], squares[1]), add(squares[2], squares[3])));
  const Vec factor = broadcast(1.0f / std::sqrt(total / static_cast<float>(n) + epsilon));
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

// x / (1 + e^-x); the tanh form of gelu is the same of another argument: x / (1 + e^(-2 y)).
inline Vec gated(Vec x, Vec argument, Vec up) {
  const Vec one = broadcast(1.0f);
  return multiply(divide(x, add(one, exponential(subtract(zero(), argument)))), up);
}
inline Vec gelu_argument(Vec x) {  // 2 sqrt(2 / pi) (x + 0.044715 x³)
  const Vec inner = multiply_add(multiply(broadcast(0.044715f), multiply(x, x)), x, x);
  return multiply(broadcast(1.5957691216057308f), inner);
}

template <class Argument>
inline void gate_all(const float* gate, const float* up, float* out, int n, Argument&& argument) {
  each_vector(
      n, [&](int i) { const Vec x = load(gate + i); store(out + i, gated(x, argument(x), load(up + i))); },
      [&](int i, int count) {
        const Vec x = load_some(gate + i, count);
        store_some(out + i, gated(x, argument(x), load_some(up + i, count)), count);
      });
}

void glu(const float* gate, const float* up, float* out, int n, Activation activation) {
  if (activation == Activation::silu)
    gate_all(gate, up, out, n, [](Vec x) { return x; });
  else
    gate_all(gate, up, out, n, [](Vec x) { return gelu_argument(x); });
}

void add_rows(const float* a, const float* b, float* out, int n) {
  each_vector(
      n, [&](int i) { store(out + i, add(load(a + i), load(b + i))); },
      [&](int i, int count) { for (int k = i; k < i + count; ++k) out[k] = a[k] + b[k]; });
}

void add_scaled(const float* x, float factor, float* out, int n) {
  const Vec f = broadcast(factor);
  each_vector(
      n, [&](int i) { store(out + i, multiply_add(f, load(x + i), load(out + i))); },
      [&](int i, int count) { for (int k = i; k < i + count; ++k) out[k] = __builtin_fmaf(factor, x[k], out[k]); });
}

void scale_row(const float* x, float factor, float* out, int n) {
  const Vec f = broadcast(factor);
  each_vector(
      n, [&](int i) { store(out + i, multiply(f, load(x + i))); },
      [&](int i, int count) { for (int k = i; k < i + count; ++k) out[k] = factor * x[k]; });
}

}  // namespace
}  // namespace tessera
