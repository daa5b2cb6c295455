// IEEE half precision in plain C++. Everything here has internal linkage, so files of any ISA tier may include it.
#pragma once
#include <cstdint>
#include <cstring>

namespace tessera {

[[maybe_unused]] static inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 0x1fu, mantissa = half & 0x3ffu, bits;
  if (exponent == 0x1f) {
    bits = sign | 0x7f800000u | (mantissa << 13);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else if (mantissa == 0) {
    bits = sign;
  } else {  // subnormal: shift the leading one into place
    exponent = 113;
    while (!(mantissa & 0x400u)) mantissa <<= 1, --exponent;
    bits = sign | (exponent << 23) | ((mantissa & 0x3ffu) << 13);
  }
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Rounds to nearest even, like the processors' own conversion.
[[maybe_unused]] static inline uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u | static_cast<uint16_t>((magnitude >> 13) & 0x3ffu);  // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds to 65536 or more: infinity
  if (magnitude < 0x33000001u) return sign;             // at most half of the smallest subnormal
  uint32_t mantissa = magnitude & 0x7fffffu, shift = 13, base;
  const int exponent = static_cast<int>(magnitude >> 23) - 112;
  if (exponent > 0) {
    base = static_cast<uint32_t>(exponent) << 10;
  } else {  // subnormal result
    mantissa |= 0x800000u;
    shift = static_cast<uint32_t>(14 - exponent);
    base = 0;
  }
  const uint32_t half = 1u << (shift - 1), rest = mantissa & ((1u << shift) - 1);
  uint32_t rounded = base + (mantissa >> shift);
  if (rest > half || (rest == half && (rounded & 1u))) ++rounded;  // a carry into the exponent is right
  return sign | static_cast<uint16_t>(rounded);
}

}  // namespace tessera
