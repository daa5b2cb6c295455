// The paged KV cache, as attention.cu and prefill.cu read it; TYPE is f32, f16 or q8_0.
//
// K [blocks, kv_heads, block_tokens, key_dim], V likewise with value_dim; in a latent cache V is K, and a row's first
// value_dim values are the value. Position p of a sequence lies in row
// p % block_tokens of the block that its table names at p / block_tokens. Queries and outputs are [n][heads][dim]
// floats; heads / kv_heads query heads share a KV head. Dimensions are multiples of 8 (q8_0: 32). A query at position p
// sees positions first_seen(p, window) … p.
#pragma once
#include "float_types.cuh"
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

template <class Type>
inline int value_row_bytes(const uint8_t* keys, const uint8_t* values, int key_dim, int value_dim) {
  return cache_row_bytes<Type>(values == keys ? key_dim : value_dim);
}

// window 0: all positions; w > 0: the last w; -c: those of the query's own chunk of c positions.
inline int first_seen(int position, int window) {
  if (window < 0) return position / -window * -window;
  return window > 0 ? max(0, position - window + 1) : 0;
}

struct Cache {
  const int* table;  // of the sequence
  int kv_heads, kv_head, block_tokens;

  long long row(int position) const {
    return ((long long)table[position / block_tokens] * kv_heads + kv_head) * block_tokens + position % block_tokens;
  }
};

// What a head's sink adds to a sum of exp(score - peak); without sinks, nothing.
inline float sink_share(const float* sinks, int head, float peak) { return sinks ? expf(sinks[head] - peak) : 0.0f; }

}  // namespace
