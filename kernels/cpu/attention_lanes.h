// The kernels of attention.h in terms of Vec, for every vector tier: include a lanes_<tier>.h first. Internal linkage.
//
// Keys and values are converted to float32 a tile at a time (a tile of each fits the first-level cache). Then there
// are two ways to go on:
//
//   many rows (prefill): lanes are query rows. Queries are transposed once, scores come out as [key, row] and outputs
//     as [dim, row], so that softmax is vertical and neither keys nor values are ever transposed:
//       score[key, row] += key[dim] * query[dim, row]        out[dim, row] += value[dim] * weight[key, row]
//     Both are products of a scalar stream and row vectors in register tiles of kTileRows × 2 vectors.
//   few rows (decode): lanes are dims, because most lanes would be empty otherwise.
#pragma once
#include "attention.h"
#include "exponential_lanes.h"

namespace tessera {
namespace {

constexpr int kGroupRows = 2 * kLanes;       // query rows of one register tile
constexpr int kFewRows = kLanes;             // up to here lanes are dims
constexpr int kTileBytes = 12 << 10;         // of converted keys or values
constexpr float kNoPeak = -1e30f;            // below every score; finite, so that differences are never NaN
constexpr int kQ8Block = 32;
constexpr size_t kQ8Bytes = 34;

inline size_t padded(size_t floats) { return (floats + 15) / 16 * 16; }

struct Plan {
  int tile;        // keys
  int groups;      // of kGroupRows rows
  int key_stride;  // floats of a converted row, whole vectors
  int value_stride;
};

inline Plan plan_for(int rows, int key_dim, int value_dim) {
  const auto whole = [](int n) { return (n + kLanes - 1) / kLanes * kLanes; };
  const int widest = whole(key_dim > value_dim ? key_dim : value_dim);
  int tile = kTileBytes / static_cast<int>(sizeof(float)) / widest / kTileRows * kTileRows;
  if (tile < kTileRows) tile = kTileRows;
  if (tile > 48) tile = 48;
  return {tile, (rows + kGroupRows - 1) / kGroupRows, whole(key_dim), whole(value_dim)};
}

// Scratch, in floats: converted keys and values, scores; then per group of rows queries, outputs, peaks, sums, ranges.
struct Workspace {
  float *keys, *values, *scores, *queries, *outputs, *peaks, *sums;
  int32_t *first, *last;

