// Private to the x86 tiers: Q4_0 and Q4_1 with few tokens, straight from raw rows.
//
// Four blocks of two neighbouring rows, a and b, become one vector of int32 sums, a lane a block: [a0 a2 b0 b2 |
// a1 a3 b1 b3]. Their scales are taken from the blocks in that order, so that one fma scales all eight. One token takes
// two such pairs at once: they share its activations.
#pragma once
#include <type_traits>

#include "matmul_rows_32.h"

namespace tessera {
namespace {

// What belongs to four blocks, in the lanes of both rows.
inline __m256 for_pair(__m128 v) {
  return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(v), _mm256_setr_epi32(0, 2, 0, 2, 1, 3, 1, 3));
}
// Ones in the lanes of all but the first `n` blocks of four.
inline __m256 all_but_for_pair(int n) {
  alignas(16) static const int32_t ones[7] = {0, 0, 0, -1, -1, -1, -1};
  return for_pair(_mm_castsi128_ps(load16(reinterpret_cast<const uint8_t*>(ones + 3 - n))));
}

// Word i of each is block i's first, wherever that lies: loads that begin as much earlier, blended.
template <int kBytes>
inline __m256i first_words32(const uint8_t* a, const uint8_t* b) {
  const __m256i a0 = load256(a), a2 = load256(a + 2 * kBytes - 4), b0 = load256(b - 8),
                b2 = load256(b + 2 * kBytes - 12), a1 = load256(a + kBytes - 16), a3 = load256(a + 3 * kBytes - 20),
                b1 = load256(b + kBytes - 24), b3 = load256(b + 3 * kBytes - 28);
  const __m256i even = _mm256_blend_epi32(_mm256_blend_epi32(a0, a2, 0x02), _mm256_blend_epi32(b0, b2, 0x08), 0x0c);
  const __m256i odd = _mm256_blend_epi32(_mm256_blend_epi32(a1, a3, 0x20), _mm256_blend_epi32(b1, b3, 0x80), 0xc0);
  return _mm256_blend_epi32(even, odd, 0xf0);
}
template <int kBytes>
inline __m128i first_words16(const uint8_t* a, const uint8_t* b) {
  const __m128i a0 = load16(a), a2 = load16(a + 2 * kBytes - 2), b0 = load16(b - 4), b2 = load16(b + 2 * kBytes - 6),
                a1 = load16(a + kBytes - 8), a3 = load16(a + 3 * kBytes - 10), b1 = load16(b + kBytes - 12),
                b3 = load16(b + 3 * kBytes - 14);
  const __m128i even = _mm_blend_epi16(_mm_blend_epi16(a0, a2, 0x02), _mm_blend_epi16(b0, b2, 0x08), 0x0c);
  const __m128i odd = _mm_blend_epi16(_mm_blend_epi16(a1, a3, 0x20), _mm_blend_epi16(b1, b3, 0x80), 0xc0);
  return _mm_blend_epi16(even, odd, 0xf0);
}

struct PairFactors {
  __m256 d, m;
};
template <class Row>
inline PairFactors pair_factors(const uint8_t* a, const uint8_t* b);
template <>
inline PairFactors pair_factors<Q4_0Row>(const uint8_t* a, const uint8_t* b) {
  return {_mm256_cvtph_ps(first_words16<Q4_0Row::kBytes>(a, b)), _mm256_setzero_ps()};
}
template <>
inline PairFactors pair_factors<Q4_1Row>(const uint8_t* a, const uint8_t* b) {
  const __m256i split =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  const __m256i halves =
      _mm256_permute4x64_epi64(_mm256_shuffle_epi8(first_words32<Q4_1Row::kBytes>(a, b), split), 0xd8);
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}

// Four blocks of one token.
template <class Row>
struct PairActivations {
  __m256i x[4];  // first and second halves of blocks 0 and 1, then of 2 and 3
  __m256i centre;
  __m256 scales, sums;
  void load(const uint8_t* record, const Record32& at, int b) {
    for (int i = 0; i < 4; ++i) x[i] = load_pair(record + 32 * b + i / 2 * 64 + i % 2 * 16, 32);
    const auto four = [&](size_t offset) {
      return for_pair(_mm_loadu_ps(reinterpret_cast<const float*>(record + offset + 4 * b)));
    };
    scales = four(at.scales);
    if constexpr (kHasMin)
      sums = four(at.sums);
    else  // nibbles are 8 too large
      centre = _mm256_madd_epi16(_mm256_castps_si256(four(at.pair_sums)), _mm256_set1_epi16(-8));
  }
  static constexpr bool kHasMin = std::is_same_v<Row, Q4_1Row>;
};

// Sixteen products fit 16 bits: 16 * 15 * 127 = 30480.
template <class Row>
inline __m256i sums_of_quarters(const uint8_t* w, const PairActivations<Row>& a) {
  const __m256i ones = _mm256_set1_epi16(1), mask = _mm256_set1_epi8(15);
  const auto sums = [&](int i) {
    const __m256i raw = load_pair(w + (i + 1) * Row::kBytes - 16, Row::kBytes);
    const __m256i low = _mm256_maddubs_epi16(_mm256_and_si256(raw, mask), a.x[i]);
    const __m256i high = _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(raw, 4), mask), a.x[i + 1]);
    return _mm256_madd_epi16(_mm256_add_epi16(low, high), ones);
  };
  return _mm256_madd_epi16(_mm256_packs_epi32(sums(0), sums(2)), ones);
}

