// Private to the x86 tiers: float weights (F32, F16, BF16) times float32 activations, summed in float32 by fma.
//
// Panels of 2 x kLanes rows x 6 tokens as for the quantised types, with one value per lane; 16-bit weights are widened
// once per panel. Up to 8 or 12 tokens rows are multiplied as they stand, lanes along the columns, in tiles of 4 rows x
// 3 tokens or 3 x 4: 12 sums, and several rows are read from memory at once, which one alone does not keep busy.
#pragma once
#include "matmul_panels.h"
#include "matmul_rows.h"

namespace tessera {
namespace {

inline __m128i load8_bytes(const uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }

struct LoadF32 {
  static constexpr int kBytes = 4;
  static vf load(const uint8_t* p) { return load_f_any(p); }
  static __m128 load4(const uint8_t* p) { return _mm_loadu_ps(reinterpret_cast<const float*>(p)); }
  static float load1(const uint8_t* p) { return loadf(p); }
};
struct LoadF16 {
  static constexpr int kBytes = 2;
  static vf load(const uint8_t* p) { return to_float(load_words(p)); }
  static vf even(vi pairs) { return halves_low(pairs); }
  static vf odd(vi pairs) { return halves_high(pairs); }
  static __m128 load4(const uint8_t* p) { return _mm_cvtph_ps(load8_bytes(p)); }
  static float load1(const uint8_t* p) { return half1(p); }
};
struct LoadBF16 {
  static constexpr int kBytes = 2;
  static vf load(const uint8_t* p) { return as_float(left32(to_dwords(load_words(p)), 16)); }
  static vf even(vi pairs) { return as_float(left32(pairs, 16)); }
  static vf odd(vi pairs) { return as_float(and_i(pairs, all32(-0x10000))); }
  static __m128 load4(const uint8_t* p) {
    return _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(load8_bytes(p)), 16));
  }
  static float load1(const uint8_t* p) {
    const uint32_t bits = static_cast<uint32_t>(p[0]) << 16 | static_cast<uint32_t>(p[1]) << 24;
    return loadf(&bits);
  }
};

// ---- panels ------------------------------------------------------------------------------------------------------

struct alignas(64) PanelFloat {  // 64 values
  float w[64][kPanelRows];
};

template <class Load>
struct FloatPanels {
  using Panel = PanelFloat;
  static constexpr int kValues = 64, kBytes = 64 * Load::kBytes, kChunk = 48 / kLanes;

  // Values [k, k + 4) of kLanes rows.
  static void unpack_four(const uint8_t* const* rows, size_t offset, int lane, int k, PanelFloat& panel) {
    __m128i row[kLanes];
    for (int r = 0; r < kLanes; ++r) row[r] = _mm_castps_si128(Load::load4(rows[r] + offset + k * Load::kBytes));
    vi out[4];
    transpose(row, out);
    for (int i = 0; i < 4; ++i) store_i(&panel.w[k + i][lane], out[i]);
  }
  // Two 16-bit values a dword: fewer visits of each row.
  static void unpack_eight(const uint8_t* const* rows, size_t offset, int lane, int k, PanelFloat& panel) {
    vi pairs[4];
    load_x4(rows, offset + static_cast<size_t>(k) * Load::kBytes, pairs);
    for (int i = 0; i < 4; ++i) {
      store_f(&panel.w[k + 2 * i][lane], Load::even(pairs[i]));
      store_f(&panel.w[k + 2 * i + 1][lane], Load::odd(pairs[i]));
    }
  }
  static void unpack(const uint8_t* const* rows, size_t offset, int half, PanelFloat& panel) {
    if constexpr (Load::kBytes == 2)
      for (int k = 0; k < 64; k += 8) unpack_eight(rows, offset, half * kLanes, k, panel);
    else
      for (int k = 0; k < 64; k += 4) unpack_four(rows, offset, half * kLanes, k, panel);
  }
  // The first `count` < 64 values, for the end of the rows.
  static void unpack_tail(const uint8_t* const* rows, size_t offset, int half, int count, PanelFloat& panel) {
    const int fours = count / 4 * 4;
    for (int k = 0; k < fours; k += 4) unpack_four(rows, offset, half * kLanes, k, panel);
    for (int k = fours; k < count; ++k)
      for (int r = 0; r < kLanes; ++r) panel.w[k][half * kLanes + r] = Load::load1(rows[r] + offset + k * Load::kBytes);
  }

  template <int T>
  static __attribute__((noinline)) void multiply_values(const PanelFloat* panel, int count, const Tile& tile) {
    const size_t stride = float_stride(tile.cols);
    const uint8_t* x = tile.packed + static_cast<size_t>(tile.first_block) * 64 * sizeof(float);
    const float* w = panel->w[0];
    vf sums[T][2];
    for (int t = 0; t < T; ++t) load_sums(tile.out + t * tile.out_stride, tile.rows, tile.first_block == 0, sums[t]);
    for (int k = 0; k < count; ++k, w += kPanelRows, x += sizeof(float)) {
      const vf w0 = load_f(w), w1 = load_f(w + kLanes);
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        const vf value = broadcastf(x + t * stride);
        sums[t][0] = fma_f(w0, value, sums[t][0]);
        sums[t][1] = fma_f(w1, value, sums[t][1]);
      }
    }
    for (int t = 0; t < T; ++t) store_sums(tile.out + t * tile.out_stride, tile.rows, sums[t]);
  }
  template <int T>
  static void multiply(const PanelFloat* panel, const Tile& tile) {
    multiply_values<T>(panel, 64 * tile.blocks, tile);
  }
};

