// Private to the x86 tiers: MXFP4 and IQ4_NL with few tokens, straight from raw rows.
//
// Four blocks at a time become one vector of int32 sums, two lanes a block: [0 0 2 2 | 1 1 3 3]. Their scales are
// converted in that order, and one fma scales them all. One token takes four rows at once: they share its activations,
// and several rows are read from memory at once, which one alone does not keep busy.
#pragma once
#include "matmul_rows_nibble_pairs.h"

namespace tessera {
namespace {

// What nibbles stand for. Unsigned values are kCentre too large, which the activations' sums take off again.
template <class Row>
struct Nibbles4;
template <>
struct Nibbles4<MXFP4Row> {
  static constexpr bool kSigned = false;
  static constexpr int kCentre = 12;
  static __m256i values(__m256i nibbles) {
    const __m128i table = _mm_add_epi8(MXFP4Row::codebook(), _mm_set1_epi8(kCentre));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles);
  }
};
template <>
struct Nibbles4<IQ4_NLRow> {
  static constexpr bool kSigned = true;
  static constexpr int kCentre = 0;
  static __m256i values(__m256i nibbles) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(IQ4_NLRow::codebook()), nibbles);
  }
};

// What belongs to four blocks to their lanes, twice or beside zero.
inline __m256 twice(__m128 v) {
  return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(v), _mm256_setr_epi32(0, 0, 2, 2, 1, 1, 3, 3));
}
inline __m256i once(__m128i v) {
  return _mm256_permutevar8x32_epi32(_mm256_zextsi128_si256(v), _mm256_setr_epi32(0, 4, 2, 4, 1, 4, 3, 4));
}

// Ones in the lanes of all but the first `n` blocks of four.
inline __m256 all_but(int n) {
  alignas(16) static const int32_t ones[7] = {0, 0, 0, -1, -1, -1, -1};
  return twice(_mm_castsi128_ps(load16(reinterpret_cast<const uint8_t*>(ones + 3 - n))));
}

