// AVX2 tier, types with blocks of 32 values and one float scale each: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
//
// Panels: eight dword steps of vpmaddubsw + vpaddw cover a block, vpmaddwd with ones makes int32, one fma scales. 5-bit
// quants are centred (minus 16, through the activations' sums) so that 16 products fit int16; Q8_0 is split into two
// nibble planes of 8 rows, because 8-bit products do not fit: twice the multiplies, the same kernel.
// Rows: four blocks at a time, so that their scales are converted and multiplied together.
#include "matmul_avx2.h"

namespace tessera {
namespace {

// ---- panels ------------------------------------------------------------------------------------------------------

struct alignas(64) Panel32 {
  uint8_t q[8][kPanelRows][4];  // dword step, row; Q8_0: rows 8..15 of `q` are the high nibbles of rows 0..7
  float d[kPanelRows], m[kPanelRows];
};

inline __m256i* vector_of(void* p) { return static_cast<__m256i*>(p); }
inline __m256i nibble(__m256i v, int shift) {
  return _mm256_and_si256(_mm256_srli_epi32(v, shift), _mm256_set1_epi8(15));
}
// Bits 4s .. 4s + 3 of each lane to bit 4 of its four bytes.
inline __m256i fifth_bits(__m256i high, int s) {
  const __m256i four = _mm256_and_si256(_mm256_srli_epi32(high, 4 * s), _mm256_set1_epi32(15));
  const __m256i apart = _mm256_mullo_epi32(four, _mm256_set1_epi32(0x00204081));
  return _mm256_slli_epi32(_mm256_and_si256(apart, _mm256_set1_epi32(0x01010101)), 4);
}

template <class Block, bool kMinField, bool kFifthBit, int kOffset>
struct Nibbles {
  static constexpr int kBytes = sizeof(Block);
  static constexpr bool kHasMin = kMinField || (kOffset != 0 && !kFifthBit);
  static constexpr int kCentre = kFifthBit ? 4 : 0;  // log2
  static constexpr bool kRestore = kFifthBit && kMinField;  // the centre belongs to the value: add it back
  static void unpack8(const uint8_t* const* rows, size_t block, int half, Panel32& panel) {
    constexpr int kQs = kBytes - 16;
    const __m256 d = load_halves(rows, block);
    _mm256_store_ps(panel.d + half, d);
    if constexpr (kMinField) _mm256_store_ps(panel.m + half, load_halves(rows, block + 2));
    else if constexpr (kHasMin) _mm256_store_ps(panel.m + half, _mm256_mul_ps(d, _mm256_set1_ps(-kOffset)));
    __m256i v[4], high = _mm256_setzero_si256();
    load_8x4(rows, block + kQs, v);
    if constexpr (kFifthBit) {
      const auto at = [&](int r) { return load32(rows[r] + block + kQs - 4); };
      high = _mm256_setr_epi32(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7));
    }
    for (int s = 0; s < 8; ++s) {
      __m256i q = nibble(v[s % 4], s / 4 * 4);
      if constexpr (kFifthBit) q = _mm256_or_si256(q, fifth_bits(high, s));
      _mm256_store_si256(vector_of(panel.q[s][half]), q);
    }
  }
};

using Q4_0 = Nibbles<BlockQ4_0, false, false, 8>;
using Q4_1 = Nibbles<BlockQ4_1, true, false, 0>;
using Q5_0 = Nibbles<BlockQ5_0, false, true, 16>;
using Q5_1 = Nibbles<BlockQ5_1, true, true, 0>;

template <int T>
inline void sum_block(const Panel32& panel, const uint8_t* x, size_t stride, __m256i (&acc)[T][2]) {
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) {
    const __m256i* w = reinterpret_cast<const __m256i*>(panel.q[k]);
    const __m256i w0 = _mm256_load_si256(w), w1 = _mm256_load_si256(w + 1);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const __m256i value = broadcast32(x + t * stride + 4 * k);
      acc[t][0] = _mm256_add_epi16(acc[t][0], _mm256_maddubs_epi16(w0, value));
      acc[t][1] = _mm256_add_epi16(acc[t][1], _mm256_maddubs_epi16(w1, value));
      TESSERA_KEEP(acc[t][0], acc[t][1]);
    }
  }
}

