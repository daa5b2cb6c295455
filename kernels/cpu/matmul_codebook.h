// Private to the x86 tiers: tables of 16 values in a register, and MXFP4's scale.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "../cuda/codebooks.cuh"

namespace tessera {
namespace {

inline __m128i load_codebook(const signed char (&values)[16]) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(values));
}

// Bit i of a word to all bits of byte i.
inline __m256i bit_bytes(uint32_t bits) {
  const __m256i place = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
  const __m256i word = _mm256_set1_epi32(static_cast<int>(bits));
  return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(word, place), bit), bit);
}

// 2^(e - 128), also where that is below the smallest normal float.
inline float power_of_two(uint8_t e) {
  const uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1u) << 23;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline __m128 power_of_two(__m128i e) {
  const __m128i normal = _mm_slli_epi32(_mm_sub_epi32(e, _mm_set1_epi32(1)), 23);
  const __m128i small = _mm_sllv_epi32(_mm_set1_epi32(0x00200000), e);
  return _mm_castsi128_ps(_mm_blendv_epi8(normal, small, _mm_cmplt_epi32(e, _mm_set1_epi32(2))));
}

}  // namespace
}  // namespace tessera
