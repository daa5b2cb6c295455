// The kernels of attention.h in terms of Vec, for every vector tier: include a lanes_<tier>.h first. Internal linkage.
//
//   many rows (prefill): lanes are query rows. Keys and values are converted to float32 a tile at a time (a tile of
//   each
//     fits the first-level cache); queries are transposed once, scores come out as [key, row] and outputs as [dim,
//     row], so that softmax is vertical and neither keys nor values are ever transposed:
//       score[key, row] += key[dim] * query[dim, row]        out[dim, row] += value[dim] * weight[key, row]
//     Both are products of a scalar stream and row vectors in register tiles of kTileRows × 2 vectors.
//   few rows (decode): lanes are dims, because most lanes would be empty otherwise. Cache rows are converted in
//   registers,
//     each once for up to four query rows; while a block is read, the next one is prefetched.
#pragma once
#include "attention.h"
#include "exponential_lanes.h"

namespace tessera {
namespace {

constexpr int kGroupRows = 2 * kLanes;  // query rows of one register tile
constexpr int kFewRows = 8;             // up to here lanes are dims
constexpr int kFewRowsTile = 256;       // keys whose scores are kept at once
constexpr int kTileBytes = 12 << 10;    // of converted keys or values
constexpr float kNoPeak = -1e30f;       // below every score; finite, so that differences are never NaN
constexpr int kQ8Block = 32;
constexpr size_t kQ8Bytes = 34;

inline size_t padded(size_t floats) { return (floats + 15) / 16 * 16; }

inline size_t at_least(size_t a, size_t b) { return a > b ? a : b; }

struct Plan {
  int tile;        // keys that are treated at once
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
    return padded(static_cast<size_t>(plan.tile) * dims + score_floats(plan)) + rows * (dims + 4) + 16;
  }
  static size_t score_floats(const Plan& plan) {
    return at_least(static_cast<size_t>(plan.tile) * kGroupRows, static_cast<size_t>(kFewRows) * kFewRowsTile);
  }
  Workspace(const Plan& plan, uint8_t* memory) {
    const auto rows = static_cast<size_t>(plan.groups) * kGroupRows, tile = static_cast<size_t>(plan.tile);
    float* at = reinterpret_cast<float*>(memory);
    const auto take = [&at](size_t count) {
      float* const p = at;
      at += count;
      return p;
    };
    keys = take(tile * static_cast<size_t>(plan.key_stride));
    values = take(tile * static_cast<size_t>(plan.value_stride));
    scores = take(score_floats(plan));  // few rows: [kFewRows, kFewRowsTile]
    at = reinterpret_cast<float*>(memory) +
         padded(tile * static_cast<size_t>(plan.key_stride + plan.value_stride) + score_floats(plan));
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

// The rows of one block from a position on; rows of one head are neighbours.
struct Run {
  const uint8_t* row;
  int count;
};
inline Run run_at(const AttentionTask& task, const uint8_t* base, size_t block_bytes, size_t row_bytes, int position,
                  int end) {
  const int slot = position % task.block_tokens, left = task.block_tokens - slot;
  return {base + static_cast<size_t>(task.blocks[position / task.block_tokens]) * block_bytes +
              static_cast<size_t>(slot) * row_bytes,
          end - position < left ? end - position : left};
}

// Positions begin … begin + count - 1 as float32, one row every `stride` floats; padding is zeroed.
void load_tile(const AttentionTask& task, const uint8_t* base, size_t block_bytes, size_t row_bytes, int dim, int begin,
               int count, float* out, int stride) {
  for (int position = begin; position < begin + count;) {
    const Run run = run_at(task, base, block_bytes, row_bytes, position, begin + count);
    for (int i = 0; i < run.count; ++i, out += stride) {
      load_row(task.type, run.row + static_cast<size_t>(i) * row_bytes, out, dim);
      for (int d = dim; d < stride; ++d) out[d] = 0;
    }
    position += run.count;
  }
}

// --- many rows: lanes are query rows
// ----------------------------------------------------------------------------------

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
  alignas(64) float keep[kGroupRows];
  for (int begin = task.begin; begin < task.end; begin += plan.tile) {
    const int count = task.end - begin < plan.tile ? task.end - begin : plan.tile;
    load_tile(task, task.keys, task.key_block_bytes, task.key_row_bytes, task.key_dim, begin, count, space.keys,
              plan.key_stride);
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
      soften(space.scores, seen, begin, all, space.first + row, space.last + row, space.peaks + row, space.sums + row,
             keep);
      product(space.values, 1, plan.value_stride, space.scores, seen, task.value_dim,
              space.outputs + row * plan.value_stride, keep);
    }
  }
  transpose_outputs(task, plan, space);
}

// --- few rows: lanes are dims
// -------------------------------------------------------------------------------------------

struct HalfRow {
  static Vec at(const uint8_t* row, int d) { return load_half(row + 2 * d); }
};
struct FloatRow {
  static Vec at(const uint8_t* row, int d) { return load(reinterpret_cast<const float*>(row) + d); }
};
struct Q8Row {
  static Vec at(const uint8_t* row, int d) {
    const uint8_t* const block = row + static_cast<size_t>(d / kQ8Block) * kQ8Bytes;
    return multiply(broadcast(scalar_half(block)), load_int8(block + 2 + d % kQ8Block));
  }
};

// scores[r * kFewRowsTile + k] = queries[r] · row k for R queries and K rows.
template <class Row, int R, int K>
inline void dot_tile(const float* queries, int dims, const uint8_t* rows, size_t row_bytes, float* scores) {
  Vec sums[R][K];
  for (int r = 0; r < R; ++r)
    for (int k = 0; k < K; ++k) sums[r][k] = zero();
  for (int d = 0; d < dims; d += kLanes) {
    Vec key[K];
    for (int k = 0; k < K; ++k) key[k] = Row::at(rows + static_cast<size_t>(k) * row_bytes, d);
    for (int r = 0; r < R; ++r) {
      const Vec q = load(queries + r * dims + d);
      for (int k = 0; k < K; ++k) sums[r][k] = multiply_add(q, key[k], sums[r][k]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int k = 0; k < K; ++k) scores[r * kFewRowsTile + k] = sum(sums[r][k]);
}

inline void prefetch(const uint8_t* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i);
}

// R queries against the rows of one run; `ahead` is fetched on the way.
template <class Row, int R>
inline void dot_run(const float* queries, int dims, const Run& run, size_t row_bytes, const uint8_t* ahead,
                    float* scores) {
  constexpr int K = R > 2 ? 2 : 4;  // enough chains to hide the latency of multiply_add
  int k = 0;
  for (; k + K <= run.count; k += K) {
    const size_t at = static_cast<size_t>(k) * row_bytes;
    if (ahead != nullptr) prefetch(ahead + at, K * row_bytes);
    dot_tile<Row, R, K>(queries, dims, run.row + at, row_bytes, scores + k);
  }
  for (; k < run.count; ++k)
    dot_tile<Row, R, 1>(queries, dims, run.row + static_cast<size_t>(k) * row_bytes, row_bytes, scores + k);
}

// out[r][d] = out[r][d] * keep[r] + Σ_k weights[r * kFewRowsTile + k] * row k[d] for R outputs and D vectors of dims.
template <class Row, int R, int D>
inline void mix_tile(const float* weights, const Run& run, size_t row_bytes, int first_dim, const uint8_t* ahead,
                     const float* keep, float* out, int dims) {
  Vec sums[R][D];
  for (int r = 0; r < R; ++r)
    for (int d = 0; d < D; ++d) sums[r][d] = multiply(load(out + r * dims + d * kLanes), broadcast(keep[r]));
  const uint8_t* row = run.row;
  for (int k = 0; k < run.count; ++k, row += row_bytes) {
    if (ahead != nullptr) {
      prefetch(ahead, row_bytes);
      ahead += row_bytes;
    }
    Vec value[D];
    for (int d = 0; d < D; ++d) value[d] = Row::at(row, first_dim + d * kLanes);
    for (int r = 0; r < R; ++r) {
      const Vec w = broadcast(weights[r * kFewRowsTile + k]);
      for (int d = 0; d < D; ++d) sums[r][d] = multiply_add(w, value[d], sums[r][d]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int d = 0; d < D; ++d) store(out + r * dims + d * kLanes, sums[r][d]);
}

template <class Row, int R>
inline void mix_run(const float* weights, const Run& run, size_t row_bytes, const uint8_t* ahead, const float* keep,
                    float* out, int dims) {
  constexpr int D = R > 2 ? 2 : 4;
  int d = 0;
  for (; d + D * kLanes <= dims; d += D * kLanes, ahead = nullptr)
    mix_tile<Row, R, D>(weights, run, row_bytes, d, ahead, keep, out + d, dims);
  for (; d < dims; d += kLanes, ahead = nullptr)
    mix_tile<Row, R, 1>(weights, run, row_bytes, d, ahead, keep, out + d, dims);
}

// Calls body(constant<R>, first row) for all rows in groups of up to four.
template <int R>
struct Rows {};
template <class Body>
inline void each_rows(int rows, Body&& body) {
  int r = 0;
  for (; r + 4 <= rows; r += 4) body(Rows<4>{}, r);
  if (rows - r == 3) body(Rows<3>{}, r);
  if (rows - r == 2) body(Rows<2>{}, r);
  if (rows - r == 1) body(Rows<1>{}, r);
}

// Scores of positions begin … begin + count - 1 to weights; returns what the row's earlier output is to be multiplied
// by.
inline float soften_row(float* scores, int count, int begin, int first, int last, float& peak, float& total) {
  for (int k = 0; k < count && begin + k < first; ++k) scores[k] = -__builtin_inff();
  for (int k = count - 1; k >= 0 && begin + k > last; --k) scores[k] = -__builtin_inff();
  const int whole = (count + kLanes - 1) / kLanes * kLanes;  // the row of scores has room for whole vectors
  for (int k = count; k < whole; ++k) scores[k] = -__builtin_inff();
  Vec top = broadcast(peak);
  for (int k = 0; k < whole; k += kLanes) top = greater(load(scores + k), top);
  const float highest = greatest(top);
  alignas(64) float shrink[kLanes];
  store(shrink, exponential(broadcast(peak - highest)));
  top = broadcast(highest);
  Vec sums = zero();
  for (int k = 0; k < whole; k += kLanes) {
    const Vec weight = exponential(subtract(load(scores + k), top));
    store(scores + k, weight);
    sums = add(sums, weight);
  }
  total = total * shrink[0] + sum(sums);
  peak = highest;
  return shrink[0];
}

template <class Row>
void attend_few(const AttentionTask& task) {
  const Plan plan = plan_for(task.rows, task.key_dim, task.value_dim);
  const Workspace space(plan, task.scratch);
  for (int r = 0; r < task.rows; ++r) {
    float* const query = space.queries + static_cast<ptrdiff_t>(r) * task.key_dim;
    for (int d = 0; d < task.key_dim; d += kLanes)
      store(query + d, multiply(load(task.queries[r] + d), broadcast(task.scale)));
    float* const out = task.out + static_cast<ptrdiff_t>(r) * task.value_dim;
    for (int d = 0; d < task.value_dim; d += kLanes) store(out + d, zero());
    task.peaks[r] = kNoPeak;
    task.sums[r] = 0;
  }
  const auto key_run = [&task](int p, int end) {
    return run_at(task, task.keys, task.key_block_bytes, task.key_row_bytes, p, end);
  };
  const auto value_run = [&task](int p, int end) {
    return run_at(task, task.values, task.value_block_bytes, task.value_row_bytes, p, end);
  };
  for (int begin = task.begin; begin < task.end; begin += kFewRowsTile) {
    const int end = task.end - begin < kFewRowsTile ? task.end : begin + kFewRowsTile;
    for (int p = begin; p < end;) {
      const Run run = key_run(p, end);
      const int next = p + run.count;
      // Every run but the last is followed by one of the same length or a shorter one.
      const Run coming = next < end ? key_run(next, end) : value_run(begin, end);
      const uint8_t* ahead = coming.count >= run.count ? coming.row : nullptr;
      each_rows(task.rows, [&]<int R>(Rows<R>, int r) {
        dot_run<Row, R>(space.queries + r * task.key_dim, task.key_dim, run, task.key_row_bytes, ahead,
                        space.scores + r * kFewRowsTile + (p - begin));
        ahead = nullptr;
      });
      p = next;
    }
    float keep[kFewRows];
    for (int r = 0; r < task.rows; ++r)
      keep[r] = soften_row(space.scores + r * kFewRowsTile, end - begin, begin, task.first[r], task.last[r],
                           task.peaks[r], task.sums[r]);
    for (int p = begin; p < end;) {
      const Run run = value_run(p, end);
      const int next = p + run.count;
      const Run coming = next < end ? value_run(next, end) : Run{nullptr, 0};
      const uint8_t* ahead = coming.count >= run.count ? coming.row : nullptr;
      each_rows(task.rows, [&]<int R>(Rows<R>, int r) {
        mix_run<Row, R>(space.scores + r * kFewRowsTile + (p - begin), run, task.value_row_bytes, ahead, keep + r,
                        task.out + static_cast<ptrdiff_t>(r) * task.value_dim, task.value_dim);
        ahead = nullptr;
      });
      for (int r = 0; r < task.rows; ++r) keep[r] = 1;
      p = next;
    }
  }
}

void attend(const AttentionTask& task) {
  if (task.rows > kFewRows || task.key_dim % kLanes != 0 || task.value_dim % kLanes != 0)
    attend_many(task);
  else if (task.type == KvType::F16)
    attend_few<HalfRow>(task);
  else if (task.type == KvType::Q8_0)
    attend_few<Q8Row>(task);
  else
    attend_few<FloatRow>(task);
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
