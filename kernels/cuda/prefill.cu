// Attention for many queries over the paged KV cache (cache.cuh), on tensor cores; compiled once per cache type.
#include "cache.cuh"
#include "mma.cuh"

namespace {

constexpr int kQueryRows = 64, kPrefillThreads = 128;  // query rows (tokens x heads) of a block, 16 per warp
constexpr int kDeepRows = 32, kDeepKeys = 16;  // of deep heads: two warps share 16 rows, half of the values each

inline uint32_t pair_at(const uint16_t* p) { return *(const uint32_t*)p; }  // two neighbours; p is even

// Queries, keys and transposed values in half precision, padded so that the rows of a fragment fall into different
// banks. `depth` is key_dim in whole steps of 16.
template <int kKeys> struct PrefillMemory {
  uint16_t *queries, *keys, *values;
  int stride;                              // of queries and keys
  static constexpr int kStride = kKeys + 8;  // of values

  PrefillMemory(uint16_t* memory, int depth)
      : queries(memory), keys(memory + kQueryRows * (depth + 8)), values(keys + kKeys * (depth + 8)), stride(depth + 8) {}

  uint32_t value_pair(int column, int key) const { return pair_at(values + column * kStride + key); }
};

// The same for deep heads: fewer queries, and values as rows, which in a latent cache are the keys' own.
struct DeepMemory {
  uint16_t *queries, *keys, *values;
  int stride, value_stride;

  DeepMemory(uint16_t* memory, int depth, int value_dim, bool is_latent)
      : queries(memory), keys(memory + kDeepRows * (depth + 8)), values(is_latent ? keys : keys + kDeepKeys * (depth + 8)),
        stride(depth + 8), value_stride(is_latent ? depth + 8 : value_dim + 8) {}

  uint32_t value_pair(int column, int key) const {
    const uint16_t* const value = values + key * value_stride + column;
    return value[0] | uint32_t(value[value_stride]) << 16;
  }
};

// Keys and values at positions k0 … k0 + kKeys - 1 into shared memory; from `end` on, and past the dimension: zeros.
template <class Type, int kKeys>
inline void fill_keys(const PrefillMemory<kKeys>& memory, const Cache& cache, const uint8_t* keys,
                      const uint8_t* values, int key_dim, int depth, int value_dim, int k0, int end) {
  for (int i = threadIdx.x; i < kKeys * (depth / 8); i += kPrefillThreads) {
    const int key = i / (depth / 8), at = i % (depth / 8) * 8;
    float v[8] = {};
    if (k0 + key < end && at < key_dim) load_8<Type>(keys + cache.row(k0 + key) * cache_row_bytes<Type>(key_dim), at, v);
    uint32_t* const to = (uint32_t*)(memory.keys + key * memory.stride + at);
#pragma unroll
    for (int d = 0; d < 4; ++d) to[d] = pack_halves(v[2 * d], v[2 * d + 1]);
  }
  for (int i = threadIdx.x; i < kKeys * (value_dim / 8); i += kPrefillThreads) {
    const int key = i % kKeys, at = i / kKeys * 8;
    float v[8] = {};
    if (k0 + key < end) load_8<Type>(values + cache.row(k0 + key) * cache_row_bytes<Type>(value_dim), at, v);
#pragma unroll
    for (int d = 0; d < 8; ++d) memory.values[(at + d) * memory.kStride + key] = float_to_half(v[d]);
  }
}

// A warp's 16 query rows; lane = 4 g + t holds columns 2t, 2t + 1 of rows g and g + 8 of every fragment.
template <int kMaxDim, int kKeys> struct QueryRows {
  int first[2], last[2];  // positions that rows g and g + 8 see; none where last < first
  float peak[2], sum[2];
  float out[kMaxDim / 8][4];

  // One more tile of keys: scores of the rows from row0 on, the rising maximum, and the weighted values.
  template <class Memory>
  void attend(const Memory& memory, int row0, int depth, int value_dim, int k0, float scale, float soft_cap) {
    const int g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    const uint16_t* const rows = memory.queries + (row0 + g) * memory.stride + 2 * t;
    float scores[kKeys / 8][4] = {};
#pragma unroll 1
    for (int d = 0; d < depth; d += 16) {
      const uint32_t a[4] = {pair_at(rows + d), pair_at(rows + 8 * memory.stride + d), pair_at(rows + d + 8),
                             pair_at(rows + 8 * memory.stride + d + 8)};
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) {
        const uint16_t* const key = memory.keys + (8 * j + g) * memory.stride + d + 2 * t;
        const uint32_t b[2] = {pair_at(key), pair_at(key + 8)};
        mma_f16(scores[j], a, b);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) weigh(scores, r, k0 + 2 * t, scale, soft_cap, value_dim);
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      const float(&low)[4] = scores[2 * k], (&high)[4] = scores[2 * k + 1];
      const uint32_t a[4] = {pack_halves(low[0], low[1]), pack_halves(low[2], low[3]), pack_halves(high[0], high[1]),
                             pack_halves(high[2], high[3])};
#pragma unroll
      for (int j = 0; j < kMaxDim / 8; ++j) {
        if (8 * j >= value_dim) break;
        const int column = 8 * j + g, key = 16 * k + 2 * t;
        const uint32_t b[2] = {memory.value_pair(column, key), memory.value_pair(column, key + 8)};
        mma_f16(out[j], a, b);
      }
    }
  }

