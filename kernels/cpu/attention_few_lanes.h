// Attention of few query rows (decode), lanes are dims, because most lanes would be empty otherwise; part of
// attention_lanes.h. Cache rows are converted in registers, each once for up to four query rows; while one block is
// read, the next is prefetched.
#pragma once
#include "attention_cache_lanes.h"

namespace tessera {
namespace {

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
inline void dot_run(const float* queries, int dims, const BlockRun& run, size_t row_bytes, const uint8_t* ahead,
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
inline void mix_tile(const float* weights, const BlockRun& run, size_t row_bytes, int first_dim, const uint8_t* ahead,
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
inline void mix_run(const float* weights, const BlockRun& run, size_t row_bytes, const uint8_t* ahead,
                    const float* keep, float* out, int dims) {
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
      const BlockRun run = key_run(p, end);
      const int next = p + run.count;
      // Every run but the last is followed by one of the same length or a shorter one.
      const BlockRun coming = next < end ? key_run(next, end) : value_run(begin, end);
      const uint8_t* ahead = coming.count >= run.count ? coming.row : nullptr;
      each_rows(task.rows, [&]<int R>(Rows<R>, int r) {
        dot_run<Row, R>(space.queries + r * task.key_dim, task.key_dim, run, task.key_row_bytes, ahead,
                        space.scores + r * kFewRowsTile + (p - begin));
        ahead = nullptr;
      });
      p = next;
    }
    float keep[kFewRows];
    for (int r = 0; task.soft_cap > 0 && r < task.rows; ++r)
      cap_scores(space.scores + r * kFewRowsTile, end - begin, task.soft_cap);
    for (int r = 0; r < task.rows; ++r)
      keep[r] = soften_row(space.scores + r * kFewRowsTile, end - begin, begin, task.first[r], task.last[r],
                           task.peaks[r], task.sums[r]);
    for (int p = begin; p < end;) {
      const BlockRun run = value_run(p, end);
      const int next = p + run.count;
      const BlockRun coming = next < end ? value_run(next, end) : BlockRun{nullptr, 0};
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

}  // namespace
}  // namespace tessera
