// One forward pass as data: handles for activations, weights and KV layers, a list of operations over them, and the
// steps that carry them out. Knows nothing of Python, files or models.
//
// Recording (the methods named as operations) checks handles and widths at once and throws std::invalid_argument that
// names the operation. `finish` fuses operations into steps. `run` executes a range of operations for a batch; every
// size that depends on the batch or on bound memory is checked before the first step starts.
#pragma once
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arena.h"
#include "attention.h"
#include "attention_schedule.h"
#include "batch.h"
#include "matmul.h"
#include "operations.h"
#include "thread_pool.h"
#include "vector.h"

namespace tessera {

class Step;
struct RunShape;

inline constexpr int kMostWidth = 1 << 24;  // with the limits of counts: products and sums of sizes fit 64 bits

// Keeps bound memory alive; its deleter releases the buffer.
using Owner = std::shared_ptr<const void>;

struct Kernels {
  std::string tier;
  const MatmulTable& matmul;
  VectorKernels vector;
  AttentionKernels attention;
};
// tier: "auto" (the best) or the name of a tier this machine can run. Throws std::invalid_argument.
Kernels load_kernels(const std::string& tier);

struct Value {
  int width;
  bool is_ids = false;      // int32 expert ids, written by a router
  bool fused_away = false;  // the last operation that writes it keeps it in registers or scratch
  bool kept = true;         // can be read and written between runs; otherwise it shares memory with others
  size_t place = 0;         // of one that is not kept: floats per row before it
};

struct Weight {
  QuantType type;
  int rows, cols, count;  // count: stacked matrices (experts)
  size_t row_bytes;
  const uint8_t* data = nullptr;
  Owner owner;

  size_t matrix_bytes() const { return row_bytes * static_cast<size_t>(rows); }
  size_t bytes() const { return matrix_bytes() * static_cast<size_t>(count); }
};

struct KvLayer {
  int heads, key_dim, value_dim, block_tokens;
  KvType type;
  bool latent;  // a key's leading values are the value too; nothing else is kept
  int table;    // which of a batch's block tables says where its positions are
  size_t key_row_bytes, value_row_bytes;
  uint8_t* keys = nullptr;
  uint8_t* values = nullptr;
  int blocks = 0;
  Owner keys_owner, values_owner;

  size_t block_bytes(size_t row_bytes) const {
    return row_bytes * static_cast<size_t>(block_tokens) * static_cast<size_t>(heads);
  }
};

// What a recurrent layer keeps of a sequence, in slots: the tail of its inputs, and its state.
struct StateLayer {
  int tail_values, state_values;
  float* tails = nullptr;
  float* states = nullptr;
  int slots = 0;
  Owner tails_owner, states_owner;
};

// Which experts a program computes itself; the others contribute nothing.
struct ExpertMask {
  std::vector<uint8_t> present;  // one per expert
};

// Of queries that are scaled by how far they stand: 1 + scale ln(floor((position + offset) / length) + 1).
struct Temperature {
  float length = 1, scale = 0, offset = 0;
  bool operator==(const Temperature&) const = default;
  double at(double position) const { return 1 + scale * std::log(std::floor((position + offset) / length) + 1); }
};

struct RopeTable {
  std::vector<float> frequencies;  // radians per position, one per pair
  float magnitude;
  Temperature temperature;
  bool operator==(const RopeTable&) const = default;
};

struct ScheduleKey {
  int heads_per_unit, window;  // heads of one KV head that attend together
};  // attention cut alike for all layers that agree in these

class Program {
 public:
  explicit Program(const std::string& tier);
  ~Program();

  // --- handles ---
  Handle value(int width, bool ids);
  Handle weight(int type_id, int rows, int cols, int count);
  void bind_weight(Handle handle, const uint8_t* memory, size_t size, int64_t offset, Owner owner);
  Handle kv_layer(int heads, int key_dim, int value_dim, int type_id, int block_tokens, bool latent, int table);
  void bind_kv(Handle handle, uint8_t* keys, size_t keys_size, uint8_t* values, size_t values_size, Owner keys_owner,
               Owner values_owner);
  Handle state_layer(int tail_values, int state_values);
  void bind_state(Handle handle, uint8_t* tails, size_t tails_size, uint8_t* states, size_t states_size,
                  Owner tails_owner, Owner states_owner);
  Handle expert_mask(int experts);
  void set_expert_mask(Handle handle, std::vector<uint8_t> present);

  // --- operations ---
  void embed(Handle table, Handle out);
  void rms_norm(Handle x, Handle weight, Handle out, float epsilon, int group, int groups);
  void linear(Handle x, std::vector<Handle> weights, std::vector<Handle> biases, std::vector<Handle> outs);
  void head_linear(Handle x, Handle weight, Handle out, int heads, int first, int rows, bool transposed);
  void rope(Handle x, int heads, int head_dim, int rope_dim, const std::string& mode, std::vector<float> frequencies,
            float magnitude, int offset, Temperature temperature);
  void attention(Handle q, Handle k, Handle v, Handle kv, Handle out, int heads, float scale, int window,
                 float soft_cap, Handle sinks);
  void glu(Handle gate, Handle up, Handle out, const std::string& activation);
  void router(Handle logits, Handle out_ids, Handle out_weights, int top_k, const std::string& gating, bool normalise,
              float scale, Handle bias, int groups, int groups_used);
  void experts(Handle x, Handle ids, Handle weights, Handle gate, Handle up, Handle down, Handle out,
               const std::string& activation, Handle mask, const std::vector<Handle>& biases);
  void add(Handle a, Handle b, Handle out);
  void scale(Handle x, float factor);
  void soft_cap(Handle x, float cap);
  void select_rows(Handle x, Handle out);
  void split_heads(Handle x, std::vector<Handle> outs, std::vector<int> sizes, int heads);
  void short_conv(Handle x, Handle weight, Handle out, Handle state);
  void delta_rule(const DeltaRule& operation);
  // With `kept`, only these values (and those that no operation writes first) can be read and written between runs.
  void finish(bool fuse, const Handles* kept = nullptr);