 private:
  // Scores of row g + 8 r to exp(scale * score - peak), and what was summed before to the new peak.
  void weigh(float (&scores)[kKeys / 8][4], int r, int key0, float scale, float soft_cap, int value_dim) {
    float most = peak[r];
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = scores[j][2 * r + i];
        const int key = key0 + 8 * j + i;
        score = key >= first[r] && key <= last[r] ? capped(score * scale, soft_cap) : -infinity();
        most = fmaxf(most, score);
      }
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    const float reference = most == -infinity() ? 0.0f : most;  // a row that has seen no key yet
    const float shrink = expf(peak[r] - reference);
    peak[r] = most;
    sum[r] *= shrink;
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) sum[r] += scores[j][2 * r + i] = expf(scores[j][2 * r + i] - reference);
#pragma unroll
    for (int j = 0; j < kMaxDim / 8; ++j) {
      if (8 * j >= value_dim) break;
      out[j][2 * r] *= shrink, out[j][2 * r + 1] *= shrink;
    }
  }
};

struct __align__(4) PrefillItem { int sequence, first, count; };  // tokens order[first … first + count) of a sequence

struct PrefillCall {
  const float* q;
  const uint8_t *keys, *values;
  const int *positions, *order, *tables;
  float* out;
  int heads, kv_heads, key_dim, value_dim, block_tokens, table_blocks, window;
  float scale, soft_cap;
  const float* sinks;
};

template <class Type, int kMaxDim, int kKeys>
inline void attend_item(const PrefillCall& call, PrefillItem item, uint16_t* shared) {
  const int per_kv = call.heads / call.kv_heads, kv_head = blockIdx.y, rows = item.count * per_kv;
  const int depth = (call.key_dim + 15) / 16 * 16, g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const PrefillMemory<kKeys> memory(shared, depth);
  const Cache cache{call.tables + (long long)item.sequence * call.table_blocks, call.kv_heads, kv_head, call.block_tokens};
  // Row r is head r % per_kv of token r / per_kv.
  const auto token_of = [&](int row) { return call.order[item.first + row / per_kv]; };
  const auto head_row = [&](int row) { return (long long)token_of(row) * call.heads + kv_head * per_kv + row % per_kv; };
  for (int i = threadIdx.x; i < kQueryRows * (depth / 8); i += kPrefillThreads) {
    const int row = i / (depth / 8), at = i % (depth / 8) * 8;
    float v[8] = {};
    if (row < rows && at < call.key_dim) f32::load_8((const uint8_t*)(call.q + head_row(row) * call.key_dim), at, v);
    uint32_t* const to = (uint32_t*)(memory.queries + row * memory.stride + at);
#pragma unroll
    for (int d = 0; d < 4; ++d) to[d] = pack_halves(v[2 * d], v[2 * d + 1]);
  }
  QueryRows<kMaxDim, kKeys> mine = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = threadIdx.x / kWarp * 16 + g + 8 * r;
    mine.last[r] = row < rows ? call.positions[token_of(row)] : -1;
    mine.first[r] = first_seen(mine.last[r], call.window);
    mine.peak[r] = -infinity();
  }
  const int lowest = call.positions[call.order[item.first]];
  const int end = call.positions[call.order[item.first + item.count - 1]] + 1;
  for (int k0 = first_seen(lowest, call.window); k0 < end; k0 += kKeys) {
    __syncthreads();
    fill_keys<Type>(memory, cache, call.keys, call.values, call.key_dim, depth, call.value_dim, k0, end);
    __syncthreads();
    mine.attend(memory, threadIdx.x / kWarp * 16, depth, call.value_dim, k0, call.scale, call.soft_cap);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = threadIdx.x / kWarp * 16 + g + 8 * r;
    mine.sum[r] += __shfl_xor_sync(kAllLanes, mine.sum[r], 1);
    mine.sum[r] += __shfl_xor_sync(kAllLanes, mine.sum[r], 2);
    if (row >= rows) continue;
    mine.sum[r] += sink_share(call.sinks, kv_head * per_kv + row % per_kv, mine.peak[r]);
    float* const to = call.out + head_row(row) * call.value_dim + 2 * t;
#pragma unroll
    for (int j = 0; j < kMaxDim / 8; ++j) {
      if (8 * j >= call.value_dim) break;
      to[8 * j] = mine.out[j][2 * r] / mine.sum[r], to[8 * j + 1] = mine.out[j][2 * r + 1] / mine.sum[r];
    }
  }
}

