// Quantised matrix product, the interface between the tiers (matmul_<tier>.cpp) and the program interpreter.
// Plain data and function pointers only: this header is included by files compiled for different ISA tiers.
//
//   out[t, r] = sum_c W[r, c] * x[t, c]      W: raw GGUF rows, x: float32 activations packed once per op
//
// A caller packs the activations of a batch once (pack), then hands out ranges of rows to threads (multiply).
#pragma once
#include <cstddef>
#include <cstdint>

#include "cpu_features.h"
#include "quant_type.h"

namespace tessera {

// How a tier wants its activations; the byte layout behind each is the tier's own and may depend on the number of
// tokens, so `tokens` of pack and of the task are the same.
enum class ActivationFormat : int32_t {
  F32 = 0,     // for float weights
  Q8_32 = 1,   // int8, one float scale (and sum) per 32: the 32-element block types
  Q8_256 = 2,  // int8, one float scale per 256 with partial sums: the K types
};
inline constexpr int kActivationFormatCount = 3;

struct ActivationKernels {
  // Tokens per packed tile: `first` of `pack` is a multiple of it, and so is `last` except at the end of the batch.
  int tile;
  // Bytes that `tokens` packed rows of `cols` values take (64-byte aligned buffer).
  size_t (*packed_bytes)(int tokens, int cols);
  // Packs tokens [first, last) of a batch of `tokens`. Token t's row is x + (index ? index[t] : t) * x_stride.
  // Calls for disjoint ranges may run at the same time.
  void (*pack)(const float* x, ptrdiff_t x_stride, const int32_t* index, int tokens, int first, int last, int cols,
               uint8_t* out);
  // What packed token `t` stands for, as float32 [cols]: the exact operand of the products. For tests.
  void (*unpack)(const uint8_t* packed, int tokens, int t, int cols, float* out);
};

struct MatmulTask {
  const uint8_t* weights;  // first row of the range
  size_t row_bytes;        // distance between rows
  int rows, cols;          // rows in this range (any number), values per row (a multiple of the type's block)
  const uint8_t* packed;   // activations from `pack`, all `tokens` of them
  int tokens;
  float* out;                     // out[t * out_stride + r]
  ptrdiff_t out_stride;           // in floats
  uint8_t* scratch;               // this thread's own, scratch_bytes(cols), 64-byte aligned
  size_t readable;                // bytes that may be touched from `weights` on (prefetch and wide loads stay inside)
  const uint8_t* next = nullptr;  // weights that this thread is likely to read next; null: those behind these rows
};

struct MatmulKernels {  // one per weight type
  const char* tier;     // name of the tier that filled it; null: type not supported
  ActivationFormat format;
  int row_step;  // preferred multiple for `rows`, so that panels are not cut
  size_t (*scratch_bytes)(int cols);
  void (*multiply)(const MatmulTask& task);  // any number of tokens >= 1; decode is tokens == 1
  void (*dequantize)(const uint8_t* row, float* out, int cols);
};

struct MatmulTable {
  const char* tier;
  ActivationKernels activations[kActivationFormatCount];
  MatmulKernels types[kQuantTypeCount];
  // Runs the tier's fastest int8 multiply-accumulate sequence on registers; returns the multiply-adds done.
  // The benchmark divides by it.
  int64_t (*int8_peak)(int64_t iterations);
};

// The kernels of a tier, filled once. A tier above what this processor can run gives the best one that it can.
const MatmulTable& matmul_table(Tier tier);

// Each tier overwrites the rows it does better; scalar fills all. Called in rising order of tiers.
void fill_matmul_scalar(MatmulTable& table);
void fill_matmul_avx2(MatmulTable& table);
void fill_matmul_avx512(MatmulTable& table);
void fill_matmul_avx512_vnni(MatmulTable& table);

}  // namespace tessera
