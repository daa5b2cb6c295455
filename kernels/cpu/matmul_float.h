// Private to the x86 tiers: float weights (F32, F16, BF16) times float32 activations, summed in float32 by fma.
//
// Panels of 2 x kLanes rows x 6 tokens as for the quantised types, with one value per lane; 16-bit weights are widened
// once per panel. Rows: four partial sums per token hide the latency of fma.
#pragma once
#include "matmul_panels.h"
#include "matmul_rows.h"

namespace tessera {
namespace {

inline __m128i load8_bytes(const uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }

struct LoadF32 {
  static constexpr int kBytes = 4;
  static __m256 load8(const uint8_t* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
  static __m128 load4(const uint8_t* p) { return _mm_loadu_ps(reinterpret_cast<const float*>(p)); }
  static float load1(const uint8_t* p) { return loadf(p); }
};
struct LoadF16 {
  static constexpr int kBytes = 2;
  static __m256 load8(const uint8_t* p) { return _mm256_cvtph_ps(load16(p)); }
  static __m128 load4(const uint8_t* p) { return _mm_cvtph_ps(load8_bytes(p)); }
  static float load1(const uint8_t* p) { return half1(p); }
};
struct LoadBF16 {
  static constexpr int kBytes = 2;
  static __m256 load8(const uint8_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(p)), 16));
  }
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
  static constexpr int kValues = 64, kBytes = 64 * Load::kBytes, kChunk = 32 / kLanes;

  // Values [k, k + 4) of kLanes rows.
  static void unpack_four(const uint8_t* const* rows, size_t offset, int lane, int k, PanelFloat& panel) {
    __m128i row[kLanes];
    for (int r = 0; r < kLanes; ++r) row[r] = _mm_castps_si128(Load::load4(rows[r] + offset + k * Load::kBytes));
    vi out[4];
    transpose(row, out);
    for (int i = 0; i < 4; ++i) store_i(&panel.w[k + i][lane], out[i]);
  }
  static void unpack(const uint8_t* const* rows, size_t offset, int half, PanelFloat& panel) {
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

template <class Load, int T>
void multiply_float_rows(const MatmulTask& task) {
  const size_t stride = float_stride(task.cols);
  const int whole = task.cols / 32 * 32;
  for (int r = 0; r < task.rows; ++r) {
    const uint8_t* w = task.weights + r * task.row_bytes;
    __m256 sums[T][4];
    for (int t = 0; t < T; ++t)
      for (int i = 0; i < 4; ++i) sums[t][i] = _mm256_setzero_ps();
    for (int k = 0; k < whole; k += 32) {
      prefetch_ahead(w + k * Load::kBytes, 32 * Load::kBytes);
      for (int i = 0; i < 4; ++i) {
        const __m256 value = Load::load8(w + static_cast<size_t>(k + 8 * i) * Load::kBytes);
        for (int t = 0; t < T; ++t) {
          const float* x = reinterpret_cast<const float*>(task.packed + t * stride);
          sums[t][i] = _mm256_fmadd_ps(value, _mm256_loadu_ps(x + k + 8 * i), sums[t][i]);
        }
      }
    }
    for (int t = 0; t < T; ++t) {
      const float* x = reinterpret_cast<const float*>(task.packed + t * stride);
      float sum = sum8(_mm256_add_ps(_mm256_add_ps(sums[t][0], sums[t][1]), _mm256_add_ps(sums[t][2], sums[t][3])));
      for (int k = whole; k < task.cols; ++k) sum += Load::load1(w + static_cast<size_t>(k) * Load::kBytes) * x[k];
      task.out[t * task.out_stride + r] = sum;
    }
  }
}

template <class Load>
void multiply_float(const MatmulTask& task) {
  switch (task.tokens) {
    case 1:
      return multiply_float_rows<Load, 1>(task);
    case 2:
      return multiply_float_rows<Load, 2>(task);
    case 3:
      return multiply_float_rows<Load, 3>(task);
    default:
      return multiply_float_panels<Load>(task);
  }
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
