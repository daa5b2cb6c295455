// Scratch of one attention task, and rows of the paged cache as float32; part of attention_lanes.h.
#pragma once
#include "attention.h"
#include "exponential_lanes.h"

namespace tessera {
namespace {

constexpr int kGroupRows = 2 * kLanes;    // query rows of one register tile
constexpr int kFewRows = 8;               // up to here lanes are dims
constexpr int kFewRowsTile = 256;         // keys whose scores are kept at once
constexpr int kTileBytes = 12 << 10;      // of converted keys or values
constexpr int kWideHead = 256;            // of wider heads not even the outputs of a group fit the first-level cache:
constexpr int kWideTile = 4 * kTileRows;  // each pass over them takes in more keys
constexpr float kNoPeak = -1e30f;         // below every score; finite, so that differences are never NaN
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
  if (widest > kWideHead) tile = kWideTile;
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
struct BlockRun {
  const uint8_t* row;
  int count;
};
inline BlockRun run_at(const AttentionTask& task, const uint8_t* base, size_t block_bytes, size_t row_bytes,
                       int position, int end) {
  const int slot = position % task.block_tokens, left = task.block_tokens - slot;
  return {base + static_cast<size_t>(task.blocks[position / task.block_tokens]) * block_bytes +
              static_cast<size_t>(slot) * row_bytes,
          end - position < left ? end - position : left};
}

// Soft cap of `n` scores, in whole vectors: what lies behind them may change.
inline void cap_scores(float* scores, int n, float cap) {
  const Vec c = broadcast(cap), twice_inverse = broadcast(2.0f / cap);
  for (int k = 0; k < n; k += kLanes) store(scores + k, capped(load(scores + k), c, twice_inverse));
}

// Positions begin … begin + count - 1 as float32, one row every `stride` floats; padding is zeroed.
void load_tile(const AttentionTask& task, const uint8_t* base, size_t block_bytes, size_t row_bytes, int dim, int begin,
               int count, float* out, int stride) {
  for (int position = begin; position < begin + count;) {
    const BlockRun run = run_at(task, base, block_bytes, row_bytes, position, begin + count);
    for (int i = 0; i < run.count; ++i, out += stride) {
      load_row(task.type, run.row + static_cast<size_t>(i) * row_bytes, out, dim);
      for (int d = dim; d < stride; ++d) out[d] = 0;
    }
    position += run.count;
  }
}

}  // namespace
}  // namespace tessera