  static size_t floats(const Plan& plan) {
    const auto rows = static_cast<size_t>(plan.groups) * kGroupRows;
    const size_t dims = static_cast<size_t>(plan.key_stride) + static_cast<size_t>(plan.value_stride);
    return padded(static_cast<size_t>(plan.tile) * (dims + kGroupRows)) + rows * (dims + 4) + 16;
  }
  Workspace(const Plan& plan, uint8_t* memory) {
    const auto rows = static_cast<size_t>(plan.groups) * kGroupRows, tile = static_cast<size_t>(plan.tile);
    float* at = reinterpret_cast<float*>(memory);
    const auto take = [&at](size_t count) { float* const p = at; at += count; return p; };
    keys = take(tile * static_cast<size_t>(plan.key_stride));
    values = take(tile * static_cast<size_t>(plan.value_stride));
    scores = take(tile * kGroupRows);
    at = reinterpret_cast<float*>(memory) +
         padded(tile * static_cast<size_t>(plan.key_stride + plan.value_stride + kGroupRows));
    queries = take(rows * static_cast<size_t>(plan.key_stride));
    outputs = take(rows * static_cast<size_t>(plan.value_stride));
    peaks = take(rows);
    sums = take(rows);
    first = reinterpret_cast<int32_t*>(take(rows));
    last = reinterpret_cast<int32_t*>(take(rows));
  }
};

size_t scratch_bytes(int rows, int key_dim, int value_dim) {
  return sizeof(float) * Workspace::floats(plan_for(rows, key_dim, value_dim));
}

// --- cache rows to float32 ------------------------------------------------------------------------------------------

inline void load_row(KvType type, const uint8_t* row, float* out, int n) {
  int i = 0;
  if (type == KvType::F16) {
    for (; i + kLanes <= n; i += kLanes) store(out + i, load_half(row + 2 * i));
    for (; i < n; ++i) out[i] = scalar_half(row + 2 * i);
  } else if (type == KvType::Q8_0) {
    for (; i < n; i += kQ8Block, row += kQ8Bytes) {
      const Vec step = broadcast(scalar_half(row));
      for (int k = 0; k < kQ8Block; k += kLanes) store(out + i + k, multiply(step, load_int8(row + 2 + k)));
    }
  } else {
    for (; i + kLanes <= n; i += kLanes) store(out + i, load(reinterpret_cast<const float*>(row) + i));
    for (; i < n; ++i) out[i] = reinterpret_cast<const float*>(row)[i];
  }
}

// Positions begin … begin + count - 1 of a paged K or V, one row every `stride` floats; padding is zeroed.
void load_tile(const AttentionTask& task, const uint8_t* base, size_t block_bytes, size_t row_bytes, int dim, int begin,
               int count, float* out, int stride) {
  for (int i = 0; i < count; ++i, out += stride) {
    const int position = begin + i;
    const uint8_t* const row = base + static_cast<size_t>(task.blocks[position / task.block_tokens]) * block_bytes +
                               static_cast<size_t>(position % task.block_tokens) * row_bytes;
    load_row(task.type, row, out, dim);
    for (int d = dim; d < stride; ++d) out[d] = 0;
  }
}

// --- many rows: lanes are query rows ----------------------------------------------------------------------------------

// acc[m][·] = Σ_k scalars[m * scalar_row + k * scalar_step] * vectors[k][·], added to out * keep.
template <int M>
inline void register_tile(const float* scalars, ptrdiff_t scalar_row, ptrdiff_t scalar_step, const float* vectors,
                          int depth, float* out, const float* keep) {
  Vec left[M], right[M];
  for (int m = 0; m < M; ++m) {
    left[m] = keep != nullptr ? multiply(load(out + m * kGroupRows), load(keep)) : zero();
    right[m] = keep != nullptr ? multiply(load(out + m * kGroupRows + kLanes), load(keep + kLanes)) : zero();
  }
  for (int k = 0; k < depth; ++k, vectors += kGroupRows, scalars += scalar_step) {
    const Vec a = load(vectors), b = load(vectors + kLanes);
    for (int m = 0; m < M; ++m) {
      const Vec s = broadcast(scalars[m * scalar_row]);
      left[m] = multiply_add(s, a, left[m]);
      right[m] = multiply_add(s, b, right[m]);
    }
  }
  for (int m = 0; m < M; ++m) {
    store(out + m * kGroupRows, left[m]);
    store(out + m * kGroupRows + kLanes, right[m]);
  }
}

// All `count` rows of a product; the last few in a smaller tile.
template <int M = kTileRows>
inline void product(const float* scalars, ptrdiff_t scalar_row, ptrdiff_t scalar_step, const float* vectors, int depth,
                    int count, float* out, const float* keep) {
  for (; count >= M; count -= M, scalars += M * scalar_row, out += M * kGroupRows)
    register_tile<M>(scalars, scalar_row, scalar_step, vectors, depth, out, keep);
  if constexpr (M > 1)
    if (count > 0) product<M / 2>(scalars, scalar_row, scalar_step, vectors, depth, count, out, keep);
}

void transpose_queries(const AttentionTask& task, const Plan& plan, const Workspace& space) {
  const int rows = plan.groups * kGroupRows;
  for (int r = 0; r < rows; ++r) {
    const int from = r < task.rows ? r : task.rows - 1;  // padding rows compute what the last row does
    space.first[r] = task.first[from];
    space.last[r] = task.last[from];
    space.peaks[r] = kNoPeak;
    space.sums[r] = 0;
  }
  const Vec scale = broadcast(task.scale);
  for (int g = 0; g < plan.groups; ++g) {
    float* const out = space.queries + static_cast<ptrdiff_t>(g) * kGroupRows * plan.key_stride;
    for (int r = 0; r < kGroupRows; r += 8) {
      const float* rows8[8];
      for (int i = 0; i < 8; ++i) {
        const int row = g * kGroupRows + r + i;
        rows8[i] = task.queries[row < task.rows ? row : task.rows - 1];
      }
      int d = 0;
      for (; d + 8 <= task.key_dim; d += 8) transpose_8x8(rows8, d, out + static_cast<ptrdiff_t>(d) * kGroupRows + r, kGroupRows);
      for (; d < task.key_dim; ++d)
        for (int i = 0; i < 8; ++i) out[static_cast<ptrdiff_t>(d) * kGroupRows + r + i] = rows8[i][d];
    }
    for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(task.key_dim) * kGroupRows; i += kLanes)
      store(out + i, multiply(load(out + i), scale));
    float* const sums = space.outputs + static_cast<ptrdiff_t>(g) * kGroupRows * plan.value_stride;
    for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(task.value_dim) * kGroupRows; i += kLanes) store(sums + i, zero());
  }
}

