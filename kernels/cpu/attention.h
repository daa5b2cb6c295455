// Attention over a paged KV cache, the interface between the tiers (attention_<tier>.cpp) and the program interpreter.
// Plain data and function pointers only: files compiled for different ISA tiers include this header.
//
// Cache layout, the same on every device: K [blocks, kv_heads, block_tokens, key_dim], V likewise with value_dim; one
// row is one token's values of one head in the layer's type. Position p of a sequence lies in row p % block_tokens of
// the block that its table names at p / block_tokens.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tessera {

enum class KvType : int32_t { F32 = 0, F16 = 1, Q8_0 = 8 };  // the ids of GGUF tensor types
inline constexpr int kKvTypeCount = 9;                       // size of tables indexed by the id; gaps are null

// Some query rows (tokens × heads that share a KV head) against a range of key positions. With scores
// s = scale * q·k, or with a soft cap c tanh(scale * q·k / c), over the visible keys, row r yields peak = max s, sum =
// Σ exp(s - peak) and out = Σ exp(s - peak) v, so that ranges can be combined. A row that sees no key yields peak
// -infinity, sum 0 and out 0.
struct AttentionTask {
  KvType type;
  const uint8_t* keys;    // row 0 of this KV head in block 0
  const uint8_t* values;  // may be the keys: of a latent cache, whose values are the leading part of its keys
  size_t key_block_bytes, value_block_bytes;  // distance between blocks
  size_t key_row_bytes, value_row_bytes;      // distance between tokens
  const int32_t* blocks;                      // the sequence's block table
  int block_tokens;
  int key_dim, value_dim;
  int begin, end;  // key positions
  int rows;
  const float* const* queries;  // [rows] of key_dim values
  const int32_t* first;         // row r sees positions first[r] … last[r]
  const int32_t* last;
  float scale;
  float soft_cap;    // 0: none
  float* out;        // [rows, value_dim]
  float* peaks;      // [rows]
  float* sums;       // [rows]
  uint8_t* scratch;  // scratch_bytes(rows, key_dim, value_dim), 64-byte aligned
};

struct AttentionKernels {
  const char* tier;
  size_t (*scratch_bytes)(int rows, int key_dim, int value_dim);
  void (*attend)(const AttentionTask& task);
  void (*store[kKvTypeCount])(const float* x, uint8_t* row, int n);  // one row into the cache's type
};

// Each tier overwrites what it does better; scalar fills all. Called in rising order of tiers.
void fill_attention_scalar(AttentionKernels& kernels);
void fill_attention_avx2(AttentionKernels& kernels);
void fill_attention_avx512(AttentionKernels& kernels);

}  // namespace tessera
