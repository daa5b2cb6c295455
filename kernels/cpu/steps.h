// Steps: what a program executes. A step carries out one operation, or several fused ones, on all threads of the pool;
// its result depends on neither their number nor their timing.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "attention_schedule.h"
#include "program.h"

namespace tessera {

// Scratch a step needs for a run of that many rows.
struct Needs {
  size_t shared = 0, thread = 0;  // bytes
};

struct RunShape {
  int tokens, outputs, threads;
  const AttentionSchedule* schedules;  // per (query heads per KV head, window) of the program
  int rows(Domain domain) const { return domain == Domain::tokens ? tokens : outputs; }
};

// What every step of one run shares.
struct Run {
  const Program& program;
  const Batch& batch;
  RunShape shape;
  float* const* values;           // rows of every value
  uint8_t* shared;                // scratch of one step
  const float* const* rope_rows;  // per table: [tokens, 2, pairs] cosines and sines
  std::atomic<int>* part_counts;  // zero between steps; for parts of attention groups

  float* value(Handle h) const { return values[static_cast<size_t>(h)]; }
  float* row(Handle h, int r) const { return value(h) + static_cast<ptrdiff_t>(r) * program.value_at(h).width; }
};

// One thread's view of a run.
class Worker {
 public:
  Worker(ThreadPool& pool, int index, uint8_t* scratch) : pool_(pool), index_(index), scratch_(scratch) {}
  int index() const { return index_; }
  uint8_t* scratch() const { return scratch_; }
  void barrier() { pool_.barrier(index_); }
  // Calls body(i) for this thread's share of 0 … count - 1. Ends without a barrier; one share per phase.
  template <class Body>
  void share(int count, Body&& body) {
    for (int64_t i = pool_.next(); i < count; i = pool_.next()) body(static_cast<int>(i));
  }
  // The same, but each thread takes a part that lies together, in order: memory is read ahead of it.
  template <class Body>
  void share_parts(int count, Body&& body) {
    const int threads = pool_.threads();
    for (int helped = 0; helped < threads; ++helped) {
      const int part = (index_ + helped) % threads, end = part_begin(count, part + 1, threads);
      const int begin = part_begin(count, part, threads);
      for (int64_t i = begin + pool_.next(part); i < end; i = begin + pool_.next(part)) body(static_cast<int>(i));
    }
  }
  static int part_begin(int count, int part, int threads) {
    return static_cast<int>(static_cast<int64_t>(count) * part / threads);
  }

 private:
  ThreadPool& pool_;
  int index_;
  uint8_t* scratch_;
};

class Step {
 public:
  virtual ~Step() = default;
  virtual Needs needs(const Program&, const RunShape&) const { return {}; }
  // The executor puts a barrier behind every step.
  virtual void run(const Run& run, Worker& worker) const noexcept = 0;
};

// Rows [first, first + count) of one matrix of a weight against packed activations.
struct RowRange {
  int first, count;
};
// Where rows from `row` on lie.
const uint8_t* rows_at(const Weight& weight, int matrix, int row);
// `next`: where this thread is likely to read next, or null.
void multiply_rows(const Kernels& kernels, const Weight& weight, int matrix, RowRange range, const uint8_t* packed,
                   int tokens, float* out, ptrdiff_t out_stride, uint8_t* scratch, const uint8_t* next);

using StepPointer = std::unique_ptr<Step>;
StepPointer make_step(const Program& program, const Operation& operation);

// --- by family; each in its own file ---
// What happens to every head of q or k before attention: normalised (from another value, perhaps), then rotated.
struct HeadPreparation {
  Handle norm_x = kNone, norm_weight = kNone;
  float epsilon = 0;
  int pairs = 0, rope_table = 0;  // pairs 0: not rotated
  bool halves = false;
};
struct FusedAttention {
  Attention attention;
  HeadPreparation q, k;
};
StepPointer make_attention_step(const Program& program, const FusedAttention& description);
StepPointer make_head_linear_step(const Program& program, const HeadLinear& operation, Domain domain);
StepPointer make_short_conv_step(const Program& program, const ShortConv& operation);
StepPointer make_delta_rule_step(const DeltaRule& operation);
StepPointer make_experts_step(const Program& program, const Experts& operation, Domain domain);
StepPointer make_router_step(const Program& program, const Router& operation, Domain domain);

struct FusedNorm {
  Handle weight;
  float epsilon;
  Handle out;
};
struct FusedLinear {
  Linear linear;
  Domain domain;
  bool has_norm = false;
  FusedNorm norm{};
  bool norm_kept = true;   // something else reads norm.out
  Handle glu_out = kNone;  // two matrices, gate and up, meet in one output
  Activation activation = Activation::silu;
  Handle residual = kNone;  // one matrix: residual_out = residual + product
  Handle residual_out = kNone;
};
StepPointer make_linear_step(const Program& program, FusedLinear description);

}  // namespace tessera
