// Weights that are floats in the file: loaded, converted to float and multiplied with float activations.
#pragma once
#include "language.cuh"

namespace {

struct f32 {
  static constexpr int kBytes = 4;
  static float at(const uint8_t* row, int i) { return ((const float*)row)[i]; }
  static void load_8(const uint8_t* row, int i, float (&out)[8]) {  // i and the row's address: multiples of 8, of 16
    const float4 a = ((const float4*)row)[i / 4], b = ((const float4*)row)[i / 4 + 1];
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w, out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
  }
};

template <float (*kConvert)(uint16_t)> struct sixteen_bits {
  static constexpr int kBytes = 2;
  static float at(const uint8_t* row, int i) { return kConvert(((const uint16_t*)row)[i]); }
  static void load_8(const uint8_t* row, int i, float (&out)[8]) {
    const uint4 v = *(const uint4*)(row + 2 * i);
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < 4; ++k)
      out[2 * k] = kConvert(uint16_t(words[k])), out[2 * k + 1] = kConvert(uint16_t(words[k] >> 16));
  }
};
using f16 = sixteen_bits<half_to_float>;
using bf16 = sixteen_bits<bfloat_to_float>;

template <class Type> constexpr bool kIsFloat = false;
template <> constexpr bool kIsFloat<f32> = true;
template <> constexpr bool kIsFloat<f16> = true;
template <> constexpr bool kIsFloat<bf16> = true;

}  // namespace