// Adds four blocks of two rows; `mask` has ones for those that count.
template <class Row>
inline __m256 add_pair(const uint8_t* a, const uint8_t* b, const PairFactors& f, const PairActivations<Row>& x,
                       const __m256* mask, __m256 sum) {
  const __m256i both = _mm256_packs_epi32(sums_of_quarters<Row>(a, x), sums_of_quarters<Row>(b, x));
  __m256i products = _mm256_madd_epi16(both, _mm256_set1_epi16(1));
  const auto counted = [&](__m256 v) { return mask != nullptr ? _mm256_and_ps(v, *mask) : v; };
  if constexpr (PairActivations<Row>::kHasMin)
    sum = _mm256_fmadd_ps(counted(f.m), x.sums, sum);
  else
    products = _mm256_add_epi32(products, x.centre);
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(products), counted(_mm256_mul_ps(f.d, x.scales)), sum);
}

// kPairs pairs of rows from `row` on against T tokens. The rows that follow are fetched in the order in which they lie.
// Blocks that are left at a row's end are multiplied with those before them once more, which then count nothing.
template <class Row, int kPairs, int T>
inline void multiply_pairs(const MatmulTask& task, const Record32& at, int row) {
  const int blocks = task.cols / 32, whole = blocks / 4 * 4;
  const uint8_t* const first = task.weights + row * task.row_bytes;
  const size_t group = 2 * kPairs * task.row_bytes, ahead = (kLeastAhead + group - 1) / group * group;
  __m256 sums[kPairs][T];
  for (int p = 0; p < kPairs; ++p)
    for (int t = 0; t < T; ++t) sums[p][t] = _mm256_setzero_ps();
  const auto add = [&](int b, const __m256* mask) TESSERA_INLINE {
    PairActivations<Row> x[T];
    for (int t = 0; t < T; ++t) x[t].load(task.packed + t * at.stride, at, b);
#pragma GCC unroll 2
    for (int p = 0; p < kPairs; ++p) {
      const uint8_t* const a = first + 2 * p * task.row_bytes + b * Row::kBytes;
      const PairFactors factors = pair_factors<Row>(a, a + task.row_bytes);
      for (int t = 0; t < T; ++t) sums[p][t] = add_pair<Row>(a, a + task.row_bytes, factors, x[t], mask, sums[p][t]);
    }
  };
  for (int b = 0; b < whole; b += 4) {
    const size_t done = static_cast<size_t>(b) * Row::kBytes * 2 * kPairs;
    for (int i = 0; i < 2 * kPairs * 4 * Row::kBytes; i += 64)
      prefetch_rows(first, ahead + done + static_cast<size_t>(i));
    add(b, nullptr);
  }
  if (whole < blocks) {
    const __m256 mask = all_but_for_pair(whole + 4 - blocks);
    add(blocks - 4, &mask);
  }
  for (int t = 0; t < T; ++t) {
    float* const out = task.out + t * task.out_stride + row;
    const __m256 last = sums[kPairs - 1][t];
    const __m256 pairs = _mm256_hadd_ps(sums[0][t], last);  // [a b c d | a b c d]
    const __m128 rows = _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
    if constexpr (kPairs == 2)
      _mm_storeu_ps(out, rows);
    else
      _mm_storel_pi(reinterpret_cast<__m64*>(out), rows);
  }
}

template <class Row>
struct NibblePairRows {
  template <int T>
  static void multiply(const MatmulTask& task) {
    constexpr int kPairs = T == 1 ? 2 : 1;
    const Record32 at(task.cols);
    int row = 0;
    if (task.cols >= 4 * 32)
      for (; row + 2 * kPairs <= task.rows; row += 2 * kPairs) multiply_pairs<Row, kPairs, T>(task, at, row);
    for (; row < task.rows; ++row) multiply_row<Row, T>(task, at, row);
  }
};

}  // namespace
}  // namespace tessera
