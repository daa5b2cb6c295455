// The paged KV cache and attention over it; compiled once per cache type (TYPE: f32, f16 or q8_0).
//
// Cache: K [blocks, kv_heads, block_tokens, key_dim], V likewise with value_dim; position p of a sequence lies in row
// p % block_tokens of the block that its table names at p / block_tokens. Queries and outputs are [n][heads][dim]
// floats; heads / kv_heads query heads share a KV head. Dimensions are multiples of 8 (q8_0: 32). A query at position p
// sees positions max(0, p - window + 1) … p; window 0: all up to p.
#include "float_types.cuh"
#include "mma.cuh"
#include "quant_types.cuh"

namespace {

template <class Type> inline int cache_row_bytes(int dim) {
  if constexpr (kIsFloat<Type>) return dim * Type::kBytes;
  else return dim / 32 * q8_0::kBytes;
}

// Values i … i + 7 of a cache row; i is a multiple of 8.
template <class Type> inline void load_8(const uint8_t* row, int i, float (&out)[8]) {
  if constexpr (kIsFloat<Type>) {
    Type::load_8(row, i, out);
  } else {
    const uint8_t* const block = row + i / 32 * q8_0::kBytes;
    const float scale = load_half(block);
    uint32_t words[2];
    load_words<2>(block + 2 + i % 32, words);
#pragma unroll
    for (int k = 0; k < 8; ++k) out[k] = scale * float(int8_t(words[k / 4] >> k % 4 * 8));
  }
}

// One row into the cache, by one warp.
template <class Type> inline void store_row(const float* x, uint8_t* row, int dim) {
  const int lane = threadIdx.x % kWarp;
  if constexpr (kIsFloat<Type>) {
    for (int i = lane; i < dim; i += kWarp)
      if constexpr (Type::kBytes == 4) ((float*)row)[i] = x[i];
      else ((uint16_t*)row)[i] = float_to_half(x[i]);
  } else {
    for (int b = 0; b < dim / 32; ++b, row += q8_0::kBytes) {
      const float v = x[32 * b + lane], step = warp_max(fabsf(v)) / 127.0f, scaled = v * (step > 0.0f ? 1.0f / step : 0.0f);
      row[2 + lane] = uint8_t(scaled >= -127.0f ? __float2int_rn(fminf(scaled, 127.0f)) : -127);  // NaN has a value too
      if (lane == 0) *(uint16_t*)row = float_to_half(step);
    }
  }
}

struct Cache {
  const int* table;  // of the sequence
  int kv_heads, kv_head, block_tokens;