inline __m128 sums_of_four(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

template <class Row>
struct FourActivations {
  __m256i x[4];  // first and second halves of blocks 0 and 1, then of 2 and 3
  __m256i centre;
  __m256 scales;
  void load(const uint8_t* record, const Record32& at, int b) {
    for (int i = 0; i < 4; ++i) x[i] = load_pair(record + 32 * b + i / 2 * 64 + i % 2 * 16, 32);
    scales = twice(_mm_loadu_ps(reinterpret_cast<const float*>(record + at.scales + 4 * b)));
    if constexpr (Nibbles4<Row>::kCentre != 0)
      centre =
          _mm256_madd_epi16(once(load16(record + at.pair_sums + 4 * b)), _mm256_set1_epi16(-Nibbles4<Row>::kCentre));
  }
};

template <class Row>
struct FourBlocks {
  __m256i q[4];  // as the activations
  __m256 d;
  TESSERA_INLINE void load(const uint8_t* w) {
    d = twice(factors<Row, 4>(w).d);
    const __m256i mask = _mm256_set1_epi8(15);
    for (int i = 0; i < 4; i += 2) {
      const __m256i raw = load_pair(w + (i + 1) * Row::kBytes - 16, Row::kBytes);
      q[i] = Nibbles4<Row>::values(_mm256_and_si256(raw, mask));
      q[i + 1] = Nibbles4<Row>::values(_mm256_and_si256(_mm256_srli_epi16(raw, 4), mask));
    }
  }

  __m256i products(const FourActivations<Row>& a) const {
    const __m256i ones = _mm256_set1_epi16(1);
    if constexpr (Nibbles4<Row>::kSigned) {
      const auto sums = [&](int i) {
        const __m256i two = _mm256_maddubs_epi16(_mm256_abs_epi8(a.x[i]), _mm256_sign_epi8(q[i], a.x[i]));
        return _mm256_madd_epi16(two, ones);
      };
      return _mm256_hadd_epi32(_mm256_add_epi32(sums(0), sums(1)), _mm256_add_epi32(sums(2), sums(3)));
    } else {  // eight products fit 16 bits: 8 * 24 * 127 = 24384
      const auto sums = [&](int i) {
        const __m256i low = _mm256_maddubs_epi16(q[i], a.x[i]), high = _mm256_maddubs_epi16(q[i + 1], a.x[i + 1]);
        return _mm256_madd_epi16(_mm256_add_epi16(low, high), ones);
      };
      return _mm256_madd_epi16(_mm256_packs_epi32(sums(0), sums(2)), ones);
    }
  }
  __m256 add(const FourActivations<Row>& a, __m256 sum) const {
    return _mm256_fmadd_ps(centred(a), _mm256_mul_ps(d, a.scales), sum);
  }
  // Only what `mask` has ones for.
  __m256 add(const FourActivations<Row>& a, __m256 sum, __m256 mask) const {
    return _mm256_fmadd_ps(centred(a), _mm256_and_ps(_mm256_mul_ps(d, a.scales), mask), sum);
  }
  __m256 centred(const FourActivations<Row>& a) const {
    __m256i product = products(a);
    if constexpr (Nibbles4<Row>::kCentre != 0) product = _mm256_add_epi32(product, a.centre);
    return _mm256_cvtepi32_ps(product);
  }
};

// Rows [row, row + kRows) against T tokens. The rows that follow are fetched in the order in which they lie. Blocks
// that are left at a row's end are multiplied with those before them once more, which then count nothing.
template <class Row, int kRows, int T>
inline void multiply_nibbles(const MatmulTask& task, const Record32& at, int row) {
  const int blocks = task.cols / 32, whole = blocks / 4 * 4;
  const uint8_t* first = task.weights + row * task.row_bytes;
  const uint8_t* w = first;
  const size_t group = kRows * task.row_bytes, ahead = (kLeastAhead + group - 1) / group * group;
  __m256 sums[kRows][T];
  for (int r = 0; r < kRows; ++r)
    for (int t = 0; t < T; ++t) sums[r][t] = _mm256_setzero_ps();
  for (int b = 0; b < whole; b += 4, w += 4 * Row::kBytes) {
    for (int i = 0; i < kRows * 4 * Row::kBytes; i += 64)
      prefetch_rows(first, ahead + kRows * static_cast<size_t>(w - first) + static_cast<size_t>(i));
    FourActivations<Row> x[T];
    for (int t = 0; t < T; ++t) x[t].load(task.packed + t * at.stride, at, b);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      FourBlocks<Row> four;
      four.load(w + r * task.row_bytes);
      for (int t = 0; t < T; ++t) sums[r][t] = four.add(x[t], sums[r][t]);
    }
  }
  if (whole < blocks) {
    const __m256 mask = all_but(whole + 4 - blocks);
    FourActivations<Row> x[T];
    for (int t = 0; t < T; ++t) x[t].load(task.packed + t * at.stride, at, blocks - 4);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      FourBlocks<Row> four;
      four.load(first + r * task.row_bytes + (blocks - 4) * Row::kBytes);
      for (int t = 0; t < T; ++t) sums[r][t] = four.add(x[t], sums[r][t], mask);
    }
  }
  if constexpr (kRows == 4 && T == 1) {
    _mm_storeu_ps(task.out + row, sums_of_four(sums[0][0], sums[1][0], sums[2][0], sums[3][0]));
  } else {
    for (int r = 0; r < kRows; ++r)
      for (int t = 0; t < T; ++t) task.out[t * task.out_stride + row + r] = sum8(sums[r][t]);
  }
}

template <class Row>
struct NibbleRows {
  template <int T>
  static void multiply(const MatmulTask& task) {
    constexpr int kRows = T == 1 ? 4 : 2;
    const Record32 at(task.cols);
    int row = 0;
    if (task.cols >= 4 * 32)
      for (; row + kRows <= task.rows; row += kRows) multiply_nibbles<Row, kRows, T>(task, at, row);
    for (; row < task.rows; ++row) multiply_row<Row, T>(task, at, row);
  }
};

template <class Row>
struct RowsOf32 : Rows32Blocks<Row> {};
template <>
struct RowsOf32<Q4_0Row> : NibblePairRows<Q4_0Row> {};
template <>
struct RowsOf32<Q4_1Row> : NibblePairRows<Q4_1Row> {};
template <>
struct RowsOf32<MXFP4Row> : NibbleRows<MXFP4Row> {};
template <>
struct RowsOf32<IQ4_NLRow> : NibbleRows<IQ4_NLRow> {};

}  // namespace
}  // namespace tessera
