// Private to the x86 tiers: float weights (F32, F16, BF16) times float32 activations, summed in float32 by fma.
//
// Panels of 2 x kLanes rows x 6 tokens as for the quantised types, with one value per lane; 16-bit weights are
// transposed as they are and widened where they are multiplied. Up to 16 tokens rows are multiplied as they stand,
// lanes along the columns, in tiles of 4 rows x 3 tokens or 3 x 4: 12 sums, and several rows are read from memory at
// once, which one alone does not keep busy.
#pragma once
#include <utility>

#include "matmul_panels.h"
#include "matmul_rows.h"

namespace tessera {
namespace {

struct LoadF32 {
  static constexpr int kBytes = 4;
  static vf load(const uint8_t* p) { return load_f_any(p); }
  static float load1(const uint8_t* p) { return loadf(p); }
};
struct LoadF16 {
  static constexpr int kBytes = 2;
  static vf load(const uint8_t* p) { return to_float(load_words(p)); }
  static float load1(const uint8_t* p) { return half1(p); }
};
struct LoadBF16 {
  static constexpr int kBytes = 2;
  static vf load(const uint8_t* p) { return as_float(left32(to_dwords(load_words(p)), 16)); }
  static float load1(const uint8_t* p) {
    const uint32_t bits = static_cast<uint32_t>(p[0]) << 16 | static_cast<uint32_t>(p[1]) << 24;
    return loadf(&bits);
  }
};

// f(0) … f(kCount - 1) with constants: GCC keeps an array in registers only if all its indices are known this early.
template <int kValue>
struct Constant {
  constexpr operator int() const { return kValue; }
};
template <int kCount, class F>
TESSERA_INLINE inline void each(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>)
      TESSERA_INLINE { (f(Constant<i>{}), ...); }(std::make_integer_sequence<int, kCount>{});
}

// sum += a * b. Of the forms of fma GCC takes ones that overwrite a factor, then moves and spills sums.
inline void add_product(vf& sum, vf a, vf b) {
#ifdef TESSERA_EMULATE_AVX512
  sum = fma_f(a, b, sum);
#else
  __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#endif
}

// ---- panels ------------------------------------------------------------------------------------------------------

// 8 values of 16 bits of 16 rows, `row_bytes` apart, to 8 columns, `column_bytes` apart.
inline void transpose_16x8(const uint8_t* rows, size_t row_bytes, uint8_t* columns, size_t column_bytes) {
  __m256i a[8], b[8];
  for (int i = 0; i < 8; ++i)
    a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load128(rows + i * row_bytes)),
                                   load128(rows + (i + 8) * row_bytes), 1);
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_epi16(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_epi16(a[i], a[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      a[i + 2 * j] = _mm256_unpacklo_epi32(b[i + j], b[i + j + 2]);
      a[i + 2 * j + 1] = _mm256_unpackhi_epi32(b[i + j], b[i + j + 2]);
    }
  for (int i = 0; i < 4; ++i) {
    uint8_t* out = columns + 2 * i * column_bytes;
    _mm256_store_si256(reinterpret_cast<__m256i*>(out), _mm256_unpacklo_epi64(a[i], a[i + 4]));
    _mm256_store_si256(reinterpret_cast<__m256i*>(out + column_bytes), _mm256_unpackhi_epi64(a[i], a[i + 4]));
  }
}

template <class Load>
struct FloatPanels {
  static constexpr int kColumn = kPanelRows * Load::kBytes;  // bytes
  struct alignas(64) Panel {                                 // 64 columns
    uint8_t columns[64 * kColumn];
  };
  static constexpr int kValues = 64, kBytes = 64 * Load::kBytes, kChunk = (16 << 10) / sizeof(Panel);

  // 16-bit values of 16 rows at a time, which are all of a panel of 8 lanes. Rows are often a multiple of 4 KiB apart
  // and share one set of the first-level cache, so their lines are copied before they are visited again and again.
  static void unpack(const uint8_t* const* rows, size_t offset, int half, Panel& panel) {
    uint8_t* out = panel.columns + half * kLanes * Load::kBytes;
    if constexpr (Load::kBytes == 2) {
      if (half * kLanes % 16 != 0) return;
      alignas(64) uint8_t lines[16][kBytes];
      for (int r = 0; r < 16; ++r) std::memcpy(lines[r], rows[r] + offset, kBytes);
      for (int k = 0; k < 64; k += 8) transpose_16x8(lines[0] + 2 * k, kBytes, out + k * kColumn, kColumn);
    } else {
      for (int k = 0; k < 64; k += 4) {
        vi columns[4];
        load_x4(rows, offset + static_cast<size_t>(k) * sizeof(float), columns);
        for (int i = 0; i < 4; ++i) store_i(out + (k + i) * kColumn, columns[i]);
      }
    }
  }
  // The first `count` < 64 values, for the end of the rows.
  static void unpack_tail(const uint8_t* const* rows, size_t offset, int count, Panel& panel) {
    for (int k = 0; k < count; ++k)
      for (int r = 0; r < kPanelRows; ++r)
        std::memcpy(panel.columns + k * kColumn + r * Load::kBytes, rows[r] + offset + k * Load::kBytes, Load::kBytes);
  }

  // Adds the products of `count` columns to the sums of kPanelRows rows x T tokens.
  template <int T>
  static __attribute__((noinline)) void add_columns(const uint8_t* w, int count, const uint8_t* x, size_t stride,
                                                    float* out, ptrdiff_t out_stride) {
    vf sums[T][2];
    each<T>([&](auto t) TESSERA_INLINE {
      sums[t][0] = load_f_any(out + t * out_stride), sums[t][1] = load_f_any(out + t * out_stride + kLanes);
    });
    for (int k = 0; k < count; ++k, w += kColumn, x += sizeof(float)) {
      const vf w0 = Load::load(w), w1 = Load::load(w + kLanes * Load::kBytes);
      each<T>([&](auto t) TESSERA_INLINE {
        const vf value = broadcastf(x + t * stride);
        add_product(sums[t][0], w0, value);
        add_product(sums[t][1], w1, value);
      });
    }
    each<T>([&](auto t) TESSERA_INLINE {
      store_f_any(out + t * out_stride, sums[t][0]), store_f_any(out + t * out_stride + kLanes, sums[t][1]);
    });
  }
  template <int T>
  static void multiply_values(const Panel* panel, int count, const Tile& tile) {
    alignas(64) float part[T][kPanelRows];  // the sums of a short panel
    const bool whole = tile.rows == kPanelRows;
    float* out = whole ? tile.out : part[0];
    const ptrdiff_t out_stride = whole ? tile.out_stride : kPanelRows;
    const size_t bytes = static_cast<size_t>(tile.rows) * sizeof(float);
    for (int t = 0; t < T; ++t) {
      if (tile.first_block == 0 || !whole)
        store_f_any(out + t * out_stride, zero_f()), store_f_any(out + t * out_stride + kLanes, zero_f());
      if (tile.first_block != 0 && !whole) std::memcpy(part[t], tile.out + t * tile.out_stride, bytes);
    }
    const uint8_t* x = tile.packed + static_cast<size_t>(tile.first_block) * 64 * sizeof(float);
    add_columns<T>(panel->columns, count, x, float_stride(tile.cols), out, out_stride);
    if (!whole)
      for (int t = 0; t < T; ++t) std::memcpy(tile.out + t * tile.out_stride, part[t], bytes);
  }
  template <int T>
  static void multiply(const Panel* panel, const Tile& tile) {
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
  auto* panel = reinterpret_cast<typename FloatPanels<Load>::Panel*>(task.scratch);
  for (int first_row = 0; first_row < task.rows; first_row += kPanelRows) {
    const PanelRows rows(task, first_row);
    FloatPanels<Load>::unpack_tail(rows.row, static_cast<size_t>(whole) * 64 * Load::kBytes, tail, *panel);
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

// Adds the products of kLanes columns from k on: each weight and each activation is loaded once, and of the two those
// that are fewer are held, so that a tile of 12 sums needs 16 registers.
template <class Load, int kRows, int T>
TESSERA_INLINE inline void add_columns(const uint8_t* const (&rows)[kRows], const uint8_t* x, size_t stride, int k,
                                       vf (&sums)[T][kRows]) {
  const auto weights = [&](int r) TESSERA_INLINE {
    vf w = Load::load(rows[r] + static_cast<size_t>(k) * Load::kBytes);
    TESSERA_HOLD(w);
    return w;
  };
  const auto values = [&](int t) TESSERA_INLINE {
    vf value = load_f_any(x + t * stride + static_cast<size_t>(k) * sizeof(float));
    TESSERA_HOLD(value);
    return value;
  };
  if constexpr (kRows < T) {
    vf w[kRows];
    each<kRows>([&](auto r) TESSERA_INLINE { w[r] = weights(r); });
    each<T>([&](auto t) TESSERA_INLINE {
      const vf value = values(t);
      each<kRows>([&](auto r) TESSERA_INLINE { add_product(sums[t][r], w[r], value); });
    });
  } else {
    vf value[T];
    each<T>([&](auto t) TESSERA_INLINE { value[t] = values(t); });
    each<kRows>([&](auto r) TESSERA_INLINE {
      const vf w = weights(r);
      each<T>([&](auto t) TESSERA_INLINE { add_product(sums[t][r], w, value[t]); });
    });
  }
}

// Tokens [token, token + T) and rows from `row` on, columns [begin, end). The same columns of the rows that follow
// travel towards the second-level cache meanwhile.
template <class Load, int kRows, int T>
void multiply_float_tile(const MatmulTask& task, int row, int token, int begin, int end) {
  constexpr int kLine = 64 / Load::kBytes;
  constexpr int kMost = T == 1 ? 4 : T == 2 ? 2 : 1;  // more would spill sums
  constexpr int kSteps = kLine / kLanes < kMost ? kLine / kLanes : kMost;
  const size_t stride = float_stride(task.cols);
  const int count = task.rows - row < kRows ? task.rows - row : kRows;
  const uint8_t* rows[kRows];
  for (int r = 0; r < kRows; ++r)
    rows[r] = task.weights + static_cast<size_t>(row + (r < count ? r : count - 1)) * task.row_bytes;
  const uint8_t* x = task.packed + token * stride;
  vf sums[T][kRows];
  each<T>([&](auto t) TESSERA_INLINE { each<kRows>([&](auto r) TESSERA_INLINE { sums[t][r] = zero_f(); }); });
  int k = begin;
  for (; k + kLine <= end; k += kLine) {
    for (int r = 0; r < kRows; ++r)
      prefetch_rows(rows[r] + static_cast<size_t>(k) * Load::kBytes, kRows * task.row_bytes);
#pragma GCC unroll 1
    for (int i = k; i < k + kLine; i += kSteps * kLanes)
      each<kSteps>([&](auto step)
                       TESSERA_INLINE { add_columns<Load, kRows, T>(rows, x, stride, i + step * kLanes, sums); });
  }
#pragma GCC unroll 1
  for (; k + kLanes <= end; k += kLanes) add_columns<Load, kRows, T>(rows, x, stride, k, sums);
  alignas(16) float products[T][4];
  each<T>([&](auto t) TESSERA_INLINE {
    vf four[4] = {zero_f(), zero_f(), zero_f(), zero_f()};
    each<kRows>([&](auto r) TESSERA_INLINE { four[r] = sums[t][r]; });
    _mm_store_ps(products[t], sum_each(four));
  });
  for (int t = 0; t < T; ++t) {
    const float* values = reinterpret_cast<const float*>(x + t * stride);
    float* out = task.out + (token + t) * task.out_stride + row;
    for (int r = 0; r < count; ++r) {
      for (int i = k; i < end; ++i)
        products[t][r] += Load::load1(rows[r] + static_cast<size_t>(i) * Load::kBytes) * values[i];
      out[r] = begin == 0 ? products[t][r] : out[r] + products[t][r];
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
  constexpr int kFewTokens = 16;
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
