// Vectors of 16 lanes (AVX-512 F, BW) under the names of lanes256.h.
#pragma once
#include <cstdint>
#include <cstring>

#include "x86_512.h"

namespace tessera {
namespace {

using vi = __m512i;
using vf = __m512;
constexpr int kLanes = 16;

inline vi zero_i() { return _mm512_setzero_si512(); }
inline vf zero_f() { return _mm512_setzero_ps(); }
inline vi all8(int v) { return _mm512_set1_epi8(static_cast<char>(v)); }
inline vi all16(int v) { return _mm512_set1_epi16(static_cast<short>(v)); }
inline vi all32(int v) { return _mm512_set1_epi32(v); }
inline vf all_f(float v) { return _mm512_set1_ps(v); }
inline vi load_i(const void* p) { return _mm512_load_si512(p); }
inline vi load_i_any(const void* p) { return _mm512_loadu_si512(p); }
inline void store_i(void* p, vi v) { _mm512_store_si512(p, v); }
inline vf load_f(const float* p) { return _mm512_load_ps(p); }
inline vf load_f_any(const void* p) { return _mm512_loadu_ps(p); }
inline void store_f(float* p, vf v) { _mm512_store_ps(p, v); }
inline void store_f_any(float* p, vf v) { _mm512_storeu_ps(p, v); }

inline vi and_i(vi a, vi b) { return _mm512_and_si512(a, b); }
inline vi or_i(vi a, vi b) { return _mm512_or_si512(a, b); }
inline vi xor_i(vi a, vi b) { return _mm512_xor_si512(a, b); }
inline vi right32(vi v, int n) { return _mm512_srli_epi32(v, static_cast<unsigned>(n)); }
inline vi left32(vi v, int n) { return _mm512_slli_epi32(v, static_cast<unsigned>(n)); }
inline vi left16(vi v, int n) { return _mm512_slli_epi16(v, static_cast<unsigned>(n)); }
inline vi right16(vi v, int n) { return _mm512_srli_epi16(v, static_cast<unsigned>(n)); }
inline vi right16_signed(vi v, int n) { return _mm512_srai_epi16(v, static_cast<unsigned>(n)); }
inline vi add16(vi a, vi b) { return _mm512_add_epi16(a, b); }
inline vi sub16(vi a, vi b) { return _mm512_sub_epi16(a, b); }
inline vi add32(vi a, vi b) { return _mm512_add_epi32(a, b); }
inline vi sub8(vi a, vi b) { return _mm512_sub_epi8(a, b); }
inline vi look_up8(__m128i table, vi v) { return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), v); }
inline vi mul32(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
inline vi even_halves(vi even, vi odd) { return _mm512_mask_blend_epi16(0xaaaaaaaa, even, odd); }
inline vi products8(vi u, vi s) { return _mm512_maddubs_epi16(u, s); }
inline vi products16(vi a, vi b) { return _mm512_madd_epi16(a, b); }
inline vf to_float(vi v) { return _mm512_cvtepi32_ps(v); }
inline vf mul_f(vf a, vf b) { return _mm512_mul_ps(a, b); }
inline vf fma_f(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
inline vf minus_product(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
inline vf to_float(__m256i halves) { return _mm512_cvtph_ps(halves); }

inline vf as_float(vi v) { return _mm512_castsi512_ps(v); }

inline __m128 sum_each(const vf* v) {
  __m256 half[4];
  for (int i = 0; i < 4; ++i)
    half[i] = _mm256_add_ps(_mm512_castps512_ps256(v[i]),
                            _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v[i]), 1)));
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(half[0], half[1]), _mm256_hadd_ps(half[2], half[3]));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

using Halves = __m256i;
inline Halves load_words(const void* p) { return _mm256_loadu_si256(static_cast<const Halves*>(p)); }
inline vi to_dwords(Halves v) { return _mm512_cvtepu16_epi32(v); }
inline Halves low_words(vi v) { return _mm512_cvtepi32_epi16(v); }

inline void transpose(const __m128i* row, vi* out) {
  vi z[4];
  for (int j = 0; j < 4; ++j) {
    z[j] = _mm512_castsi128_si512(row[j]);
    z[j] = _mm512_inserti32x4(z[j], row[j + 4], 1);
    z[j] = _mm512_inserti32x4(z[j], row[j + 8], 2);
    z[j] = _mm512_inserti32x4(z[j], row[j + 12], 3);
  }
  const vi a = _mm512_unpacklo_epi32(z[0], z[1]), b = _mm512_unpackhi_epi32(z[0], z[1]);
  const vi c = _mm512_unpacklo_epi32(z[2], z[3]), d = _mm512_unpackhi_epi32(z[2], z[3]);
  out[0] = _mm512_unpacklo_epi64(a, c), out[1] = _mm512_unpackhi_epi64(a, c);
  out[2] = _mm512_unpacklo_epi64(b, d), out[3] = _mm512_unpackhi_epi64(b, d);
}

#ifdef TESSERA_EMULATE_AVX512
#define TESSERA_HOLD(a)
#define TESSERA_KEEP(a, b)
#else
#define TESSERA_HOLD(a) __asm__ volatile("" : "+v"(a))
#define TESSERA_KEEP(a, b) __asm__ volatile("" : "+v"(a), "+v"(b))
#endif

}  // namespace
}  // namespace tessera
