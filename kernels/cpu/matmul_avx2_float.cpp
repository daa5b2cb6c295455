// AVX2 tier, float weights: F32, F16, BF16 times float32 activations, summed in float32 by fma.
//
// Panels of 16 rows x 6 tokens as for the quantised types, with one value per lane; 16-bit weights are widened once per
// panel. Rows: four partial sums per token hide the latency of fma.
#include "matmul_avx2.h"

namespace tessera {
namespace {

struct LoadF32 {
  static constexpr int kBytes = 4;
  static __m256 load8(const uint8_t* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
  static float load1(const uint8_t* p) { return loadf(p); }
};
struct LoadF16 {
  static constexpr int kBytes = 2;
  static __m256 load8(const uint8_t* p) { return _mm256_cvtph_ps(load128(p)); }
  static float load1(const uint8_t* p) { return half1(p); }
};
struct LoadBF16 {
  static constexpr int kBytes = 2;
  static __m256 load8(const uint8_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(p)), 16));
  }
  static float load1(const uint8_t* p) {
    const uint32_t bits = static_cast<uint32_t>(p[0]) << 16 | static_cast<uint32_t>(p[1]) << 24;
    return loadf(&bits);
  }
};

// ---- panels: a "block" is one value ------------------------------------------------------------------------------

constexpr int kFloatChunk = 256;

inline void transpose_8x8(__m256* v) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]), t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  __m256 u[8];
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44), u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44), u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    v[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

template <class Load>
void unpack_float_panel(const PanelRows& rows, int begin, int count, float* panel) {
  for (int half = 0; half < 2; ++half) {
    int k = 0;
    for (; k + 8 <= count; k += 8) {
      __m256 v[8];
      for (int r = 0; r < 8; ++r)
        v[r] = Load::load8(rows.row[8 * half + r] + static_cast<size_t>(begin + k) * Load::kBytes);
      transpose_8x8(v);
      for (int i = 0; i < 8; ++i) _mm256_store_ps(panel + (k + i) * kPanelRows + 8 * half, v[i]);
    }
    for (; k < count; ++k)
      for (int r = 0; r < 8; ++r)
        panel[k * kPanelRows + 8 * half + r] =
            Load::load1(rows.row[8 * half + r] + static_cast<size_t>(begin + k) * Load::kBytes);
  }
}

template <int T>
__attribute__((noinline)) void tile_float(const float* panel, int count, const uint8_t* x, size_t stride, bool first,
                                          float* out, ptrdiff_t out_stride, int rows) {
  __m256 sums[T][2];
  for (int t = 0; t < T; ++t) load_sums(out + t * out_stride, rows, first, sums[t]);
  for (int k = 0; k < count; ++k, panel += kPanelRows, x += sizeof(float)) {
    const __m256 w0 = _mm256_load_ps(panel), w1 = _mm256_load_ps(panel + 8);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      const __m256 value = broadcastf(x + t * stride);
      sums[t][0] = _mm256_fmadd_ps(w0, value, sums[t][0]);
      sums[t][1] = _mm256_fmadd_ps(w1, value, sums[t][1]);
    }
  }
  for (int t = 0; t < T; ++t) store_sums(out + t * out_stride, rows, sums[t]);
}

template <class Load>
void multiply_float_panels(const MatmulTask& task) {
  const size_t stride = float_stride(task.cols);
  float* panel = reinterpret_cast<float*>(task.scratch);
  const int tiles = (task.tokens + kTileTokens - 1) / kTileTokens;
  for (int first_row = 0; first_row < task.rows; first_row += kPanelRows) {
    const PanelRows rows(task, first_row);
    for (int begin = 0; begin < task.cols; begin += kFloatChunk) {
      const int count = task.cols - begin < kFloatChunk ? task.cols - begin : kFloatChunk;
      unpack_float_panel<Load>(rows, begin, count, panel);
      for (int i = 0; i < tiles; ++i) {
        const int t = static_cast<int>(static_cast<int64_t>(i) * task.tokens / tiles);
        const int n = static_cast<int>(static_cast<int64_t>(i + 1) * task.tokens / tiles) - t;
        const uint8_t* x = task.packed + t * stride + begin * sizeof(float);
        float* out = task.out + t * task.out_stride + first_row;
        switch (n) {
          case 1: tile_float<1>(panel, count, x, stride, begin == 0, out, task.out_stride, rows.count); break;
          case 2: tile_float<2>(panel, count, x, stride, begin == 0, out, task.out_stride, rows.count); break;
          case 3: tile_float<3>(panel, count, x, stride, begin == 0, out, task.out_stride, rows.count); break;
          case 4: tile_float<4>(panel, count, x, stride, begin == 0, out, task.out_stride, rows.count); break;
          case 5: tile_float<5>(panel, count, x, stride, begin == 0, out, task.out_stride, rows.count); break;
          default: tile_float<6>(panel, count, x, stride, begin == 0, out, task.out_stride, rows.count); break;
        }
      }
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
      _mm_prefetch(reinterpret_cast<const char*>(w) + k * Load::kBytes + 2048, _MM_HINT_T0);
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
    case 1: return multiply_float_rows<Load, 1>(task);
    case 2: return multiply_float_rows<Load, 2>(task);
    case 3: return multiply_float_rows<Load, 3>(task);
    default: return multiply_float_panels<Load>(task);
  }
}

size_t scratch_bytes(int) { return kFloatChunk * kPanelRows * sizeof(float); }

template <class Load>
void fill(MatmulTable& table, QuantType type) {
  MatmulKernels& row = table.types[static_cast<int>(type)];
  row.tier = "avx2";
  row.row_step = kPanelRows;
  row.scratch_bytes = scratch_bytes;
  row.multiply = multiply_float<Load>;
}

}  // namespace

void fill_avx2_float(MatmulTable& table) {
  fill<LoadF32>(table, QuantType::F32);
  fill<LoadF16>(table, QuantType::F16);
  fill<LoadBF16>(table, QuantType::BF16);
}

}  // namespace tessera
