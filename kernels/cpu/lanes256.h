// Vectors of 8 lanes (AVX2) under the names that the panel kernels use; lanes512.h has the same names for 16 lanes.
// Private to tier files, hence the anonymous namespace.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace tessera {
namespace {

using vi = __m256i;
using vf = __m256;
constexpr int kLanes = 8;

inline vi zero_i() { return _mm256_setzero_si256(); }
inline vf zero_f() { return _mm256_setzero_ps(); }
inline vi all8(int v) { return _mm256_set1_epi8(static_cast<char>(v)); }
inline vi all16(int v) { return _mm256_set1_epi16(static_cast<short>(v)); }
inline vi all32(int v) { return _mm256_set1_epi32(v); }
inline vf all_f(float v) { return _mm256_set1_ps(v); }
inline vi load_i(const void* p) { return _mm256_load_si256(static_cast<const vi*>(p)); }
inline void store_i(void* p, vi v) { _mm256_store_si256(static_cast<vi*>(p), v); }
inline vf load_f(const float* p) { return _mm256_load_ps(p); }
inline vf load_f_any(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
inline void store_f(float* p, vf v) { _mm256_store_ps(p, v); }
inline void store_f_any(float* p, vf v) { _mm256_storeu_ps(p, v); }
inline vi load_i_any(const void* p) { return _mm256_loadu_si256(static_cast<const vi*>(p)); }

inline vi and_i(vi a, vi b) { return _mm256_and_si256(a, b); }
inline vi or_i(vi a, vi b) { return _mm256_or_si256(a, b); }
inline vi xor_i(vi a, vi b) { return _mm256_xor_si256(a, b); }
inline vi right32(vi v, int n) { return _mm256_srli_epi32(v, n); }
inline vi left32(vi v, int n) { return _mm256_slli_epi32(v, n); }
inline vi left16(vi v, int n) { return _mm256_slli_epi16(v, n); }
inline vi right16(vi v, int n) { return _mm256_srli_epi16(v, n); }
inline vi right16_signed(vi v, int n) { return _mm256_srai_epi16(v, n); }
inline vi add16(vi a, vi b) { return _mm256_add_epi16(a, b); }
inline vi sub16(vi a, vi b) { return _mm256_sub_epi16(a, b); }
inline vi add32(vi a, vi b) { return _mm256_add_epi32(a, b); }
inline vi sub8(vi a, vi b) { return _mm256_sub_epi8(a, b); }
inline vi look_up8(__m128i table, vi v) { return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), v); }
inline vi mul32(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
inline vi even_halves(vi even, vi odd) { return _mm256_blend_epi16(even, odd, 0xaa); }  // 16-bit halves: low, high
inline vi products8(vi u, vi s) { return _mm256_maddubs_epi16(u, s); }  // u8 * s8, neighbours summed to int16
inline vi products16(vi a, vi b) { return _mm256_madd_epi16(a, b); }    // s16 * s16, neighbours summed to int32
inline vf to_float(vi v) { return _mm256_cvtepi32_ps(v); }
inline vf mul_f(vf a, vf b) { return _mm256_mul_ps(a, b); }
inline vf fma_f(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }           // a * b + c
inline vf minus_product(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a * b
inline vf to_float(__m128i halves) { return _mm256_cvtph_ps(halves); }

inline vf as_float(vi v) { return _mm256_castsi256_ps(v); }

// The sums of the lanes of four vectors.
inline __m128 sum_each(const vf* v) {
  const vf pairs = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

using Halves = __m128i;  // one 16-bit value per lane
inline Halves load_words(const void* p) { return _mm_loadu_si128(static_cast<const Halves*>(p)); }
inline vi to_dwords(Halves v) { return _mm256_cvtepu16_epi32(v); }
inline Halves low_words(vi v) {
  const vi low = and_i(v, all32(0xffff));
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08));
}

// 16 bytes of each row to 4 vectors: out[i] lane r = dword i of row r.
inline void transpose(const __m128i* row, vi* out) {
  vi z[4];
  for (int j = 0; j < 4; ++j) z[j] = _mm256_inserti128_si256(_mm256_castsi128_si256(row[j]), row[j + 4], 1);
  const vi a = _mm256_unpacklo_epi32(z[0], z[1]), b = _mm256_unpackhi_epi32(z[0], z[1]);
  const vi c = _mm256_unpacklo_epi32(z[2], z[3]), d = _mm256_unpackhi_epi32(z[2], z[3]);
  out[0] = _mm256_unpacklo_epi64(a, c), out[1] = _mm256_unpackhi_epi64(a, c);
  out[2] = _mm256_unpacklo_epi64(b, d), out[3] = _mm256_unpackhi_epi64(b, d);
}

// Holds a value in its register: without it GCC loads it again for each of its uses, and spills sums.
#define TESSERA_HOLD(a) __asm__ volatile("" : "+x"(a))
// Keeps accumulators in their registers: without it GCC reassociates the chains of additions and spills.
#define TESSERA_KEEP(a, b) __asm__ volatile("" : "+x"(a), "+x"(b))

}  // namespace
}  // namespace tessera