  // --- execution ---
  // Marks the program as running until destroyed; everything else then refuses to change it. Throws
  // std::runtime_error when it runs already. Where threads of an interpreter share a program, this is taken under
  // its lock and held around `run`.
  class Claim {
   public:
    explicit Claim(Program& program);
    ~Claim() { program_.running_.store(false, std::memory_order_release); }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

   private:
    Program& program_;
  };
  void run(ThreadPool& pool, const Batch& batch, int begin, int end);
  // Rows of a value after the last run; the arena that holds them stays alive through the returned owner.
  struct Rows {
    float* data;
    int rows, width;
    bool is_ids;
    std::shared_ptr<Arena> owner;
  };
  Rows read(Handle value) const;
  // Gives the memory of values and scratch back; the next run or write makes as much room as it needs. What could be
  // read or was written is lost, but for rows that are still held.
  void trim();
  size_t held_bytes() const;  // of values and scratch
  // Sets the first `rows` rows before a run (a segment's input). Ids outside the experts count as absent experts.
  void write(Handle value, const void* data, int rows, int width, bool is_ids);

  int operation_count() const { return static_cast<int>(operations_.size()); }
  int step_count() const;
  const std::string& tier() const { return kernels_.tier; }

  // --- for the steps ---
  struct Placed {  // where a step's scratch lies in one run
    const Step* step;
    uint8_t* scratch;
  };
  const Kernels& kernels() const { return kernels_; }
  const Value& value_at(Handle h) const { return values_[static_cast<size_t>(h)]; }
  const Weight& weight_at(Handle h) const { return weights_[static_cast<size_t>(h)]; }
  const float* vector_at(Handle h) const {  // null for kNone
    return h != kNone ? reinterpret_cast<const float*>(weight_at(h).data) : nullptr;
  }
  int heads_per_unit(const Attention& o) const {
    return schedule_keys_[static_cast<size_t>(o.schedule)].heads_per_unit;
  }
  const KvLayer& kv_at(Handle h) const { return kv_layers_[static_cast<size_t>(h)]; }
  const StateLayer& state_at(Handle h) const { return state_layers_[static_cast<size_t>(h)]; }
  const ExpertMask& mask_at(Handle h) const { return masks_[static_cast<size_t>(h)]; }
  const std::vector<RopeTable>& rope_tables() const { return rope_tables_; }

 private:
  struct Planned {
    std::unique_ptr<Step> step;
    int end;
    Handles gone = {};  // values that a fused step keeps in registers or scratch
    size_t top = 0;     // floats per row of shared memory below which values lie that are needed meanwhile
  };  // carries out operations [index, end)

  void check_idle(const char* what) const;
  void check_recording(const char* operation) const;
  void check_bound(int begin, int end, const Batch& batch) const;
  void reserve_rows(int tokens, int outputs, const RunShape* shape = nullptr);
  size_t bytes_of_rows(size_t value, int token_rows, int output_rows) const;
  void infer_domains();
  void fuse_linear_at(int index, const std::vector<int>& last_writes);
  void fuse_attention_at(int index);
  bool is_dead_after(Handle value, int index) const;
  void place_values(const Handles& kept);
  void find_result(const Handles& kept);
  const Planned& planned_at(int index, int end) const;  // fused where that ends by `end`
  std::vector<Placed> place_steps(int begin, int end, const RunShape& shape, size_t rope_bytes);
  void execute(ThreadPool& pool, const Batch& batch, int begin, int end);

  Kernels kernels_;
  std::vector<Value> values_;
  std::vector<Weight> weights_;
  std::vector<KvLayer> kv_layers_;
  std::vector<StateLayer> state_layers_;
  std::vector<ExpertMask> masks_;
  std::vector<RopeTable> rope_tables_;
  std::vector<ScheduleKey> schedule_keys_;
  std::vector<Operation> operations_;
  std::vector<Planned> single_, fused_;  // by index of the first operation; fused_ entries may be empty
  std::vector<Domain> last_domains_;     // per value, after the whole program
  std::vector<bool> has_token_rows_;     // per value: somewhere it has one row per token
  std::vector<Handles> used_weights_;    // per operation
  size_t shared_row_ = 0;                // floats per row of the values that share memory
  Handle result_ = kNone;                // a value that is only read between runs, written from operation …
  int result_from_ = 0;                  // … on: may lie where values and scratch of earlier ones were
  bool finished_ = false;
  std::atomic<bool> running_{false};

  std::shared_ptr<Arena> arena_;
  std::vector<float*> value_rows_;   // where each value's rows lie in the arena
  uint8_t* shared_begin_ = nullptr;  // of what values and scratch share there
  size_t shared_end_ = 0, result_begin_ = 0, shared_rows_ = 0;
  int token_capacity_ = 0, output_capacity_ = 0;
  int last_tokens_ = 0, last_outputs_ = 0;
  Arena shared_scratch_;
  std::vector<Arena> thread_scratch_;
  std::vector<AttentionSchedule> schedules_;
  std::unique_ptr<std::atomic<int>[]> part_counts_;
  size_t part_count_capacity_ = 0;
};

}  // namespace tessera
