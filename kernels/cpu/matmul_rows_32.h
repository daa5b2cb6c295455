// Private to the x86 tiers: types with blocks of 32 values and few tokens, straight from raw rows. Decode runs here.
//
// Four blocks at a time, so that their scales are converted and multiplied together; per block one vpmaddubsw, one
// vpmaddwd with ones, one fma.
#pragma once
#include "matmul_codebook.h"
#include "matmul_rows.h"

namespace tessera {
namespace {

// Low nibbles of 16 bytes in the low half, high nibbles in the high half.
inline __m256i nibbles(const uint8_t* qs) {
  const __m128i v = load16(qs);
  return _mm256_and_si256(_mm256_setr_m128i(v, _mm_srli_epi16(v, 4)), _mm256_set1_epi8(15));
}
// Bit i of a word to bit 4 of byte i.
inline __m256i fifth_bit_bytes(const uint8_t* qh) {
  return _mm256_and_si256(bit_bytes(static_cast<uint32_t>(load32(qh))), _mm256_set1_epi8(16));
}

struct Factors {  // of four blocks; `m` multiplies the scaled sums
  __m128 d, m;
};

// The low halves of four words as floats.
inline __m128 low_halves(__m128i words) {
  const __m128i low = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13);
  return _mm_cvtph_ps(_mm_shuffle_epi8(words, low));
}

// Each: quants (unsigned, or signed without an offset), and from the blocks' first words, (d, m) or (d, quants), what
// multiplies scale and scaled sum of the activations.
template <class Block, bool kMinField, bool kFifthBit, int kOffset>
struct NibbleRow {
  static constexpr int kBytes = sizeof(Block);
  static constexpr bool kHasSum = true;
  static constexpr float kSumFactor = kMinField ? 1.0f : -kOffset;  // of what multiplies the sum: m, or d
  static constexpr bool kHasFifthBit = kFifthBit;
  static Factors factors(__m128i words) {
    const __m128 d = low_halves(words);
    return {d, kMinField ? low_halves(_mm_srli_epi32(words, 16)) : d};
  }
  static __m256i quants(const uint8_t* w) {
    const __m256i q = nibbles(w + kBytes - 16);
    return kFifthBit ? _mm256_or_si256(q, fifth_bit_bytes(w + kBytes - 20)) : q;
  }
  static __m256i products(__m256i q, __m256i x) { return _mm256_maddubs_epi16(q, x); }
};
using Q4_0Row = NibbleRow<BlockQ4_0, false, false, 8>;
using Q4_1Row = NibbleRow<BlockQ4_1, true, false, 0>;
using Q5_0Row = NibbleRow<BlockQ5_0, false, true, 16>;
using Q5_1Row = NibbleRow<BlockQ5_1, true, true, 0>;

struct SignedRow {
  static constexpr bool kHasSum = false;
  static constexpr float kSumFactor = 0.0f;
  static Factors factors(__m128i words) { return {low_halves(words), _mm_setzero_ps()}; }
  static __m256i products(__m256i q, __m256i x) {  // |w| <= 128 and |x| <= 127: two products fit int16
    return _mm256_maddubs_epi16(_mm256_abs_epi8(q), _mm256_sign_epi8(x, q));
  }
};
struct Q8_0Row : SignedRow {
  static constexpr int kBytes = sizeof(BlockQ8_0);
  static __m256i quants(const uint8_t* w) { return load256(w + 2); }
};
struct IQ4_NLRow : SignedRow {
  static constexpr int kBytes = sizeof(BlockIQ4_NL);
  static __m128i codebook() { return load_codebook(kIq4Values); }
  static __m256i quants(const uint8_t* w) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(codebook()), nibbles(w + 2));
  }
};
struct MXFP4Row : SignedRow {
  static constexpr int kBytes = sizeof(BlockMXFP4);
  static __m128i codebook() { return load_codebook(kMxfp4Values); }
  static Factors factors(__m128i words) {
    return {power_of_two(_mm_and_si128(words, _mm_set1_epi32(255))), _mm_setzero_ps()};
  }
  static __m256i quants(const uint8_t* w) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(codebook()), nibbles(w + 1));
  }
};

// The first kCount blocks' factors; the rest meet activations of scale zero.
template <class Row, int kCount>
inline Factors factors(const uint8_t* w) {
  const auto at = [&](int b) { return b < kCount ? load32(w + b * Row::kBytes) : 0; };
  return Row::factors(_mm_setr_epi32(at(0), at(1), at(2), at(3)));
}

template <int T>
struct RowSums {
  __m256 products[T][2];  // two, because one chain of fma would be slower than the products
  __m128 offsets[T];
  RowSums() {
    for (int t = 0; t < T; ++t) {
      products[t][0] = products[t][1] = _mm256_setzero_ps();
      offsets[t] = _mm_setzero_ps();
    }
  }
};