template <class Type, int T>
__attribute__((noinline)) void tile_32(const Panel32* panel, int blocks, const uint8_t* packed, int cols,
                                       int first_block, float* out, ptrdiff_t out_stride, int count) {
  const Record32 at(cols);
  const size_t stride = at.stride;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256 sums[T][2];
  for (int t = 0; t < T; ++t) load_sums(out + t * out_stride, count, first_block == 0, sums[t]);
  for (int b = 0; b < blocks; ++b, ++panel) {
    const uint8_t* x = packed + static_cast<size_t>(first_block + b) * 32;
    const uint8_t* x_scale = packed + at.scales + static_cast<size_t>(first_block + b) * 4;
    const uint8_t* x_sums = packed + at.pair_sums + static_cast<size_t>(first_block + b) * 4;
    __m256i acc[T][2];
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      acc[t][0] = _mm256_setzero_si256();
      if constexpr (Type::kCentre != 0)
        acc[t][0] = _mm256_sub_epi16(acc[t][0], _mm256_slli_epi16(broadcast32(x_sums + t * stride), Type::kCentre));
      acc[t][1] = acc[t][0];
    }
    sum_block<T>(*panel, x, stride, acc);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const __m256 scale = broadcastf(x_scale + t * stride);
      for (int h = 0; h < 2; ++h) {
        __m256i product = _mm256_madd_epi16(acc[t][h], ones);
        if constexpr (Type::kRestore)
          product = _mm256_add_epi32(
              product, _mm256_madd_epi16(broadcast32(x_sums + t * stride), _mm256_set1_epi16(1 << Type::kCentre)));
        const __m256 d = _mm256_mul_ps(_mm256_load_ps(panel->d + 8 * h), scale);
        sums[t][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(product), d, sums[t][h]);
        if constexpr (Type::kHasMin)
          sums[t][h] = _mm256_fmadd_ps(_mm256_load_ps(panel->m + 8 * h),
                                       broadcastf(x_scale + t * stride + (at.sums - at.scales)), sums[t][h]);
      }
    }
  }
  for (int t = 0; t < T; ++t) store_sums(out + t * out_stride, count, sums[t]);
}

template <class Type>
struct Kernel32 {
  using Panel = Panel32;
  static constexpr int kValues = 32, kBytes = Type::kBytes, kChunk = 32;
  static void unpack(const uint8_t* const* rows, size_t block, Panel32& panel) {
    Type::unpack8(rows, block, 0, panel);
    Type::unpack8(rows + 8, block, 8, panel);
  }
  template <int T>
  static void tile(const Panel32* panel, int blocks, const uint8_t* packed, int cols, int first_block, float* out,
                   ptrdiff_t out_stride, int count) {
    tile_32<Type, T>(panel, blocks, packed, cols, first_block, out, out_stride, count);
  }
};

// Two half panels of 8 rows each; low nibbles are unsigned, high ones get 8 added and taken off through the sums.
struct PanelQ8 {
  Panel32 rows[2];
};

template <int T>
__attribute__((noinline)) void tile_q8(const PanelQ8* panel, int half, int blocks, const uint8_t* packed, int cols,
                                       int first_block, __m256 (&sums)[T][2]) {
  const Record32 at(cols);
  const size_t stride = at.stride;
  const __m256i ones = _mm256_set1_epi16(1), sixteens = _mm256_set1_epi16(16);
  for (int b = 0; b < blocks; ++b, ++panel) {
    const uint8_t* x = packed + static_cast<size_t>(first_block + b) * 32;
    const uint8_t* x_scale = packed + at.scales + static_cast<size_t>(first_block + b) * 4;
    const uint8_t* x_sums = packed + at.pair_sums + static_cast<size_t>(first_block + b) * 4;
    __m256i acc[T][2];
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      acc[t][0] = _mm256_setzero_si256();
      acc[t][1] = _mm256_sub_epi16(acc[t][0], _mm256_slli_epi16(broadcast32(x_sums + t * stride), 3));
    }
    sum_block<T>(panel->rows[half], x, stride, acc);
    const __m256 d = _mm256_load_ps(panel->rows[half].d);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const __m256i product = _mm256_add_epi32(_mm256_madd_epi16(acc[t][0], ones), _mm256_madd_epi16(acc[t][1], sixteens));
      sums[t][half] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(product),
                                      _mm256_mul_ps(d, broadcastf(x_scale + t * stride)), sums[t][half]);
    }
  }
}