  long long row(int position) const {
    return ((long long)table[position / block_tokens] * kv_heads + kv_head) * block_tokens + position % block_tokens;
  }
};

constexpr int kHeads = 8;         // query heads of one KV head that a block computes together
constexpr int kPartition = 256;   // keys per block
constexpr int kDecodeThreads = 128;

// Largest |head| score and the sum of exp(score - largest), for every partition of keys.
struct __align__(8) Extent { float peak, sum; };

// out[p] = scale * q . k for the keys begin … end, eight lanes per key.
template <class Type>
inline void score_keys(const uint8_t* keys, const Cache& cache, const float* q, int heads, int dim, int begin, int end,
                       float scale, float* scores) {
  const int lane = threadIdx.x % 8, row_bytes = cache_row_bytes<Type>(dim);
  for (int first = begin; first < end; first += kDecodeThreads / 8) {
    const int position = first + threadIdx.x / 8;
    float sums[kHeads] = {};
    if (position < end) {
      const uint8_t* const row = keys + cache.row(position) * row_bytes;
#pragma unroll 1
      for (int i = 8 * lane; i < dim; i += 64) {
        float k[8];
        load_8<Type>(row, i, k);
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          if (h >= heads) break;
          float v[8];
          f32::load_8((const uint8_t*)(q + h * dim), i, v);
#pragma unroll
          for (int d = 0; d < 8; ++d) sums[h] += k[d] * v[d];
        }
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (h >= heads) break;
#pragma unroll
      for (int bits = 4; bits; bits >>= 1) sums[h] += __shfl_xor_sync(kAllLanes, sums[h], bits);
      if (lane == 0 && position < end) scores[h * kPartition + position - begin] = scale * sums[h];
    }
  }
}

// Scores to exp(score - peak), a warp per head.
inline void exponentiate(float* scores, int heads, int count, Extent* extents) {
  const int lane = threadIdx.x % kWarp;
  for (int h = threadIdx.x / kWarp; h < heads; h += kDecodeThreads / kWarp) {
    float* const row = scores + h * kPartition;
    float peak = -infinity(), sum = 0.0f;
    for (int i = lane; i < count; i += kWarp) peak = fmaxf(peak, row[i]);
    peak = warp_max(peak);
    for (int i = lane; i < count; i += kWarp) sum += row[i] = expf(row[i] - peak);
    sum = warp_sum(sum);
    if (lane == 0) extents[h] = Extent{peak, sum};
  }
}

// ---- many queries ------------------------------------------------------------------------------------------------

constexpr int kQueryRows = 64, kPrefillThreads = 128;  // query rows (tokens x heads) of a block, 16 per warp

// Queries, keys and transposed values in half precision, padded so that the rows of a fragment fall into different
// banks. `depth` is key_dim in whole steps of 16.
template <int kKeys> struct PrefillMemory {
  uint16_t *queries, *keys, *values;
  int stride;                              // of queries and keys
  static constexpr int kStride = kKeys + 8;  // of values

  PrefillMemory(uint16_t* memory, int depth)
      : queries(memory), keys(memory + kQueryRows * (depth + 8)), values(keys + kKeys * (depth + 8)), stride(depth + 8) {}
};

inline uint32_t pair_at(const uint16_t* p) { return *(const uint32_t*)p; }  // two neighbours; p is even

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

  // One more tile of keys: scores, the rising maximum, and the weighted values.
  void attend(const PrefillMemory<kKeys>& memory, int depth, int value_dim, int k0, float scale) {
    const int g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    const uint16_t* const rows = memory.queries + (threadIdx.x / kWarp * 16 + g) * memory.stride + 2 * t;
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
    for (int r = 0; r < 2; ++r) weigh(scores, r, k0 + 2 * t, scale, value_dim);
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      const float(&low)[4] = scores[2 * k], (&high)[4] = scores[2 * k + 1];
      const uint32_t a[4] = {pack_halves(low[0], low[1]), pack_halves(low[2], low[3]), pack_halves(high[0], high[1]),
                             pack_halves(high[2], high[3])};
#pragma unroll
      for (int j = 0; j < kMaxDim / 8; ++j) {
        if (8 * j >= value_dim) break;
        const uint16_t* const value = memory.values + (8 * j + g) * memory.kStride + 16 * k + 2 * t;
        const uint32_t b[2] = {pair_at(value), pair_at(value + 8)};
        mma_f16(out[j], a, b);
      }
    }
  }

 private:
  // Scores of row g + 8 r to exp(scale * score - peak), and what was summed before to the new peak.
  void weigh(float (&scores)[kKeys / 8][4], int r, int key0, float scale, int value_dim) {
    float most = peak[r];
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = scores[j][2 * r + i];
        const int key = key0 + 8 * j + i;
        score = key >= first[r] && key <= last[r] ? score * scale : -infinity();
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
  float scale;
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
    mine.first[r] = call.window > 0 ? max(0, mine.last[r] - call.window + 1) : 0;
    mine.peak[r] = -infinity();
  }
  const int lowest = call.positions[call.order[item.first]];
  const int end = call.positions[call.order[item.first + item.count - 1]] + 1;
  for (int k0 = call.window > 0 ? max(0, lowest - call.window + 1) : 0; k0 < end; k0 += kKeys) {
    __syncthreads();
    fill_keys<Type>(memory, cache, call.keys, call.values, call.key_dim, depth, call.value_dim, k0, end);
    __syncthreads();
    mine.attend(memory, depth, call.value_dim, k0, call.scale);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = threadIdx.x / kWarp * 16 + g + 8 * r;
    mine.sum[r] += __shfl_xor_sync(kAllLanes, mine.sum[r], 1);
    mine.sum[r] += __shfl_xor_sync(kAllLanes, mine.sum[r], 2);
    if (row >= rows) continue;
    float* const to = call.out + head_row(row) * call.value_dim + 2 * t;
#pragma unroll
    for (int j = 0; j < kMaxDim / 8; ++j) {
      if (8 * j >= call.value_dim) break;
      to[8 * j] = mine.out[j][2 * r] / mine.sum[r], to[8 * j + 1] = mine.out[j][2 * r + 1] / mine.sum[r];
    }
  }
}

}  // namespace