// Scores to weights for one group of rows; `keep` gets what earlier outputs are to be multiplied by.
inline void soften(float* scores, int count, int begin, bool all_visible, const int32_t* first, const int32_t* last,
                   float* peaks, float* sums, float* keep) {
  for (int half = 0; half < kGroupRows; half += kLanes) {
    const Vec old_peak = load(peaks + half);
    Vec peak = old_peak;
    for (int k = 0; k < count; ++k) {
      float* const at = scores + k * kGroupRows + half;
      if (!all_visible) store(at, hide(load(at), first + half, last + half, begin + k));
      peak = greater(load(at), peak);
    }
    const Vec shrink = exponential(subtract(old_peak, peak));
    Vec total = multiply(load(sums + half), shrink);
    for (int k = 0; k < count; ++k) {
      float* const at = scores + k * kGroupRows + half;
      const Vec weight = exponential(subtract(load(at), peak));
      store(at, weight);
      total = add(total, weight);
    }
    store(peaks + half, peak);
    store(sums + half, total);
    store(keep + half, shrink);
  }
}

void transpose_outputs(const AttentionTask& task, const Plan& plan, const Workspace& space) {
  for (int r = 0; r < task.rows; ++r) {
    task.peaks[r] = space.peaks[r];
    task.sums[r] = space.sums[r];
  }
  for (int g = 0; g < plan.groups; ++g) {
    const float* const from = space.outputs + static_cast<ptrdiff_t>(g) * kGroupRows * plan.value_stride;
    const int rows = task.rows - g * kGroupRows < kGroupRows ? task.rows - g * kGroupRows : kGroupRows;
    float* const out = task.out + static_cast<ptrdiff_t>(g) * kGroupRows * task.value_dim;
    int r = 0;
    for (; r + 8 <= rows; r += 8)
      for (int d = 0; d < task.value_dim; d += 8) {
        if (d + 8 > task.value_dim) {
          for (int i = 0; i < 8; ++i)
            for (int e = d; e < task.value_dim; ++e) out[static_cast<ptrdiff_t>(r + i) * task.value_dim + e] = from[e * kGroupRows + r + i];
          break;
        }
        const float* dims[8];
        for (int i = 0; i < 8; ++i) dims[i] = from + static_cast<ptrdiff_t>(d + i) * kGroupRows;
        transpose_8x8(dims, r, out + static_cast<ptrdiff_t>(r) * task.value_dim + d, task.value_dim);
      }
    for (; r < rows; ++r)
      for (int d = 0; d < task.value_dim; ++d) out[static_cast<ptrdiff_t>(r) * task.value_dim + d] = from[d * kGroupRows + r];
  }
}

