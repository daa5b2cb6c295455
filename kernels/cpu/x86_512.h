// AVX-512 intrinsics: the compiler's, or in the emulated build (tests on machines without AVX-512) SIMDe's portable ones.
#pragma once
#include <immintrin.h>
#ifdef TESSERA_EMULATE_AVX512
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

// What SIMDe 0.7.4 lacks of what we use.
namespace tessera {
namespace {

inline simde__m512 emulated_cvtph_ps(__m256i halves) {
  simde__m512_private out;
  alignas(32) float low[8], high[8];
  _mm256_store_ps(low, _mm256_cvtph_ps(_mm256_castsi256_si128(halves)));
  _mm256_store_ps(high, _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
  for (int i = 0; i < 8; ++i) out.f32[i] = low[i], out.f32[i + 8] = high[i];
  return simde__m512_from_private(out);
}

inline __m256i emulated_cvtepi32_epi16(simde__m512i v) {
  const simde__m512i_private in = simde__m512i_to_private(v);
  alignas(32) int16_t out[16];
  for (int i = 0; i < 16; ++i) out[i] = static_cast<int16_t>(in.i32[i]);
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(out));
}

}  // namespace
}  // namespace tessera
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps(v) tessera::emulated_cvtph_ps(v)
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16(v) tessera::emulated_cvtepi32_epi16(v)
#endif