// Keys and values of n tokens, [n][kv_heads][dim] floats, into the cache. grid (n, kv_heads), one warp.
TYPED_KERNEL(kv_store, 32, (const float* k, const float* v, uint8_t* keys, uint8_t* values, const int* positions,
                            const int* sequences, const int* tables, int kv_heads, int key_dim, int value_dim,
                            int block_tokens, int table_blocks)) {
  const int token = blockIdx.x, head = blockIdx.y;
  const Cache cache{tables + (long long)sequences[token] * table_blocks, kv_heads, head, block_tokens};
  const long long row = cache.row(positions[token]), from = (long long)token * kv_heads + head;
  store_row<TYPE>(k + from * key_dim, keys + row * cache_row_bytes<TYPE>(key_dim), key_dim);
  store_row<TYPE>(v + from * value_dim, values + row * cache_row_bytes<TYPE>(value_dim), value_dim);
}

// Attention for few queries. A block takes one token, up to 8 heads of a KV head and 256 keys:
// grid (n, kv_heads * groups of heads, partitions). With one partition `out` is final. With several, partition z of
// (token, head) leaves its weighted values, not yet divided by the sum, in partials [n][heads][partitions][value_dim] and
// its extent beside them, for attention_combine. Partitions that a token does not need return at once, so that one launch
// fits every length. Dynamic shared memory: 8 * key_dim + 8 * 256 + 1024 floats.
TYPED_KERNEL(attention_decode, 128, (const float* q, const uint8_t* keys, const uint8_t* values, const int* positions,
                                     const int* sequences, const int* tables, float* out, float* partials,
                                     Extent* extents, int heads, int kv_heads, int key_dim, int value_dim,
                                     int block_tokens, int table_blocks, float scale, int window)) {
  DYNAMIC_SHARED(float, memory);
  __shared__ Extent extent[kHeads];
  const int token = blockIdx.x, per_kv = heads / kv_heads, groups = (per_kv + kHeads - 1) / kHeads;
  const int kv_head = blockIdx.y / groups, skip = blockIdx.y % groups * kHeads, count = min(kHeads, per_kv - skip);
  const int head0 = kv_head * per_kv + skip, position = positions[token];
  const int first = window > 0 ? max(0, position - window + 1) : 0;
  const int begin = first / kPartition * kPartition + int(blockIdx.z) * kPartition;
  const int from = max(begin, first), end = min(begin + kPartition, position + 1);
  if (from >= end) return;
  float* const queries = memory;
  float* const scores = queries + kHeads * key_dim;
  float* const sums = scores + kHeads * kPartition;
  const float* const token_q = q + ((long long)token * heads + head0) * key_dim;
  for (int i = threadIdx.x; i < count * key_dim; i += kDecodeThreads) queries[i] = token_q[i];
  __syncthreads();
  const Cache cache{tables + (long long)sequences[token] * table_blocks, kv_heads, kv_head, block_tokens};
  score_keys<TYPE>(keys, cache, queries, count, key_dim, from, end, scale, scores);
  __syncthreads();
  exponentiate(scores, count, end - from, extent);
  __syncthreads();

  // Eight neighbouring values per thread, several positions side by side; their sums meet in shared memory.
  const int chunks = value_dim / 8, sides = kDecodeThreads / chunks, side = threadIdx.x / chunks;
  const int at = threadIdx.x % chunks * 8, row_bytes = cache_row_bytes<TYPE>(value_dim);
  float weighted[kHeads][8] = {};
#pragma unroll 1  // 64 sums leave no registers for several positions at once
  for (int p = from + side; p < end && side < sides; p += sides) {
    float v[8];
    load_8<TYPE>(values + cache.row(p) * row_bytes, at, v);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (h >= count) break;
      const float weight = scores[h * kPartition + p - from];
#pragma unroll
      for (int d = 0; d < 8; ++d) weighted[h][d] += weight * v[d];
    }
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h >= count) break;
    if (side < sides)