void attend_many(const AttentionTask& task) {
  const Plan plan = plan_for(task.rows, task.key_dim, task.value_dim);
  const Workspace space(plan, task.scratch);
  transpose_queries(task, plan, space);
  alignas(64) float keep[kGroupRows];
  for (int begin = task.begin; begin < task.end; begin += plan.tile) {
    const int count = task.end - begin < plan.tile ? task.end - begin : plan.tile;
    load_tile(task, task.keys, task.key_block_bytes, task.key_row_bytes, task.key_dim, begin, count, space.keys, plan.key_stride);
    load_tile(task, task.values, task.value_block_bytes, task.value_row_bytes, task.value_dim, begin, count, space.values, plan.value_stride);
    for (int g = 0; g < plan.groups; ++g) {
      const ptrdiff_t row = static_cast<ptrdiff_t>(g) * kGroupRows;
      bool any = false, all = true;
      for (int r = 0; r < kGroupRows; ++r) {
        any |= space.first[row + r] < begin + count && space.last[row + r] >= begin;
        all &= space.first[row + r] <= begin && space.last[row + r] >= begin + count - 1;
      }
      if (!any) continue;
      product(space.keys, plan.key_stride, 1, space.queries + row * plan.key_stride, task.key_dim, count, space.scores, nullptr);
      soften(space.scores, count, begin, all, space.first + row, space.last + row, space.peaks + row, space.sums + row, keep);
      product(space.values, 1, plan.value_stride, space.scores, count, task.value_dim, space.outputs + row * plan.value_stride, keep);
    }
  }
  transpose_outputs(task, plan, space);
}

// --- few rows: lanes are dims -------------------------------------------------------------------------------------------

