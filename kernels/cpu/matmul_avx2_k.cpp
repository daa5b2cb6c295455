// AVX2 tier, K types with many tokens: panels of 16 rows against tiles of up to 6 tokens.
//
// vpmaddubsw multiplies unsigned quants with signed activations and sums neighbours in int16; the activation packer
// bounds sum |q| over 16 values by 1023, so that these sums stay exact over 32 values of a 4-bit type, over 16 of a 5-bit
// type, and over 16 of a centred 6-bit type (|w| <= 32). One vpmaddwd then applies the scales of two sub-blocks.
// Budget per lane and 64 values (Q4_K): 16 multiplies + 15 adds + 1 + 1 for the scales; mins and floats per 256: 11.
#include "matmul_avx2_k.h"
#include "matmul_avx2_k_rows.h"

namespace tessera {
namespace {

// kSteps dword steps of the int16 sums, for T tokens and both halves of the panel.
template <int T, int kSteps>
inline void sum_steps(const uint8_t* q, const uint8_t* x, size_t stride, __m256i (&acc)[T][2]) {
#pragma GCC unroll 16
  for (int k = 0; k < kSteps; ++k) {
    const __m256i w0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(q + 64 * k));
    const __m256i w1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(q + 64 * k + 32));
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
__attribute__((noinline)) void tile_k(const PanelK* panel, int blocks, const uint8_t* packed, int cols, int first_block,
                                      float* out, ptrdiff_t out_stride, int count) {
  const Record256 at(cols);
  const size_t stride = at.stride;
  constexpr int kSteps = Type::kShortSums ? 8 : 16, kParts = 64 / kSteps;
  constexpr int kPartsPerScale = Type::kSubBlock == 16 || !Type::kShortSums ? 1 : 2;
  __m256 sums[T][2];
  for (int t = 0; t < T; ++t) load_sums(out + t * out_stride, count, first_block == 0, sums[t]);
  for (int b = 0; b < blocks; ++b, ++panel) {
    const uint8_t* x = packed + static_cast<size_t>(first_block + b) * 256;
    const uint8_t* x_sums16 = packed + at.sums16 + static_cast<size_t>(first_block + b) * 32;
    const uint8_t* x_sums32 = packed + at.sums32 + static_cast<size_t>(first_block + b) * 16;
    const uint8_t* x_scale = packed + at.scales + static_cast<size_t>(first_block + b) * 4;
    __m256i scaled[T][2];
    for (int t = 0; t < T; ++t) scaled[t][0] = scaled[t][1] = _mm256_setzero_si256();
#pragma GCC unroll 1
    for (int part = 0; part < kParts; ++part) {
      __m256i acc[T][2];
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        acc[t][0] = _mm256_setzero_si256();
        if constexpr (Type::kCentre != 0)
          acc[t][0] = _mm256_sub_epi16(acc[t][0],
                                       _mm256_slli_epi16(broadcast32(x_sums16 + t * stride + 4 * part), Type::kCentre));
        acc[t][1] = acc[t][0];
      }
      sum_steps<T, kSteps>(&panel->q[kSteps * part][0][0], x + 4 * kSteps * part, stride, acc);
      const __m256i* scale = reinterpret_cast<const __m256i*>(panel->scales[part / kPartsPerScale]);
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t)
        for (int h = 0; h < 2; ++h) scaled[t][h] = _mm256_add_epi32(scaled[t][h], _mm256_madd_epi16(acc[t][h], scale[h]));
    }
    for (int t = 0; t < T; ++t) {
      for (int h = 0; h < 2; ++h) {
        __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(scaled[t][h]), _mm256_load_ps(panel->d + 8 * h));
        if constexpr (Type::kMinBlock != 0) {
          constexpr int kPairs = Type::kMinBlock == 32 ? 4 : 8;
          const uint8_t* x_sums = (kPairs == 4 ? x_sums32 : x_sums16) + t * stride;
          __m256i mins = _mm256_setzero_si256();
          for (int j = 0; j < kPairs; ++j)
            mins = _mm256_add_epi32(mins, _mm256_madd_epi16(reinterpret_cast<const __m256i*>(panel->mins[j])[h],
                                                            broadcast32(x_sums + 4 * j)));
          value = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(mins), _mm256_load_ps(panel->dmin + 8 * h), value);
        }
        sums[t][h] = _mm256_fmadd_ps(value, broadcastf(x_scale + t * stride), sums[t][h]);
      }
    }
  }
  for (int t = 0; t < T; ++t) store_sums(out + t * out_stride, count, sums[t]);
}

template <class Type>
struct KernelK {
  using Panel = PanelK;
  static constexpr int kValues = 256, kBytes = Type::kBytes, kChunk = 4;
  static void unpack(const uint8_t* const* rows, size_t block, PanelK& panel) {
    Type::unpack8(rows, block, 0, panel);
    Type::unpack8(rows + 8, block, 8, panel);
  }
  template <int T>
  static void tile(const PanelK* panel, int blocks, const uint8_t* packed, int cols, int first_block, float* out,
                   ptrdiff_t out_stride, int count) {
    tile_k<Type, T>(panel, blocks, packed, cols, first_block, out, out_stride, count);
  }
};

template <class Type, class Rows>
void multiply_k(const MatmulTask& task) {
  switch (task.tokens) {
    case 1: return multiply_rows_k<Rows, 1>(task);
    case 2: return multiply_rows_k<Rows, 2>(task);
    case 3: return multiply_rows_k<Rows, 3>(task);
    default: return multiply_panels<KernelK<Type>>(task, Record256(task.cols).stride);
  }
}

template <class Type, class Rows>
void fill(MatmulTable& table) {
  MatmulKernels& row = table.types[static_cast<int>(Type::kType)];
  row.tier = "avx2";
  row.row_step = kPanelRows;
  row.scratch_bytes = panel_scratch_bytes<KernelK<Type>>;
  row.multiply = multiply_k<Type, Rows>;
}

}  // namespace

void fill_avx2_k(MatmulTable& table) {
  fill<Q2_K, Q2_KRow>(table);
  fill<Q3_K, Q3_KRow>(table);
  fill<Q4_K, Q4_KRow>(table);
  fill<Q5_K, Q5_KRow>(table);
  fill<Q6_K, Q6_KRow>(table);
}

}  // namespace tessera