#pragma unroll
      for (int d = 0; d < 8; ++d) sums[side * value_dim + at + d] = weighted[h][d];
    __syncthreads();
    const long long row = (long long)token * heads + head0 + h, part = row * gridDim.z + blockIdx.z;
    for (int i = threadIdx.x; i < value_dim; i += kDecodeThreads) {
      float sum = 0.0f;
      for (int s = 0; s < sides; ++s) sum += sums[s * value_dim + i];
      if (gridDim.z == 1) out[row * value_dim + i] = sum / extent[h].sum;
      else partials[part * value_dim + i] = sum;
    }
    if (gridDim.z > 1 && threadIdx.x == 0) extents[part] = extent[h];
    __syncthreads();
  }
}

// Puts the partitions of attention_decode together. grid (n, heads).
TYPED_KERNEL(attention_combine, 128, (const float* partials, const Extent* extents, const int* positions, float* out,
                                      int partitions, int value_dim, int window)) {
  const int position = positions[blockIdx.x], first = window > 0 ? max(0, position - window + 1) : 0;
  const int used = min(partitions, position / kPartition - first / kPartition + 1);
  const long long row = (long long)blockIdx.x * gridDim.y + blockIdx.y;
  const Extent* const extent = extents + row * partitions;
  float peak = -infinity(), total = 0.0f;
  for (int p = 0; p < used; ++p) peak = fmaxf(peak, extent[p].peak);
  for (int p = 0; p < used; ++p) total += expf(extent[p].peak - peak) * extent[p].sum;
  for (int i = threadIdx.x; i < value_dim; i += blockDim.x) {
    float sum = 0.0f;
    for (int p = 0; p < used; ++p) sum += expf(extent[p].peak - peak) * partials[(row * partitions + p) * value_dim + i];
    out[row * value_dim + i] = sum / total;
  }
}

// Attention for many queries, on tensor cores: queries, weights and (unless the cache is f16) keys and values are
// rounded to half precision, sums are floats. grid (items, kv_heads). An item is up to 64 rows (tokens x heads of a KV
// head) of one sequence; `order` lists the batch's tokens by sequence and position. Dynamic shared memory: halves,
// (64 + keys) * (key_dim in 16s + 8) + value_dim * (keys + 8), where `keys` is 32, in the wide form 16.
// Dimensions up to 128.
TYPED_KERNEL(attention_prefill, 128, (const float* q, const uint8_t* keys, const uint8_t* values, const int* positions,
                                      const int* order, const PrefillItem* items, const int* tables, float* out,
                                      int heads, int kv_heads, int key_dim, int value_dim, int block_tokens,
                                      int table_blocks, float scale, int window)) {
  DYNAMIC_SHARED(uint16_t, memory);
  attend_item<TYPE, 128, 32>(PrefillCall{q, keys, values, positions, order, tables, out, heads, kv_heads, key_dim,
                                         value_dim, block_tokens, table_blocks, window, scale},
                             items[blockIdx.x], memory);
}

// Dimensions up to 256.
TYPED_KERNEL(attention_prefill_wide, 128, (const float* q, const uint8_t* keys, const uint8_t* values,
                                           const int* positions, const int* order, const PrefillItem* items,
                                           const int* tables, float* out, int heads, int kv_heads, int key_dim,
                                           int value_dim, int block_tokens, int table_blocks, float scale, int window)) {
  DYNAMIC_SHARED(uint16_t, memory);
  attend_item<TYPE, 256, 16>(PrefillCall{q, keys, values, positions, order, tables, out, heads, kv_heads, key_dim,
                                         value_dim, block_tokens, table_blocks, window, scale},
                             items[blockIdx.x], memory);
}