struct KernelQ8 {
  using Panel = PanelQ8;
  static constexpr int kValues = 32, kBytes = sizeof(BlockQ8_0), kChunk = 16;
  static void unpack(const uint8_t* const* rows, size_t block, PanelQ8& panel) {
    for (int half = 0; half < 2; ++half) {
      Panel32& target = panel.rows[half];
      _mm256_store_ps(target.d, load_halves(rows + 8 * half, block));
      __m256i v[8];
      load_8x8(rows + 8 * half, block + 2, v);
      for (int s = 0; s < 8; ++s) {
        _mm256_store_si256(vector_of(target.q[s][0]), nibble(v[s], 0));
        _mm256_store_si256(vector_of(target.q[s][8]), _mm256_xor_si256(nibble(v[s], 4), _mm256_set1_epi8(8)));
      }
    }
  }
  template <int T>
  static void tile(const PanelQ8* panel, int blocks, const uint8_t* packed, int cols, int first_block, float* out,
                   ptrdiff_t out_stride, int count) {
    __m256 sums[T][2];
    for (int t = 0; t < T; ++t) load_sums(out + t * out_stride, count, first_block == 0, sums[t]);
    for (int half = 0; half < 2; ++half) tile_q8<T>(panel, half, blocks, packed, cols, first_block, sums);
    for (int t = 0; t < T; ++t) store_sums(out + t * out_stride, count, sums[t]);
  }
};

// ---- rows --------------------------------------------------------------------------------------------------------

constexpr int kPrefetchBytes = 2048;

// Low nibbles of 16 bytes in the low half, high nibbles in the high half.
inline __m256i nibbles(const uint8_t* qs) {
  const __m128i v = load128(qs);
  return _mm256_and_si256(_mm256_setr_m128i(v, _mm_srli_epi16(v, 4)), _mm256_set1_epi8(15));
}
// Bit i of a word to bit 4 of byte i.
inline __m256i fifth_bit_bytes(const uint8_t* qh) {
  const __m256i place = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
  const __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(broadcast32(qh), place), bit);
  return _mm256_and_si256(_mm256_cmpeq_epi8(spread, bit), _mm256_set1_epi8(16));
}

// Each: quants (unsigned, or signed for Q8_0), and what multiplies scale and scaled sum of the activations.
template <class Block, bool kMinField, bool kFifthBit, int kOffset>
struct NibbleRow {
  static constexpr int kBytes = sizeof(Block);
  static constexpr bool kHasSum = true;
  static constexpr float kSumFactor = kMinField ? 1.0f : -kOffset;  // of what multiplies the sum: m, or d
  static constexpr bool kHasMin = kMinField;
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

struct Q8_0Row {
  static constexpr int kBytes = sizeof(BlockQ8_0);
  static constexpr bool kHasSum = false, kHasMin = false;
  static constexpr float kSumFactor = 0.0f;
  static __m256i quants(const uint8_t* w) { return load256(w + 2); }
  static __m256i products(__m256i q, __m256i x) {  // |w| <= 128 and |x| <= 127: two products fit int16
    return _mm256_maddubs_epi16(_mm256_abs_epi8(q), _mm256_sign_epi8(x, q));
  }
};

struct Factors {  // of four blocks; `m` multiplies the scaled sums
  __m128 d, m;
};

// The first kCount blocks' factors, the rest zero.
template <class Row, int kCount>
inline Factors factors(const uint8_t* w) {
  const auto at = [&](int b) { return b < kCount ? load32(w + b * Row::kBytes) : 0; };
  const __m128i words = _mm_setr_epi32(at(0), at(1), at(2), at(3));  // (d, m) or (d, quants)
  const __m128i low = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 0, 1, 4, 5, 8, 9, 12, 13);
  const __m128 d = _mm_cvtph_ps(_mm_shuffle_epi8(words, low));
  if constexpr (!Row::kHasMin) return {d, d};
  return {d, _mm_cvtph_ps(_mm_shuffle_epi8(_mm_srli_epi32(words, 16), low))};
}

template <int T>
struct RowSums {
  __m256 products[T];
  __m128 offsets[T];
};

