// Matrix-matrix products, one tile of 64 rows x 64 tokens per block of four warps.
//
// Quantised weights are unpacked to int8 in shared memory, 64 values of a row at a time, and multiplied on tensor
// cores; after every 32 values (16 where a type has such scales) the exact integer sums are scaled into float sums.
#pragma once
#include "matrix.cuh"
#include "mma.cuh"

namespace {

constexpr int kTile = 64, kTileThreads = 128, kStep = 64, kSlices = kStep / 32;
constexpr int kStride = kStep + 16;  // bytes: 16-byte aligned, and the rows of a fragment fall into different banks

// The finished sums, [token][row]: staged here so that a warp writes 32 rows of one token together. The padding keeps
// the columns of a fragment in different banks.
using Sums = float[kTile][kTile + 4];

template <class Type> struct __align__(16) QuantisedTile {
  int8_t w[kTile][kStride], x[kTile][kStride];
  float scale[kTile][kSlices * Type::kScales];
  float min[Type::kHasMin ? kTile : 1][kSlices * Type::kScales];
  Facts facts[kTile][kSlices];
};

inline void store_16_bytes(int8_t* to, const int* from) { *(int4*)to = make_int4(from[0], from[1], from[2], from[3]); }

// Thread i fills slice i % 2 of row i / 2, of the weights and of the activations. Slices past the end become zero.
template <class Type> inline void fill(QuantisedTile<Type>& tile, const uint8_t* row, Input x, int first, int slices) {
  const int at = threadIdx.x / kSlices, part = threadIdx.x % kSlices, s = first + part;
  Slice w = {};
  int q[8] = {};
  Facts facts = {};
  if (s < slices) {
    w = load_slice<Type>(row, s);
    load_activations((const int8_t*)x.values + 32 * s, q);
    facts = x.facts[s];
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    store_16_bytes(&tile.w[at][32 * part + 16 * half], w.q + 4 * half);
    store_16_bytes(&tile.x[at][32 * part + 16 * half], q + 4 * half);
  }
#pragma unroll
  for (int k = 0; k < Type::kScales; ++k) {
    tile.scale[at][Type::kScales * part + k] = w.scale[k];
    if constexpr (Type::kHasMin) tile.min[at][Type::kScales * part + k] = w.min[k];
  }
  tile.facts[at][part] = facts;
}

// A warp's 16 rows times the tile's first `tokens` activations, 32 values: sums[j] is a fragment of 16 x 8.
template <class Type>
inline void multiply_slice(const QuantisedTile<Type>& tile, int part, int tokens, float (&sums)[kTile / 8][4]) {
  const int lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4, row = threadIdx.x / kWarp * 16 + g;
  const int* const low = (const int*)&tile.w[row][32 * part];
  const int* const high = (const int*)&tile.w[row + 8][32 * part];
  const int a[4] = {low[t], high[t], low[4 + t], high[4 + t]};
#pragma unroll
  for (int j = 0; j < kTile / 8; ++j) {
    if (8 * j >= tokens) break;
    const int* const x = (const int*)&tile.x[8 * j + g][32 * part];
    const int b[2] = {x[t], x[4 + t]};
    int d[Type::kScales][4] = {};
    if constexpr (Type::kScales == 1) {
      mma_s8_k32(d[0], a, b);
    } else {
      mma_s8_k16(d[0], a[0], a[1], b[0]);
      mma_s8_k16(d[1], a[2], a[3], b[1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Facts facts = tile.facts[8 * j + 2 * t + i % 2][part];
      const int r = row + i / 2 * 8;
      float sum = 0.0f;
#pragma unroll
      for (int k = 0; k < Type::kScales; ++k) {
        sum += tile.scale[r][Type::kScales * part + k] * float(d[k][i]);
        if constexpr (Type::kHasMin)
          sum -= tile.min[r][Type::kScales * part + k] *
                 float(Type::kScales == 1 ? facts.sums[0] + facts.sums[1] : facts.sums[k]);
      }
      sums[j][i] += facts.scale * sum;
    }
  }
}

template <class Type>
inline void multiply_tile(QuantisedTile<Type>& tile, const uint8_t* row, Input x, int cols, int tokens, Sums& out) {
  const int lane = threadIdx.x % kWarp;
  float sums[kTile / 8][4] = {};
  for (int s = 0; s < cols / 32; s += kSlices) {
    __syncthreads();
    fill<Type>(tile, row, x, s, cols / 32);
    __syncthreads();
#pragma unroll
    for (int part = 0; part < kSlices; ++part) multiply_slice<Type>(tile, part, tokens, sums);
  }
  __syncthreads();  // `out` may be the tile's memory
#pragma unroll
  for (int j = 0; j < kTile / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      out[8 * j + lane % 4 * 2 + i % 2][threadIdx.x / kWarp * 16 + lane / 4 + i / 2 * 8] = sums[j][i];
  __syncthreads();
}

// Float weights: a thread makes 4 rows x 8 tokens of the tile, 16 values of every row at a time.
struct __align__(16) FloatTile { float w[16][kTile + 4], x[16][kTile + 4]; };

template <class Type>
inline void multiply_tile(FloatTile& tile, const uint8_t* row, Input x, int cols, int, Sums& out) {
  const int first_row = threadIdx.x % 16 * 4, first_token = threadIdx.x / 16 * 8;
  const int at = threadIdx.x / 2, part = threadIdx.x % 2 * 8;
  float sums[4][8] = {};
  for (int c = 0; c < cols; c += 16) {
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int i = c + part + k;
      tile.w[part + k][at] = i < cols ? Type::at(row, i) : 0.0f;
      tile.x[part + k][at] = i < cols ? f32::at(x.values, i) : 0.0f;
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < 16; ++k)
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int t = 0; t < 8; ++t) sums[r][t] += tile.w[k][first_row + r] * tile.x[k][first_token + t];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int t = 0; t < 8; ++t) out[first_token + t][first_row + r] = sums[r][t];
  __syncthreads();
}

// The shared memory of a product, declared by the kernel itself (a host compiler cannot place those of templates).
template <class Type, bool = kIsFloat<Type>> struct TileOf { using type = QuantisedTile<Type>; };
template <class Type> struct TileOf<Type, true> { using type = FloatTile; };
template <class Type> union ProductMemory {
  typename TileOf<Type>::type tile;
  Sums sums;
};

// row and x are the weights' and the activations' row at place threadIdx.x / 2 of the tile, readable also past the
// ends; the tile has `tokens` tokens or as many as fit. Hands the sums to emit(row in the tile, token, sum).
template <class Type, class Emit>
inline void multiply(ProductMemory<Type>& memory, const uint8_t* row, Input x, int cols, int tokens, Emit&& emit) {
  multiply_tile<Type>(memory.tile, row, x, cols, tokens, memory.sums);
#pragma unroll 1
  for (int i = threadIdx.x; i < kTile * min(tokens, kTile); i += kTileThreads)
    emit(i % kTile, i / kTile, memory.sums[i / kTile][i % kTile]);
}

}  // namespace
