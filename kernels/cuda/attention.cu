// Filling the paged KV cache (cache.cuh), and attention for few queries; compiled once per cache type.
#include "cache.cuh"

namespace {

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

constexpr int kHeads = 8;         // query heads of one KV head that a block computes together
constexpr int kPartition = 256;   // keys per block
constexpr int kDecodeThreads = 128;

// Largest |head| score and the sum of exp(score - largest), for every partition of keys.
struct __align__(8) Extent { float peak, sum; };

// out[p] = scale * q . k, soft-capped, for the keys begin … end, eight lanes per key.
template <class Type>
inline void score_keys(const uint8_t* keys, const Cache& cache, const float* q, int heads, int dim, int begin, int end,
                       float scale, float soft_cap, float* scores) {
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
      if (lane == 0 && position < end) scores[h * kPartition + position - begin] =
          capped(scale * sums[h], soft_cap);
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

}  // namespace

// Keys and values of n tokens, [n][kv_heads][dim] floats, into the cache. grid (n, kv_heads), one warp.
TYPED_KERNEL(kv_store, 32, (const float* k, const float* v, uint8_t* keys, uint8_t* values, const int* positions,
                            const int* sequences, const int* tables, int kv_heads, int key_dim, int value_dim,
                            int block_tokens, int table_blocks)) {
  const int token = blockIdx.x, head = blockIdx.y;
  const Cache cache{tables + (long long)sequences[token] * table_blocks, kv_heads, head, block_tokens};
  const long long row = cache.row(positions[token]), from = (long long)token * kv_heads + head;
  store_row<TYPE>(k + from * key_dim, keys + row * cache_row_bytes<TYPE>(key_dim), key_dim);
  if (values == keys) return;
  store_row<TYPE>(v + from * value_dim, values + row * cache_row_bytes<TYPE>(value_dim), value_dim);
}

// Attention for few queries. A block takes one token, up to 8 heads of a KV head and 256 keys:
// grid (n, kv_heads * groups of heads, partitions). With one partition `out` is final. With several, partition z of
// (token, head) leaves its weighted values, not yet divided by the sum, in partials [n][heads][partitions][value_dim] and
// its extent beside them, for attention_combine. Partitions that a token does not need return at once, so that one launch
// fits every length. `sinks` [heads], where given, take part in each sum as keys without a value would. Dynamic shared memory: 8 * key_dim + 8 * 256 + 1024 floats.
TYPED_KERNEL(attention_decode, 128, (const float* q, const uint8_t* keys, const uint8_t* values, const int* positions,
                                     const int* sequences, const int* tables, float* out, float* partials,
                                     Extent* extents, int heads, int kv_heads, int key_dim, int value_dim,
                                     int block_tokens, int table_blocks, float scale, int window, float soft_cap,
                                     const float* sinks)) {
  DYNAMIC_SHARED(float, memory);
  __shared__ Extent extent[kHeads];
  const int token = blockIdx.x, per_kv = heads / kv_heads, groups = (per_kv + kHeads - 1) / kHeads;
  const int kv_head = blockIdx.y / groups, skip = blockIdx.y % groups * kHeads, count = min(kHeads, per_kv - skip);
  const int head0 = kv_head * per_kv + skip, position = positions[token];
  const int first = first_seen(position, window);
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
  score_keys<TYPE>(keys, cache, queries, count, key_dim, from, end, scale, soft_cap, scores);
  __syncthreads();
  exponentiate(scores, count, end - from, extent);
  __syncthreads();

  // Eight neighbouring values per thread, several positions side by side; their sums meet in shared memory.
  const int chunks = value_dim / 8, sides = kDecodeThreads / chunks, side = threadIdx.x / chunks;
  const int at = threadIdx.x % chunks * 8, row_bytes = value_row_bytes<TYPE>(keys, values, key_dim, value_dim);
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
      if (gridDim.z == 1) out[row * value_dim + i] = sum / (extent[h].sum + sink_share(sinks, head0 + h, extent[h].peak));
      else partials[part * value_dim + i] = sum;
    }
    if (gridDim.z > 1 && threadIdx.x == 0) extents[part] = extent[h];
    __syncthreads();
  }
}

// Puts the partitions of attention_decode together. grid (n, heads).
TYPED_KERNEL(attention_combine, 128, (const float* partials, const Extent* extents, const int* positions, float* out,
                                      int partitions, int value_dim, int window, const float* sinks)) {
  const int position = positions[blockIdx.x], first = first_seen(position, window);
  const int used = min(partitions, position / kPartition - first / kPartition + 1);
  const long long row = (long long)blockIdx.x * gridDim.y + blockIdx.y;
  const Extent* const extent = extents + row * partitions;
  float peak = -infinity(), total = 0.0f;
  for (int p = 0; p < used; ++p) peak = fmaxf(peak, extent[p].peak);
  for (int p = 0; p < used; ++p) total += expf(extent[p].peak - peak) * extent[p].sum;
  total += sink_share(sinks, blockIdx.y, peak);
  for (int i = threadIdx.x; i < value_dim; i += blockDim.x) {
    float sum = 0.0f;
    for (int p = 0; p < used; ++p) sum += expf(extent[p].peak - peak) * partials[(row * partitions + p) * value_dim + i];
    out[row * value_dim + i] = sum / total;
  }
}
