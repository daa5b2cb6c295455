// Attention of many query rows (prefill), lanes are rows; part of attention_lanes.h.
//
// Keys and values are converted to float32 a tile at a time (a tile of each fits the first-level cache); queries are
// transposed once, scores come out as [key, row] and outputs as [dim, row], so that softmax is vertical and neither
// keys nor values are ever transposed:
//   score[key, row] += key[dim] * query[dim, row]        out[dim, row] += value[dim] * weight[key, row]
// Both are products of a scalar stream and row vectors in register tiles of kTileRows × 2 vectors.
#pragma once
#include "attention_cache_lanes.h"

namespace tessera {
namespace {

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

// All `count` rows of a product; the last few in smaller tiles.
template <int M = kTileRows>
inline void product(const float* scalars, ptrdiff_t scalar_row, ptrdiff_t scalar_step, const float* vectors, int depth,
                    int count, float* out, const float* keep) {
  for (; count >= M; count -= M, scalars += M * scalar_row, out += M * kGroupRows)
    register_tile<M>(scalars, scalar_row, scalar_step, vectors, depth, out, keep);
  constexpr int next = M > 8 ? 8 : M > 4 ? 4 : M / 2;
  if constexpr (next > 0)
    if (count > 0) product<next>(scalars, scalar_row, scalar_step, vectors, depth, count, out, keep);
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
      for (; d + 8 <= task.key_dim; d += 8)
        transpose_8x8(rows8, d, out + static_cast<ptrdiff_t>(d) * kGroupRows + r, kGroupRows);
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
            for (int e = d; e < task.value_dim; ++e)
              out[static_cast<ptrdiff_t>(r + i) * task.value_dim + e] = from[e * kGroupRows + r + i];
          break;
        }
        const float* dims[8];
        for (int i = 0; i < 8; ++i) dims[i] = from + static_cast<ptrdiff_t>(d + i) * kGroupRows;
        transpose_8x8(dims, r, out + static_cast<ptrdiff_t>(r) * task.value_dim + d, task.value_dim);
      }
    for (; r < rows; ++r)
      for (int d = 0; d < task.value_dim; ++d)
        out[static_cast<ptrdiff_t>(r) * task.value_dim + d] = from[d * kGroupRows + r];
  }
}

void attend_many(const AttentionTask& task) {
  const Plan plan = plan_for(task.rows, task.key_dim, task.value_dim);
  const Workspace space(plan, task.scratch);
  transpose_queries(task, plan, space);
  const float* const values = task.values == task.keys ? space.keys : space.values;
  const int value_stride = task.values == task.keys ? plan.key_stride : plan.value_stride;
  alignas(64) float keep[kGroupRows];
  for (int begin = task.begin; begin < task.end; begin += plan.tile) {
    const int count = task.end - begin < plan.tile ? task.end - begin : plan.tile;
    load_tile(task, task.keys, task.key_block_bytes, task.key_row_bytes, task.key_dim, begin, count, space.keys,
              plan.key_stride);
    if (task.values != task.keys)
      load_tile(task, task.values, task.value_block_bytes, task.value_row_bytes, task.value_dim, begin, count,
                space.values, plan.value_stride);
    for (int g = 0; g < plan.groups; ++g) {
      const ptrdiff_t row = static_cast<ptrdiff_t>(g) * kGroupRows;
      // Rows rise in position, so the first and the last row bound what a group sees.
      const int sees_from = space.first[row], sees_to = space.last[row + kGroupRows - 1];
      if (sees_from >= begin + count || sees_to < begin) continue;
      const int seen = sees_to - begin + 1 < count ? sees_to - begin + 1 : count;
      const bool all = space.first[row + kGroupRows - 1] <= begin && space.last[row] >= begin + seen - 1;
      product(space.keys, plan.key_stride, 1, space.queries + row * plan.key_stride, task.key_dim, seen, space.scores,
              nullptr);
      if (task.soft_cap > 0) cap_scores(space.scores, seen * kGroupRows, task.soft_cap);
      soften(space.scores, seen, begin, all, space.first + row, space.last + row, space.peaks + row, space.sums + row,
             keep);
      product(values, 1, value_stride, space.scores, seen, task.value_dim, space.outputs + row * plan.value_stride,
              keep);
    }
  }
  transpose_outputs(task, plan, space);
}

}  // namespace
}  // namespace tessera