// Rows of `dim` values at positions k0 … k0 + kDeepKeys - 1 into shared memory, `depth` halves each; from `end` on: zeros.
template <class Type>
inline void fill_rows(uint16_t* to, int stride, const Cache& cache, const uint8_t* rows, int dim, int depth, int k0,
                      int end) {
  for (int i = threadIdx.x; i < kDeepKeys * (depth / 8); i += kPrefillThreads) {
    const int key = i / (depth / 8), at = i % (depth / 8) * 8;
    float v[8] = {};
    if (k0 + key < end && at < dim) load_8<Type>(rows + cache.row(k0 + key) * cache_row_bytes<Type>(dim), at, v);
    uint32_t* const pairs = (uint32_t*)(to + key * stride + at);
#pragma unroll
    for (int d = 0; d < 4; ++d) pairs[d] = pack_halves(v[2 * d], v[2 * d + 1]);
  }
}

template <class Type> inline void attend_deep_item(const PrefillCall& call, PrefillItem item, uint16_t* shared) {
  const int per_kv = call.heads / call.kv_heads, groups = (per_kv + kDeepRows - 1) / kDeepRows;
  const int kv_head = blockIdx.y / groups, skip = blockIdx.y % groups * kDeepRows;
  const int together = min(kDeepRows, per_kv - skip), head0 = kv_head * per_kv + skip, rows = item.count * together;
  const bool is_latent = call.keys == call.values;
  const int depth = (call.key_dim + 15) / 16 * 16, g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const int row0 = threadIdx.x / kWarp % 2 * 16, half = (call.value_dim / 8 + 1) / 2 * 8;
  const int column0 = threadIdx.x / kWarp / 2 * half, columns = min(half, call.value_dim - column0);
  const DeepMemory memory(shared, depth, call.value_dim, is_latent);
  DeepMemory my_values = memory;
  my_values.values += column0;
  const Cache cache{call.tables + (long long)item.sequence * call.table_blocks, call.kv_heads, kv_head, call.block_tokens};
  // Row r is head r % together of token r / together.
  const auto token_of = [&](int row) { return call.order[item.first + row / together]; };
  const auto head_row = [&](int row) { return (long long)token_of(row) * call.heads + head0 + row % together; };
  for (int i = threadIdx.x; i < kDeepRows * (depth / 8); i += kPrefillThreads) {
    const int row = i / (depth / 8), at = i % (depth / 8) * 8;
    float v[8] = {};
    if (row < rows && at < call.key_dim) f32::load_8((const uint8_t*)(call.q + head_row(row) * call.key_dim), at, v);
    uint32_t* const to = (uint32_t*)(memory.queries + row * memory.stride + at);
#pragma unroll
    for (int d = 0; d < 4; ++d) to[d] = pack_halves(v[2 * d], v[2 * d + 1]);
  }
  QueryRows<256, kDeepKeys> mine = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = row0 + g + 8 * r;
    mine.last[r] = row < rows ? call.positions[token_of(row)] : -1;
    mine.first[r] = first_seen(mine.last[r], call.window);
    mine.peak[r] = -infinity();
  }
  const int lowest = call.positions[call.order[item.first]];
  const int end = call.positions[call.order[item.first + item.count - 1]] + 1;
  for (int k0 = first_seen(lowest, call.window); k0 < end; k0 += kDeepKeys) {
    __syncthreads();
    fill_rows<Type>(memory.keys, memory.stride, cache, call.keys, call.key_dim, depth, k0, end);
    if (!is_latent)
      fill_rows<Type>(memory.values, memory.value_stride, cache, call.values, call.value_dim, call.value_dim, k0, end);
    __syncthreads();
    mine.attend(my_values, row0, depth, columns, k0, call.scale, call.soft_cap);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = row0 + g + 8 * r;
    mine.sum[r] += __shfl_xor_sync(kAllLanes, mine.sum[r], 1);
    mine.sum[r] += __shfl_xor_sync(kAllLanes, mine.sum[r], 2);
    if (row >= rows) continue;
    mine.sum[r] += sink_share(call.sinks, head0 + row % together, mine.peak[r]);
    float* const to = call.out + head_row(row) * call.value_dim + column0 + 2 * t;
#pragma unroll
    for (int j = 0; j < 256 / 8; ++j) {
      if (8 * j >= columns) break;
      to[8 * j] = mine.out[j][2 * r] / mine.sum[r], to[8 * j + 1] = mine.out[j][2 * r + 1] / mine.sum[r];
    }
  }
}

}  // namespace

