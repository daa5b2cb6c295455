// What the vector and attention kernels share, in terms of Vec: include a lanes_<tier>.h first. Internal linkage.
#pragma once

namespace tessera {
namespace {

// e^x to 2 units in the last place; 0 below the smallest normal result, infinity never (x is capped at 88), NaN
// kept. x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 is split in two so that r is exact; e^r by its Taylor polynomial to
// r^7, whose remainder is below 2^-26.
inline Vec exponential(Vec x) {
  const Vec least = broadcast(-87.3365447505531f);
  const Vec bounded = greatest_of(least, least_of(broadcast(88.0f), x));
  // Near 1.5 * 2^23 floats are whole numbers: adding it rounds, and 127 + n, the exponent field of 2^n, is in the low
  // bits.
  const Vec shifter = broadcast(12582912.0f + 127.0f);
  const Vec shifted = multiply_add(bounded, broadcast(1.44269504088896f), shifter);
  const Vec n = subtract(shifted, shifter);
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
  return keep_from(multiply(p, low_bits_as_exponent(shifted)), x, least);
}

// cap tanh(x / cap), by tanh y = 1 - 2 / (1 + e^2y).
inline Vec capped(Vec x, Vec cap, Vec twice_inverse) {
  const Vec one = broadcast(1.0f), two = broadcast(2.0f);
  return multiply(cap, subtract(one, divide(two, add(one, exponential(multiply(x, twice_inverse))))));
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

}  // namespace
}  // namespace tessera