// scores[r * tile + k] for R rows against K keys.
template <int R, int K>
inline void dot_tile(const float* queries, int stride, const float* keys, int dims, float* scores, int tile) {
  Vec sums[R][K];
  for (int r = 0; r < R; ++r)
    for (int k = 0; k < K; ++k) sums[r][k] = zero();
  for (int d = 0; d < dims; d += kLanes) {
    Vec key[K];
    for (int k = 0; k < K; ++k) key[k] = load(keys + k * stride + d);
    for (int r = 0; r < R; ++r) {
      const Vec q = load(queries + r * stride + d);
      for (int k = 0; k < K; ++k) sums[r][k] = multiply_add(q, key[k], sums[r][k]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int k = 0; k < K; ++k) scores[r * tile + k] = sum(sums[r][k]);
}

template <int R>
inline void dot_rows(const float* queries, int stride, const float* keys, int count, int dims, float* scores, int tile) {
  int k = 0;
  for (; k + 4 <= count; k += 4) dot_tile<R, 4>(queries, stride, keys + k * stride, dims, scores + k, tile);
  for (; k < count; ++k) dot_tile<R, 1>(queries, stride, keys + k * stride, dims, scores + k, tile);
}

// out[r][d] = out * keep[r] + Σ_k weights[r * tile + k] * values[k][d] for R rows and D vectors of dims.
template <int R, int D>
inline void mix_tile(const float* weights, int tile, const float* values, int stride, int count, const float* keep,
                     float* out) {
  Vec sums[R][D];
  for (int r = 0; r < R; ++r)
    for (int d = 0; d < D; ++d) sums[r][d] = multiply(load(out + r * stride + d * kLanes), broadcast(keep[r]));
  for (int k = 0; k < count; ++k) {
    Vec value[D];
    for (int d = 0; d < D; ++d) value[d] = load(values + k * stride + d * kLanes);
    for (int r = 0; r < R; ++r) {
      const Vec w = broadcast(weights[r * tile + k]);
      for (int d = 0; d < D; ++d) sums[r][d] = multiply_add(w, value[d], sums[r][d]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int d = 0; d < D; ++d) store(out + r * stride + d * kLanes, sums[r][d]);
}

template <int R>
inline void mix_rows(const float* weights, int tile, const float* values, int stride, int count, const float* keep,
                     float* out) {
  int d = 0;
  for (; d + 4 * kLanes <= stride; d += 4 * kLanes) mix_tile<R, 4>(weights, tile, values + d, stride, count, keep, out + d);
  for (; d < stride; d += kLanes) mix_tile<R, 1>(weights, tile, values + d, stride, count, keep, out + d);
}

// The weights of one row's keys; returns what its earlier output is to be multiplied by.
inline float soften_row(float* scores, int count, int begin, int first, int last, float& peak, float& total) {
  float highest = peak;
  for (int k = 0; k < count; ++k) {
    if (begin + k < first || begin + k > last) scores[k] = -__builtin_inff();
    if (scores[k] > highest) highest = scores[k];
  }
  alignas(64) float pair[kLanes] = {peak - highest};
  store(pair, exponential(load(pair)));
  const float shrink = pair[0];
  Vec sums = zero();
  const Vec top = broadcast(highest);
  int k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    const Vec weight = exponential(subtract(load(scores + k), top));
    store(scores + k, weight);
    sums = add(sums, weight);
  }
  if (k < count) {
    alignas(64) float rest[kLanes];
    for (int i = 0; i < kLanes; ++i) rest[i] = k + i < count ? scores[k + i] : -__builtin_inff();
    const Vec weight = exponential(subtract(load(rest), top));
    store_some(scores + k, weight, count - k);
    sums = add(sums, weight);
  }
  total = total * shrink + sum(sums);
  peak = highest;
  return shrink;
}

void attend_few(const AttentionTask& task) {
  const Plan plan = plan_for(task.rows, task.key_dim, task.value_dim);
  const Workspace space(plan, task.scratch);
  const int tile = plan.tile;
  for (int r = 0; r < task.rows; ++r) {
    float* const query = space.queries + static_cast<ptrdiff_t>(r) * plan.key_stride;
    for (int d = 0; d < plan.key_stride; ++d) query[d] = d < task.key_dim ? task.queries[r][d] * task.scale : 0.0f;
    float* const out = space.outputs + static_cast<ptrdiff_t>(r) * plan.value_stride;
    for (int d = 0; d < plan.value_stride; ++d) out[d] = 0;
    task.peaks[r] = kNoPeak;
    task.sums[r] = 0;
  }
  float keep[kFewRows];
  for (int begin = task.begin; begin < task.end; begin += tile) {
    const int count = task.end - begin < tile ? task.end - begin : tile;
    load_tile(task, task.keys, task.key_block_bytes, task.key_row_bytes, task.key_dim, begin, count, space.keys, plan.key_stride);
    int r = 0;
    for (; r + 2 <= task.rows; r += 2)
      dot_rows<2>(space.queries + r * plan.key_stride, plan.key_stride, space.keys, count, plan.key_stride, space.scores + r * tile, tile);
    if (r < task.rows)
      dot_rows<1>(space.queries + r * plan.key_stride, plan.key_stride, space.keys, count, plan.key_stride, space.scores + r * tile, tile);
    for (r = 0; r < task.rows; ++r)
      keep[r] = soften_row(space.scores + r * tile, count, begin, task.first[r], task.last[r], task.peaks[r], task.sums[r]);
    load_tile(task, task.values, task.value_block_bytes, task.value_row_bytes, task.value_dim, begin, count, space.values, plan.value_stride);
    for (r = 0; r + 2 <= task.rows; r += 2)
      mix_rows<2>(space.scores + r * tile, tile, space.values, plan.value_stride, count, keep + r, space.outputs + r * plan.value_stride);
    if (r < task.rows)
      mix_rows<1>(space.scores + r * tile, tile, space.values, plan.value_stride, count, keep + r, space.outputs + r * plan.value_stride);
  }
  for (int r = 0; r < task.rows; ++r)
    for (int d = 0; d < task.value_dim; ++d)
      task.out[static_cast<ptrdiff_t>(r) * task.value_dim + d] = space.outputs[static_cast<ptrdiff_t>(r) * plan.value_stride + d];
}

void attend(const AttentionTask& task) {
  if (task.rows <= kFewRows)
    attend_few(task);
  else
    attend_many(task);
}

void store_f16(const float* x, uint8_t* row, int n) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) store_half(row + 2 * i, load(x + i));
  for (; i < n; ++i) {
    const uint16_t half = half_of(x[i]);
    __builtin_memcpy(row + 2 * i, &half, 2);
  }
}

}  // namespace
}  // namespace tessera