// Blocks [b, b + kCount) of one row against T tokens.
template <class Row, int T, int kCount>
inline void add_blocks(const uint8_t* w, const MatmulTask& task, const Record32& at, int b, RowSums<T>& sums) {
  const __m256i ones = _mm256_set1_epi16(1);
  const Factors f = factors<Row, kCount>(w);
  alignas(16) float scales[T][4];
  for (int t = 0; t < T; ++t) {
    const uint8_t* record = task.packed + t * at.stride + 4 * b;  // reads up to 12 bytes more than the last block's
    const __m128 x_scales = _mm_loadu_ps(reinterpret_cast<const float*>(record + at.scales));
    _mm_store_ps(scales[t], _mm_mul_ps(f.d, x_scales));
    if constexpr (Row::kHasSum) {
      __m128 x_sums = _mm_loadu_ps(reinterpret_cast<const float*>(record + at.sums));
      if constexpr (kCount == 1) x_sums = _mm_move_ss(_mm_setzero_ps(), x_sums);
      sums.offsets[t] = _mm_fmadd_ps(f.m, x_sums, sums.offsets[t]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
    const __m256i q = Row::quants(w + i * Row::kBytes);
#pragma GCC unroll 3
    for (int t = 0; t < T; ++t) {
      const __m256i x = load256(task.packed + t * at.stride + 32 * (b + i));
      const __m256i product = _mm256_madd_epi16(Row::products(q, x), ones);
      sums.products[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(product), _mm256_broadcast_ss(&scales[t][i]), sums.products[t]);
    }
  }
}

template <class Row, int T>
void multiply_rows_32(const MatmulTask& task) {
  const Record32 at(task.cols);
  const int blocks = task.cols / 32;
  for (int r = 0; r < task.rows; ++r) {
    const uint8_t* w = task.weights + r * task.row_bytes;
    RowSums<T> sums;
    for (int t = 0; t < T; ++t) sums.products[t] = _mm256_setzero_ps(), sums.offsets[t] = _mm_setzero_ps();
    int b = 0;
    for (; b + 4 <= blocks; b += 4, w += 4 * Row::kBytes) {
      for (int i = 0; i < 4 * Row::kBytes; i += 64)
        _mm_prefetch(reinterpret_cast<const char*>(w) + kPrefetchBytes + i, _MM_HINT_T0);
      add_blocks<Row, T, 4>(w, task, at, b, sums);
    }
    for (; b < blocks; ++b, w += Row::kBytes) add_blocks<Row, T, 1>(w, task, at, b, sums);
    for (int t = 0; t < T; ++t) {
      float sum = sum8(sums.products[t]);
      if constexpr (Row::kHasSum) {
        const __m128 pairs = _mm_add_ps(sums.offsets[t], _mm_movehl_ps(sums.offsets[t], sums.offsets[t]));
        sum += Row::kSumFactor * _mm_cvtss_f32(_mm_add_ss(pairs, _mm_movehdup_ps(pairs)));
      }
      task.out[t * task.out_stride + r] = sum;
    }
  }
}

template <class Kernel, class Row>
void multiply_32(const MatmulTask& task) {
  switch (task.tokens) {
    case 1: return multiply_rows_32<Row, 1>(task);
    case 2: return multiply_rows_32<Row, 2>(task);
    case 3: return multiply_rows_32<Row, 3>(task);
    default: return multiply_panels<Kernel>(task, Record32(task.cols).stride);
  }
}

template <class Kernel, class Row>
void fill(MatmulTable& table, QuantType type) {
  MatmulKernels& row = table.types[static_cast<int>(type)];
  row.tier = "avx2";
  row.row_step = kPanelRows;
  row.scratch_bytes = panel_scratch_bytes<Kernel>;
  row.multiply = multiply_32<Kernel, Row>;
}

}  // namespace

void fill_avx2_32(MatmulTable& table) {
  fill<Kernel32<Q4_0>, Q4_0Row>(table, QuantType::Q4_0);
  fill<Kernel32<Q4_1>, Q4_1Row>(table, QuantType::Q4_1);
  fill<Kernel32<Q5_0>, Q5_0Row>(table, QuantType::Q5_0);
  fill<Kernel32<Q5_1>, Q5_1Row>(table, QuantType::Q5_1);
  fill<KernelQ8, Q8_0Row>(table, QuantType::Q8_0);
}

}  // namespace tessera
