// Reference tier: one query row and one key at a time, with the running maximum of online softmax.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "attention.h"
#include "half.h"

namespace tessera {
namespace {

size_t scratch_bytes(int, int key_dim, int value_dim) {
  return sizeof(float) * static_cast<size_t>(std::max(key_dim, value_dim));
}

// Q8_0: blocks of 32 values, a half-precision scale and 32 int8.
constexpr int kQ8Block = 32;
constexpr size_t kQ8Bytes = 34;

void load_row(KvType type, const uint8_t* row, float* out, int n) {
  if (type == KvType::F32) {
    std::memcpy(out, row, sizeof(float) * static_cast<size_t>(n));
  } else if (type == KvType::F16) {
    for (int i = 0; i < n; ++i) {
      uint16_t half;
      std::memcpy(&half, row + 2 * i, 2);
      out[i] = half_to_float(half);
    }
  } else {
    for (int i = 0; i < n; ++i) {
      const uint8_t* block = row + kQ8Bytes * static_cast<size_t>(i / kQ8Block);
      uint16_t half;
      std::memcpy(&half, block, 2);
      out[i] = half_to_float(half) * static_cast<float>(static_cast<int8_t>(block[2 + i % kQ8Block]));
    }
  }
}

void attend_row(const AttentionTask& task, int r) {
  float* const out = task.out + static_cast<ptrdiff_t>(r) * task.value_dim;
  float* const row = reinterpret_cast<float*>(task.scratch);
  float peak = -std::numeric_limits<float>::infinity(), sum = 0;
  std::fill_n(out, task.value_dim, 0.0f);
  const int stop = std::min(task.end, task.last[r] + 1);
  for (int p = std::max(task.begin, task.first[r]); p < stop; ++p) {
    const auto block = static_cast<size_t>(task.blocks[p / task.block_tokens]);
    const auto slot = static_cast<size_t>(p % task.block_tokens);
    load_row(task.type, task.keys + block * task.key_block_bytes + slot * task.key_row_bytes, row, task.key_dim);
    float score = 0;
    for (int d = 0; d < task.key_dim; ++d) score += task.queries[r][d] * row[d];
    score *= task.scale;
    if (task.soft_cap > 0) score = task.soft_cap * std::tanh(score / task.soft_cap);
    if (score > peak) {
      const float shrink = std::exp(peak - score);
      for (int d = 0; d < task.value_dim; ++d) out[d] *= shrink;
      sum *= shrink;
      peak = score;
    }
    const float weight = std::exp(score - peak);
    load_row(task.type, task.values + block * task.value_block_bytes + slot * task.value_row_bytes, row,
             task.value_dim);
    for (int d = 0; d < task.value_dim; ++d) out[d] += weight * row[d];
    sum += weight;
  }
  task.peaks[r] = peak;
  task.sums[r] = sum;
}

void attend(const AttentionTask& task) {
  for (int r = 0; r < task.rows; ++r) attend_row(task, r);
}

void store_f32(const float* x, uint8_t* row, int n) { std::memcpy(row, x, sizeof(float) * static_cast<size_t>(n)); }

void store_f16(const float* x, uint8_t* row, int n) {
  for (int i = 0; i < n; ++i) {
    const uint16_t half = float_to_half(x[i]);
    std::memcpy(row + 2 * i, &half, 2);
  }
}

void store_q8_0(const float* x, uint8_t* row, int n) {
  for (int b = 0; b < n / kQ8Block; ++b, x += kQ8Block, row += kQ8Bytes) {
    float largest = 0;
    for (int i = 0; i < kQ8Block; ++i) largest = std::max(largest, std::fabs(x[i]));
    const float step = largest / 127.0f, inverse = step > 0 ? 1.0f / step : 0.0f;
    const uint16_t half = float_to_half(step);
    std::memcpy(row, &half, 2);
    for (int i = 0; i < kQ8Block; ++i) {  // the bounds also give NaN a value
      const float q = std::nearbyint(x[i] * inverse);
      row[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(q >= -127.0f ? (q <= 127.0f ? q : 127.0f) : -127.0f));
    }
  }
}

}  // namespace

void fill_attention_scalar(AttentionKernels& kernels) {
  kernels = {};
  kernels.tier = "scalar";
  kernels.scratch_bytes = scratch_bytes;
  kernels.attend = attend;
  kernels.store[static_cast<int>(KvType::F32)] = store_f32;
  kernels.store[static_cast<int>(KvType::F16)] = store_f16;
  kernels.store[static_cast<int>(KvType::Q8_0)] = store_q8_0;
}

}  // namespace tessera