// The first kCount of four floats, the rest zero.
template <int kCount>
inline __m128 load_floats(const uint8_t* p) {
  const float* values = reinterpret_cast<const float*>(p);
  if constexpr (kCount == 4) return _mm_loadu_ps(values);
  return _mm_maskload_ps(values, _mm_setr_epi32(-1, kCount > 1 ? -1 : 0, kCount > 2 ? -1 : 0, 0));
}

// Blocks [b, b + kCount) of one row against T tokens.
template <class Row, int T, int kCount>
inline void add_blocks(const uint8_t* w, const MatmulTask& task, const Record32& at, int b, RowSums<T>& sums) {
  const __m256i ones = _mm256_set1_epi16(1);
  const Factors f = factors<Row, kCount>(w);
  alignas(16) float scales[T][4];
  for (int t = 0; t < T; ++t) {
    const uint8_t* record = task.packed + t * at.stride + 4 * b;
    _mm_store_ps(scales[t], _mm_mul_ps(f.d, load_floats<kCount>(record + at.scales)));
    if constexpr (Row::kHasSum)
      sums.offsets[t] = _mm_fmadd_ps(f.m, load_floats<kCount>(record + at.sums), sums.offsets[t]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
    const __m256i q = Row::quants(w + i * Row::kBytes);
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) {
      const __m256i x = load256(task.packed + t * at.stride + 32 * (b + i));
      const __m256i product = _mm256_madd_epi16(Row::products(q, x), ones);
      sums.products[t][i % 2] =
          _mm256_fmadd_ps(_mm256_cvtepi32_ps(product), _mm256_broadcast_ss(&scales[t][i]), sums.products[t][i % 2]);
    }
  }
}

// The blocks past the last whole four.
template <class Row, int T>
inline void add_last(const uint8_t* w, const MatmulTask& task, const Record32& at, int b, int count, RowSums<T>& sums) {
  switch (count) {
    case 1:
      return add_blocks<Row, T, 1>(w, task, at, b, sums);
    case 2:
      return add_blocks<Row, T, 2>(w, task, at, b, sums);
    case 3:
      return add_blocks<Row, T, 3>(w, task, at, b, sums);
    default:
      return;
  }
}

template <class Row, int T>
inline float total(const RowSums<T>& sums, int t) {
  const float products = sum8(_mm256_add_ps(sums.products[t][0], sums.products[t][1]));
  if constexpr (!Row::kHasSum) return products;
  const __m128 pairs = _mm_add_ps(sums.offsets[t], _mm_movehl_ps(sums.offsets[t], sums.offsets[t]));
  return products + Row::kSumFactor * _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehdup_ps(pairs)));
}

// kRows rows, `apart` rows from one another, against T tokens.
template <class Row, int kRows, int T>
inline void multiply_rows_32(const MatmulTask& task, const Record32& at, int row, int apart) {
  const int blocks = task.cols / 32;
  const uint8_t* w = task.weights + row * task.row_bytes;
  const size_t distance = static_cast<size_t>(apart) * task.row_bytes;
  RowSums<T> sums[kRows];
  int b = 0;
  for (; b + 4 <= blocks; b += 4, w += 4 * Row::kBytes)
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) {
      prefetch_ahead(w + r * distance, 4 * Row::kBytes);
      add_blocks<Row, T, 4>(w + r * distance, task, at, b, sums[r]);
    }
  for (int r = 0; r < kRows; ++r) {
    add_last<Row, T>(w + r * distance, task, at, b, blocks - b, sums[r]);
    for (int t = 0; t < T; ++t) task.out[t * task.out_stride + row + r * apart] = total<Row, T>(sums[r], t);
  }
}
template <class Row, int T>
inline void multiply_row(const MatmulTask& task, const Record32& at, int row) {
  multiply_rows_32<Row, 1, T>(task, at, row, 0);
}

template <class Row>
struct Rows32Blocks {
  template <int T>
  static void multiply(const MatmulTask& task) {
    constexpr int kRows = T == 1 ? 2 : 1;  // as RowsK
    const Record32 at(task.cols);
    const int apart = task.rows / kRows;
    for (int row = 0; row < apart; ++row) multiply_rows_32<Row, kRows, T>(task, at, row, apart);
    for (int row = apart * kRows; row < task.rows; ++row) multiply_row<Row, T>(task, at, row);
  }
};

// 16 bytes of each of two neighbouring blocks.
inline __m256i load_pair(const uint8_t* p, int block_bytes) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(p)), load16(p + block_bytes), 1);
}
// Bytes ahead of those that are multiplied that are fetched at least: short rows would be waited for.
constexpr size_t kLeastAhead = 2048;

}  // namespace
}  // namespace tessera
