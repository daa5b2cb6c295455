// Private to the x86 tiers: helpers of the products straight from raw rows, which few tokens take.
#pragma once
#include <immintrin.h>

#include "matmul.h"
#include "packed.h"

namespace tessera {
namespace {

// What the compiler would call, and keep nothing in registers meanwhile.
#define TESSERA_INLINE __attribute__((always_inline))

constexpr int kPrefetchBytes = 2048;  // ahead of the block in work

inline void prefetch_ahead(const uint8_t* p, int bytes) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(p) + kPrefetchBytes;  // may lie past the weights: only a hint
  for (int i = 0; i < bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(at + i), _MM_HINT_T0);
}

// What lies some rows further on, into the second-level cache.
inline void prefetch_rows(const uint8_t* p, size_t bytes) {
  _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(p) + bytes), _MM_HINT_T1);
}

inline __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline float half1(const void* p) {
  uint16_t half;
  std::memcpy(&half, p, 2);
  return _cvtsh_ss(half);
}
inline float sum8(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

}  // namespace
}  // namespace tessera
