// Vectors of 8 floats for the AVX2 tier: the vocabulary in which vector_lanes.h and attention_lanes.h are written.
// Included by files compiled with -mavx2 -mfma -mf16c only; everything has internal linkage.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace tessera {
namespace {

using Vec = __m256;
constexpr int kLanes = 8;
constexpr int kTileRows = 6;  // rows of a register tile of two vectors: 12 of the 16 registers

inline Vec load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, Vec a) { _mm256_storeu_ps(p, a); }
inline Vec broadcast(float x) { return _mm256_set1_ps(x); }
inline Vec zero() { return _mm256_setzero_ps(); }
inline Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
inline Vec subtract(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
inline Vec multiply(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
inline Vec divide(Vec a, Vec b) { return _mm256_div_ps(a, b); }
inline Vec multiply_add(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec greater(Vec a, Vec b) { return _mm256_max_ps(a, b); }  // b where either is NaN

inline float sum(Vec a) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float greatest(Vec a) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// Pairs (x0, x1) of one vector turned by four angles.
inline Vec rotate_pairs(Vec x, const float* cosines, const float* sines) {
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  const Vec c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(cosines)), twice);
  const Vec s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(sines)), twice);
  return _mm256_fmaddsub_ps(x, c, multiply(_mm256_permute_ps(x, 0xb1), s));
}

// The float whose exponent field is the low eight bits of a.
inline Vec low_bits_as_exponent(Vec a) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23)); }
// a where x >= least or x is NaN, else 0.
inline Vec keep_from(Vec a, Vec x, Vec least) { return _mm256_and_ps(a, _mm256_cmp_ps(x, least, _CMP_NLT_UQ)); }
inline Vec least_of(Vec bound, Vec x) { return _mm256_min_ps(bound, x); }  // NaN of x is kept
inline Vec greatest_of(Vec bound, Vec x) { return _mm256_max_ps(bound, x); }

// score where first <= position <= last, else -infinity.
inline Vec hide(Vec score, const int32_t* first, const int32_t* last, int position) {
  const __m256i p = _mm256_set1_epi32(position);
  const __m256i early = _mm256_cmpgt_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first)), p);
  const __m256i late = _mm256_cmpgt_epi32(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(last)));
  const Vec hidden = _mm256_castsi256_ps(_mm256_or_si256(early, late));
  return _mm256_blendv_ps(score, broadcast(-__builtin_inff()), hidden);
}

inline Vec load_half(const uint8_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline void store_half(uint8_t* p, Vec a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
inline float scalar_half(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, 2);
  return _cvtsh_ss(half);
}
inline uint16_t half_of(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
inline Vec load_int8(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

}  // namespace
}  // namespace tessera