// Whole blocks of 64 columns, then the columns past them.
template <class Load>
void multiply_float_panels(const MatmulTask& task) {
  const size_t stride = float_stride(task.cols);
  multiply_panels<FloatPanels<Load>>(task, stride);
  const int tail = task.cols % 64, whole = task.cols / 64;
  if (tail == 0) return;
  PanelFloat* panel = reinterpret_cast<PanelFloat*>(task.scratch);
  for (int first_row = 0; first_row < task.rows; first_row += kPanelRows) {
    const PanelRows rows(task, first_row);
    for (int half = 0; half < 2; ++half)
      FloatPanels<Load>::unpack_tail(rows.row + half * kLanes, static_cast<size_t>(whole) * 64 * Load::kBytes, half,
                                     tail, *panel);
    for (int t = 0; t < task.tokens; ++t) {
      const Tile tile{1,
                      whole,
                      task.packed + t * stride,
                      task.cols,
                      task.out + t * task.out_stride + first_row,
                      task.out_stride,
                      rows.count};
      FloatPanels<Load>::template multiply_values<1>(panel, tail, tile);
    }
  }
}

// ---- rows --------------------------------------------------------------------------------------------------------

// Adds the products of kLanes columns from k on: each weight and each activation is loaded once.
template <class Load, int kRows, int T>
inline void add_columns(const uint8_t* const* rows, const uint8_t* x, size_t stride, int k, vf (&sums)[T][4]) {
  vf w[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    w[r] = Load::load(rows[r] + static_cast<size_t>(k) * Load::kBytes);
    TESSERA_HOLD(w[r]);
  }
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    vf value = load_f_any(x + t * stride + static_cast<size_t>(k) * sizeof(float));
    TESSERA_HOLD(value);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      sums[t][r] = fma_f(w[r], value, sums[t][r]);
      TESSERA_HOLD(sums[t][r]);
    }
  }
}

// Tokens [token, token + T) and rows from `row` on, columns [begin, end). The same columns of the rows that follow
// travel towards the second-level cache meanwhile.
template <class Load, int kRows, int T>
void multiply_float_tile(const MatmulTask& task, int row, int token, int begin, int end) {
  constexpr int kLine = 64 / Load::kBytes;
  const size_t stride = float_stride(task.cols);
  const int count = task.rows - row < kRows ? task.rows - row : kRows;
  const uint8_t* rows[kRows];
  for (int r = 0; r < kRows; ++r)
    rows[r] = task.weights + static_cast<size_t>(row + (r < count ? r : count - 1)) * task.row_bytes;
  const uint8_t* x = task.packed + token * stride;
  vf sums[T][4];
  for (int t = 0; t < T; ++t)
    for (int r = 0; r < 4; ++r) sums[t][r] = zero_f();
  int k = begin;
  for (; k + kLine <= end; k += kLine) {
    for (int r = 0; r < kRows; ++r)
      prefetch_rows(rows[r] + static_cast<size_t>(k) * Load::kBytes, kRows * task.row_bytes);
#pragma GCC unroll 4
    for (int i = 0; i < kLine; i += kLanes) add_columns<Load, kRows, T>(rows, x, stride, k + i, sums);
  }
  for (; k + kLanes <= end; k += kLanes) add_columns<Load, kRows, T>(rows, x, stride, k, sums);
  for (int t = 0; t < T; ++t) {
    alignas(16) float products[4];
    _mm_store_ps(products, sum_each(sums[t]));
    const float* values = reinterpret_cast<const float*>(x + t * stride);
    float* out = task.out + (token + t) * task.out_stride + row;
    for (int r = 0; r < count; ++r) {
      for (int i = k; i < end; ++i)
        products[r] += Load::load1(rows[r] + static_cast<size_t>(i) * Load::kBytes) * values[i];
      out[r] = begin == 0 ? products[r] : out[r] + products[r];
    }
  }
}

// Tiles of tokens differ by at most one token. Of many tokens only so many columns at a time are visited that their
// activations stay in a cache near by.
template <class Load, int kRows>
void multiply_float_rows(const MatmulTask& task, int tiles) {
  const int chunk = task.tokens <= kRowTokens ? task.cols : 1024;
  for (int begin = 0; begin < task.cols; begin += chunk) {
    const int end = task.cols - begin < chunk ? task.cols : begin + chunk;
    for (int row = 0; row < task.rows; row += kRows)
      for (int i = 0; i < tiles; ++i) {
        const int token = i * task.tokens / tiles;
        switch ((i + 1) * task.tokens / tiles - token) {
          case 1:
            multiply_float_tile<Load, kRows, 1>(task, row, token, begin, end);
            break;
          case 2:
            multiply_float_tile<Load, kRows, 2>(task, row, token, begin, end);
            break;
          case 3:
            multiply_float_tile<Load, kRows, 3>(task, row, token, begin, end);
            break;
          default:
            if constexpr (kRows == 3) multiply_float_tile<Load, kRows, 4>(task, row, token, begin, end);
            break;
        }
      }
  }
}

template <class Load>
void multiply_float(const MatmulTask& task) {
  constexpr int kFewTokens = Load::kBytes == 4 ? 8 : 12;  // panels of wide weights pay sooner: they are not converted
  const int tiles = (task.tokens + 3) / 4;
  if (task.tokens > kFewTokens)
    multiply_float_panels<Load>(task);
  else if (task.tokens > 3 * tiles)
    multiply_float_rows<Load, 3>(task, tiles);
  else
    multiply_float_rows<Load, 4>(task, tiles);
}

template <class Load>
void fill_float(MatmulTable& table, QuantType type, const char* tier) {
  MatmulKernels& row = table.types[static_cast<int>(type)];
  row.tier = tier;
  row.row_step = kPanelRows;
  row.scratch_bytes = panel_scratch_bytes<FloatPanels<Load>>;
  row.multiply = multiply_float<Load>;
}

}  // namespace
}  // namespace tessera
