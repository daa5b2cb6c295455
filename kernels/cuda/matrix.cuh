// What the products of matvec.cu and matmul.cu share: one row of a matrix times one row of activations, by one warp.
#pragma once
#include "codebook_types.cuh"
#include "float_types.cuh"
#include "grid_types.cuh"

namespace {

// Rows of activations: int8 with facts for quantised weights, floats (facts unused) for float weights.
struct Input {
  const uint8_t* values;
  const Facts* facts;

  template <class Type> Input row(int index, int cols) const {
    if constexpr (kIsFloat<Type>) return {values + 4LL * index * cols, nullptr};
    return {values + (long long)index * cols, facts + (long long)index * (cols / 32)};
  }
};

template <class Type> inline long long matrix_row_bytes(int cols) {
  if constexpr (kIsFloat<Type>) return (long long)cols * Type::kBytes;
  else return row_bytes<Type>(cols);
}

template <class Type, int kRows>
inline void add_slices(const uint8_t* const (&rows)[kRows], Input x, int cols, float (&sums)[kRows]) {
  for (int s = threadIdx.x % kWarp; s < cols / 32; s += kWarp) {
    int q[8];
    load_activations((const int8_t*)x.values + 32 * s, q);
    const Facts facts = x.facts[s];
#pragma unroll
    for (int r = 0; r < kRows; ++r) sums[r] += dot<Type>(load_slice<Type>(rows[r], s), q, facts);
  }
}

template <class Type, int kRows>
inline void add_floats(const uint8_t* const (&rows)[kRows], Input x, int cols, float (&sums)[kRows]) {
  const int lane = threadIdx.x % kWarp;
  if (cols % 8 == 0) {
    for (int i = 8 * lane; i < cols; i += 8 * kWarp) {
      float values[8];
      f32::load_8(x.values, i, values);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float weights[8];
        Type::load_8(rows[r], i, weights);
#pragma unroll
        for (int k = 0; k < 8; ++k) sums[r] += weights[k] * values[k];
      }
    }
  } else {
    for (int i = lane; i < cols; i += kWarp)
#pragma unroll
      for (int r = 0; r < kRows; ++r) sums[r] += Type::at(rows[r], i) * f32::at(x.values, i);
  }
}

// sums[r] = rows[r] . x, the same for every lane.
template <class Type, int kRows>
inline void warp_dots(const uint8_t* const (&rows)[kRows], Input x, int cols, float (&sums)[kRows]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) sums[r] = 0.0f;
  if constexpr (kIsFloat<Type>) add_floats<Type>(rows, x, cols, sums);
  else add_slices<Type>(rows, x, cols, sums);
#pragma unroll
  for (int r = 0; r < kRows; ++r) sums[r] = warp_sum(sums[r]);
}

// Values 32 s … 32 s + 31 of a row, fewer at its end, to emit(index, value); the last index is cols - 1.
template <class Type, class Emit> inline void dequantize_slice(const uint8_t* row, int s, int cols, Emit&& emit) {
  if constexpr (kIsFloat<Type>) {
#pragma unroll
    for (int i = 0; i < 32; ++i)
      if (32 * s + i < cols) emit(32 * s + i, Type::at(row, 32 * s + i));
  } else {
    const Slice w = load_slice<Type>(row, s);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int k = Type::kScales == 1 ? 0 : i / 16;
      const float value = w.scale[k] * float(int8_t(w.q[i / 4] >> i % 4 * 8));
      emit(32 * s + i, Type::kHasMin ? value - w.min[k] : value);
    }
  }
}

// Hands every value of a row to emit(index, value), shared out over the block's threads.
template <class Type, class Emit> inline void dequantize_row(const uint8_t* row, int cols, Emit&& emit) {
  if constexpr (kIsFloat<Type>) {
    for (int i = threadIdx.x; i < cols; i += blockDim.x) emit(i, Type::at(row, i));
  } else {
    for (int s = threadIdx.x; s < cols / 32; s += blockDim.x) dequantize_slice<Type>(row, s, cols, emit);
  }
}

}  // namespace
