// The operations of a program as recorded: plain data over handles.
#pragma once
#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#include "vector.h"

namespace tessera {

using Handle = int32_t;
inline constexpr Handle kNone = -1;

// Which rows a value has: one per token of the batch, or one per output.
enum class Domain : uint8_t { tokens, outputs };

struct Embed {
  Handle table, out;
};
struct RmsNorm {
  Handle x, weight, out;  // weight: kNone for ones
  float epsilon;
  int group, groups;  // the first `groups` groups of `group` values are normalised, each apart; the rest is copied
};
struct Linear {
  Handle x;
  std::vector<Handle> weights, biases, outs;
};  // biases: kNone where there is none
struct HeadLinear {
  Handle x, weight, out;
  int heads, first, rows;  // of every head's rows of the weight, those used
  bool transposed;
};
struct Rope {
  Handle x;
  int heads, head_dim, offset, pairs;  // the pairs of a head begin at `offset`
  bool halves;
  int table;
};
struct Attention {
  Handle q, k, v, kv, out;
  int heads;
  float scale;
  int window, schedule;  // window: see first_seen
  float soft_cap;        // 0: none
  Handle sinks;
};
struct Glu {  // gate may be narrower: each of its values then stands for as many neighbours of up
  Handle gate, up, out;
  Activation activation;
};
inline constexpr int kMostGroups = 32;
enum class Gating : uint8_t { softmax, sigmoid };
struct Router {
  Handle logits, out_ids, out_weights, bias;  // bias: added where experts are chosen, not to their weights; or kNone
  int top_k, groups, groups_used;             // only experts of the best groups are chosen
  Gating gating;
  bool normalise;
  float scale;
};
struct Experts {
  Handle x, ids, weights, gate, up, down, out;
  Activation activation;
  Handle mask;
  Handle gate_bias, up_bias, down_bias;  // kNone where there is none
};
struct Add {
  Handle a, b, out;
};
// Consecutive parts of every head of x, of `sizes` values, go to `outs`; parts with the same out follow each other
// there, each with all its heads.
struct SplitHeads {
  Handle x;
  std::vector<Handle> outs;
  std::vector<int> sizes;
  int heads;
};
struct ShortConv {
  Handle x, weight, out, state;
};
struct DeltaRule {
  Handle x, alpha, beta, a, dt, out, state;  // x: all heads' queries, all keys, all values
  int key_heads, value_heads, key_dim, value_dim;
  bool tiled;  // value head h belongs to key head h % key_heads, not to h / (value_heads / key_heads)
  float epsilon;
};
struct Scale {
  Handle x;
  float factor;
};
struct SoftCap {
  Handle x;
  float cap;
};
struct SelectRows {
  Handle x, out;
};

using OperationBody = std::variant<Embed, RmsNorm, Linear, HeadLinear, Rope, Attention, Glu, Router, Experts, Add,
                                   Scale, SoftCap, SelectRows, SplitHeads, ShortConv, DeltaRule>;

struct Operation {
  OperationBody body;
  Domain domain = Domain::tokens;  // of what it writes; set by finish
};

const char* operation_name(const Operation& operation);

using Handles = std::vector<Handle>;
Handles values_read(const Operation& operation);
Handles values_written(const Operation& operation);
Handles weights_used(const Operation& operation);

}  // namespace tessera