// Attention for many queries, on tensor cores: queries, weights and (unless the cache is f16) keys and values are
// rounded to half precision, sums are floats. grid (items, kv_heads). An item is up to 64 rows (tokens x heads of a KV
// head) of one sequence; `order` lists the batch's tokens by sequence and position. Dynamic shared memory: halves,
// (64 + keys) * (key_dim in 16s + 8) + value_dim * (keys + 8), where `keys` is 32, in the wide form 16.
// Dimensions up to 128.
TYPED_KERNEL(attention_prefill, 128, (const float* q, const uint8_t* keys, const uint8_t* values, const int* positions,
                                      const int* order, const PrefillItem* items, const int* tables, float* out,
                                      int heads, int kv_heads, int key_dim, int value_dim, int block_tokens,
                                      int table_blocks, float scale, int window, float soft_cap,
                                      const float* sinks)) {
  DYNAMIC_SHARED(uint16_t, memory);
  attend_item<TYPE, 128, 32>(PrefillCall{q, keys, values, positions, order, tables, out, heads, kv_heads, key_dim,
                                         value_dim, block_tokens, table_blocks, window, scale, soft_cap,
                                         sinks},
                             items[blockIdx.x], memory);
}

// Dimensions up to 256.
TYPED_KERNEL(attention_prefill_wide, 128, (const float* q, const uint8_t* keys, const uint8_t* values,
                                           const int* positions, const int* order, const PrefillItem* items,
                                           const int* tables, float* out, int heads, int kv_heads, int key_dim,
                                           int value_dim, int block_tokens, int table_blocks, float scale, int window,
                                           float soft_cap, const float* sinks)) {
  DYNAMIC_SHARED(uint16_t, memory);
  attend_item<TYPE, 256, 16>(PrefillCall{q, keys, values, positions, order, tables, out, heads, kv_heads, key_dim,
                                         value_dim, block_tokens, table_blocks, window, scale, soft_cap,
                                         sinks},
                             items[blockIdx.x], memory);
}

// Deep heads: values up to 512, and latent caches. grid (items, kv_heads * groups of 32 heads); an item is up to 32 rows.
// Dynamic shared memory: halves, 48 * (key_dim in 16s + 8), and 16 * (value_dim + 8) unless the cache is latent.
TYPED_KERNEL(attention_prefill_deep, 128, (const float* q, const uint8_t* keys, const uint8_t* values,
                                           const int* positions, const int* order, const PrefillItem* items,
                                           const int* tables, float* out, int heads, int kv_heads, int key_dim,
                                           int value_dim, int block_tokens, int table_blocks, float scale, int window,
                                           float soft_cap, const float* sinks)) {
  DYNAMIC_SHARED(uint16_t, memory);
  attend_deep_item<TYPE>(PrefillCall{q, keys, values, positions, order, tables, out, heads, kv_heads, key_dim,
                                     value_dim, block_tokens, table_blocks, window, scale, soft_cap, sinks},
                         items[blockIdx.x], memory);
}
