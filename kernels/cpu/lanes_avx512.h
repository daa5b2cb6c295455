// Vectors of 16 floats for the AVX-512 tiers, under the names of lanes_avx2.h. Needs F, DQ, BW and VL.
#pragma once
#include <cstdint>
#include <cstring>

#ifdef TESSERA_EMULATE_AVX512  // tests on machines without AVX-512
#include "x86_512.h"
#else
#include <immintrin.h>
#endif

namespace tessera {
namespace {

using Vec = __m512;
constexpr int kLanes = 16;
constexpr int kTileRows = 12;  // rows of a register tile of two vectors: 24 of the 32 registers

inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, Vec a) { _mm512_storeu_ps(p, a); }
inline Vec broadcast(float x) { return _mm512_set1_ps(x); }
inline Vec zero() { return _mm512_setzero_ps(); }
inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
inline Vec subtract(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
inline Vec multiply(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
inline Vec divide(Vec a, Vec b) { return _mm512_div_ps(a, b); }
inline Vec multiply_add(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec greater(Vec a, Vec b) { return _mm512_max_ps(a, b); }  // b where either is NaN

inline __m256 upper_half(Vec a) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1)); }

inline float sum(Vec a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), upper_half(a));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float greatest(Vec a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a), upper_half(a));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// Eight pairs (x0, x1) turned by eight angles.
inline Vec rotate_pairs(Vec x, const float* cosines, const float* sines) {
  const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  const Vec c = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(cosines)));
  const Vec s = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(sines)));
  const __m512i swapped = _mm512_setr_epi32(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  const Vec turned = multiply(_mm512_permutexvar_ps(swapped, x), s);
  return _mm512_mask_blend_ps(0xaaaa, _mm512_fmsub_ps(x, c, turned), _mm512_fmadd_ps(x, c, turned));
}

inline Vec low_bits_as_exponent(Vec a) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 23)); }
inline Vec keep_from(Vec a, Vec x, Vec least) {
  return _mm512_mask_mov_ps(zero(), _mm512_cmp_ps_mask(x, least, _CMP_NLT_UQ), a);
}
inline Vec least_of(Vec bound, Vec x) { return _mm512_min_ps(bound, x); }
inline Vec greatest_of(Vec bound, Vec x) { return _mm512_max_ps(bound, x); }

inline Vec hide(Vec score, const int32_t* first, const int32_t* last, int position) {
  const __m512i p = _mm512_set1_epi32(position);
  const __mmask16 early = _mm512_cmpgt_epi32_mask(_mm512_loadu_si512(first), p);
  const __mmask16 late = _mm512_cmpgt_epi32_mask(p, _mm512_loadu_si512(last));
  return _mm512_mask_mov_ps(score, static_cast<__mmask16>(early | late), broadcast(-__builtin_inff()));
}

inline Vec load_half(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void store_half(uint8_t* p, Vec a) {
  auto* const out = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(out, _mm256_cvtps_ph(_mm512_castps512_ps256(a), _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(out + 1, _mm256_cvtps_ph(upper_half(a), _MM_FROUND_TO_NEAREST_INT));
}
inline float scalar_half(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, 2);
  return _cvtsh_ss(half);
}
inline uint16_t half_of(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
inline Vec load_int8(const uint8_t* p) {
#ifdef TESSERA_EMULATE_AVX512  // SIMDe 0.7.4 lacks the widening
  alignas(64) float values[kLanes];
  for (int i = 0; i < kLanes; ++i) values[i] = static_cast<int8_t>(p[i]);
  return load(values);
#else
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#endif
}

}  // namespace
}  // namespace tessera
