// AVX-512 intrinsics: the compiler's, or in the emulated build (tests on machines without AVX-512) SIMDe's portable
// ones.
#pragma once
#include <immintrin.h>
#ifdef TESSERA_EMULATE_AVX512
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

// What SIMDe 0.7.4 lacks of the intrinsics in use, lane by lane as the instruction set manual has them.
namespace tessera {
namespace {

template <class Vector, class Element>
struct LanesOf {
  static constexpr int kCount = sizeof(Vector) / sizeof(Element);
  alignas(64) Element lane[kCount];
  LanesOf() = default;
  explicit LanesOf(const Vector& v) { __builtin_memcpy(lane, &v, sizeof lane); }
  Vector vector() const {
    Vector v;
    __builtin_memcpy(&v, lane, sizeof lane);
    return v;
  }
};

inline simde__m512 emulated_cvtph_ps(__m256i halves) {
  const LanesOf<__m256i, __m128i> in(halves);
  LanesOf<simde__m512, __m256> out;
  out.lane[0] = _mm256_cvtph_ps(in.lane[0]), out.lane[1] = _mm256_cvtph_ps(in.lane[1]);
  return out.vector();
}

inline simde__m512 emulated_cvtepi32_ps(simde__m512i v) {
  const LanesOf<simde__m512i, int32_t> in(v);
  LanesOf<simde__m512, float> out;
  for (int i = 0; i < 16; ++i) out.lane[i] = static_cast<float>(in.lane[i]);
  return out.vector();
}

inline __m256i emulated_cvtepi32_epi16(simde__m512i v) {
  const LanesOf<simde__m512i, int32_t> in(v);
  LanesOf<__m256i, int16_t> out;
  for (int i = 0; i < 16; ++i) out.lane[i] = static_cast<int16_t>(in.lane[i]);
  return out.vector();
}

inline simde__m512i emulated_cvtepu16_epi32(__m256i v) {
  const LanesOf<__m256i, uint16_t> in(v);
  LanesOf<simde__m512i, uint32_t> out;
  for (int i = 0; i < 16; ++i) out.lane[i] = in.lane[i];
  return out.vector();
}

inline simde__m512i emulated_mask_srli_epi32(simde__m512i source, uint16_t mask, simde__m512i v, unsigned count) {
  const LanesOf<simde__m512i, uint32_t> in(v);
  LanesOf<simde__m512i, uint32_t> out(source);
  for (int i = 0; i < 16; ++i)
    if (mask >> i & 1) out.lane[i] = count > 31 ? 0 : in.lane[i] >> count;
  return out.vector();
}

inline simde__m512i emulated_shuffle_i64x2(simde__m512i a, simde__m512i b, int order) {
  const LanesOf<simde__m512i, __m128i> from_a(a), from_b(b);
  LanesOf<simde__m512i, __m128i> out;
  for (int i = 0; i < 4; ++i) out.lane[i] = (i < 2 ? from_a : from_b).lane[order >> 2 * i & 3];
  return out.vector();
}

}  // namespace
}  // namespace tessera
#undef _mm512_madd_epi16  // an alias with four parameters there
#undef _mm512_cvtph_ps
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtepi32_epi16
#undef _mm512_cvtepu16_epi32
#undef _mm512_mask_srli_epi32
#undef _mm512_shuffle_i64x2
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)
#define _mm512_cvtph_ps(v) tessera::emulated_cvtph_ps(v)
#define _mm512_cvtepi32_ps(v) tessera::emulated_cvtepi32_ps(v)
#define _mm512_cvtepi32_epi16(v) tessera::emulated_cvtepi32_epi16(v)
#define _mm512_cvtepu16_epi32(v) tessera::emulated_cvtepu16_epi32(v)
#define _mm512_mask_srli_epi32(s, k, v, n) tessera::emulated_mask_srli_epi32(s, k, v, n)
#define _mm512_shuffle_i64x2(a, b, order) tessera::emulated_shuffle_i64x2(a, b, order)
#endif
