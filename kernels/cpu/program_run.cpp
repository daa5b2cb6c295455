// Running: check what the batch and the bound memory must satisfy, make room, then let all threads walk the steps.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "program.h"
#include "steps.h"

namespace tessera {
namespace {

struct Region {
  const Run& run;
  ThreadPool& pool;
  const std::vector<Program::Placed>& steps;
  const std::vector<Arena>& scratch;
  const std::vector<float*>& rope_rows;  // empty: nothing rotates
};

// Cosines and sines of every token's angles, once per run for all layers and heads.
void fill_rope_rows(const Region& region, Worker& worker) {
  const Batch& batch = region.run.batch;
  worker.share(batch.size(), [&](int t) {
    const double position = batch.positions()[static_cast<size_t>(t)];
    for (size_t k = 0; k < region.rope_rows.size(); ++k) {
      const RopeTable& table = region.run.program.rope_tables()[k];
      const size_t pairs = table.frequencies.size();
      const float magnitude = table.magnitude * static_cast<float>(table.temperature.at(position));
      float* const cosines = region.rope_rows[k] + static_cast<size_t>(t) * 2 * pairs;
      for (size_t i = 0; i < pairs; ++i) {
        const double angle = position * table.frequencies[i];
        cosines[i] = static_cast<float>(std::cos(angle)) * magnitude;
        cosines[pairs + i] = static_cast<float>(std::sin(angle)) * magnitude;
      }
    }
  });
  worker.barrier();
}

void walk(void* context, int thread) noexcept {
  const Region& region = *static_cast<const Region*>(context);
  Worker worker(region.pool, thread, region.scratch[static_cast<size_t>(thread)].data());
  if (!region.rope_rows.empty()) fill_rope_rows(region, worker);
  for (size_t i = 0; i < region.steps.size(); ++i) {
    if (i > 0) worker.barrier();
    Run run = region.run;
    run.shared = region.steps[i].scratch;
    region.steps[i].step->run(run, worker);
  }
}

}  // namespace

Program::Claim::Claim(Program& program) : program_(program) {
  if (program.running_.exchange(true, std::memory_order_acquire))
    throw std::runtime_error("run: the program is running in another thread");
}

void Program::check_bound(int begin, int end, const Batch& batch) const {
  std::vector<std::tuple<int, int, int>> pools;  // block_tokens, blocks and table, checked once each
  for (int i = begin; i < end; ++i) {
    const auto refuse = [&](const std::string& message) {
      throw std::invalid_argument("run: operation " + std::to_string(i) + ", " +
                                  operation_name(operations_[static_cast<size_t>(i)]) + ": " + message);
    };
    for (const Handle h : used_weights_[static_cast<size_t>(i)])
      if (weight_at(h).data == nullptr) refuse("weight " + std::to_string(h) + " is not bound");
    const OperationBody& body = operations_[static_cast<size_t>(i)].body;
    if (const auto* embed = std::get_if<Embed>(&body);
        embed != nullptr && batch.largest_token() >= weight_at(embed->table).rows)
      refuse("token " + std::to_string(batch.largest_token()) + " is outside the table's " +
             std::to_string(weight_at(embed->table).rows) + " rows");
    const auto* conv = std::get_if<ShortConv>(&body);
    const auto* delta = std::get_if<DeltaRule>(&body);
    if (conv != nullptr || delta != nullptr) {
      const Handle state = conv != nullptr ? conv->state : delta->state;
      if (state_at(state).slots == 0) refuse("state_layer " + std::to_string(state) + " is not bound");
      batch.check_slots(state_at(state).slots);
    }
    if (const auto* attention = std::get_if<Attention>(&body)) {
      const KvLayer& kv = kv_at(attention->kv);
      if (kv.blocks == 0) refuse("kv_layer " + std::to_string(attention->kv) + " is not bound");
      const std::tuple pool{kv.block_tokens, kv.blocks, kv.table};
      if (std::find(pools.begin(), pools.end(), pool) != pools.end()) continue;
      batch.check_cache(kv.block_tokens, kv.blocks, kv.table);
      pools.push_back(pool);
    }
  }
}

size_t Program::bytes_of_rows(size_t value, int token_rows, int output_rows) const {
  const int rows = std::max(1, has_token_rows_[value] ? std::max(token_rows, output_rows) : output_rows);
  return aligned_size(sizeof(float) * static_cast<size_t>(rows) * static_cast<size_t>(values_[value].width));
}

// The arena: values that are kept, then what the others and the scratch of a run of that shape share. A step's scratch
// begins above the values that are needed meanwhile.
void Program::reserve_rows(int tokens, int outputs, const RunShape* shape) {
  if (arena_ != nullptr && tokens <= token_capacity_ && outputs <= output_capacity_) return;
  const int token_rows = std::max(tokens, token_capacity_), output_rows = std::max(outputs, output_capacity_);
  const auto rows = static_cast<size_t>(std::max({1, token_rows, output_rows}));
  size_t kept = 0, values = 0, used = 0, result_begin = 0;
  const auto is_result = [this](size_t v) { return static_cast<Handle>(v) == result_; };
  for (size_t v = 0; v < values_.size(); ++v)
    kept += values_[v].kept && !is_result(v) ? bytes_of_rows(v, token_rows, output_rows) : 0;
  for (int i = 0; i < operation_count();) {
    const Planned& planned = planned_at(i, operation_count());
    const size_t top = sizeof(float) * planned.top * rows;
    const size_t end = top + (shape != nullptr ? aligned_size(planned.step->needs(*this, *shape).shared) : 0);
    values = std::max(values, top);
    used = std::max(used, end);
    if (planned.end > result_from_) result_begin = std::max(result_begin, end);
    i = planned.end;
  }
  const size_t result =
      result_ != kNone ? bytes_of_rows(static_cast<size_t>(result_), token_rows, output_rows) : size_t{0};
  const size_t shared = std::max({used, result_begin + result, sizeof(float) * shared_row_ * rows});
  auto arena = std::make_shared<Arena>(kept + shared, kept + values);  // of scratch, much is touched rarely
  uint8_t* at = arena->data();
  uint8_t* const begin = at + kept;
  value_rows_.assign(values_.size(), nullptr);
  for (size_t v = 0; v < values_.size(); ++v) {
    uint8_t* memory = begin + sizeof(float) * values_[v].place * rows;
    if (is_result(v))
      memory = begin + result_begin;
    else if (values_[v].kept)
      memory = std::exchange(at, at + bytes_of_rows(v, token_rows, output_rows));
    value_rows_[v] = reinterpret_cast<float*>(memory);
  }
  arena_ = std::move(arena);
  token_capacity_ = token_rows;
  output_capacity_ = output_rows;
  shared_begin_ = begin;
  shared_end_ = shared;
  result_begin_ = result_ != kNone ? result_begin : shared;
  shared_rows_ = rows;
}

const Program::Planned& Program::planned_at(int index, int end) const {
  const Planned& fused = fused_[static_cast<size_t>(index)];
  return fused.step != nullptr && fused.end <= end ? fused : single_[static_cast<size_t>(index)];
}

// The steps for operations begin … end, each with scratch: in the arena where it fits, else in memory of its own,
// behind the rotations that all share.
std::vector<Program::Placed> Program::place_steps(int begin, int end, const RunShape& shape, size_t rope_bytes) {
  std::vector<Placed> steps;
  steps.reserve(static_cast<size_t>(end - begin));
  Needs most;
  for (int i = begin; i < end;) {
    const Planned& planned = planned_at(i, end);
    const Needs needs = planned.step->needs(*this, shape);
    const size_t first = sizeof(float) * planned.top * shared_rows_;
    const bool fits = first + needs.shared <= (planned.end > result_from_ ? result_begin_ : shared_end_);
    steps.push_back({planned.step.get(), fits ? shared_begin_ + first : nullptr});
    most = {std::max(most.shared, fits ? 0 : needs.shared), std::max(most.thread, needs.thread)};
    i = planned.end;
  }
  shared_scratch_.reserve(rope_bytes + most.shared);
  for (Placed& placed : steps)
    if (placed.scratch == nullptr) placed.scratch = shared_scratch_.data() + rope_bytes;
  if (thread_scratch_.size() < static_cast<size_t>(shape.threads))
    thread_scratch_.resize(static_cast<size_t>(shape.threads));
  for (int t = 0; t < shape.threads; ++t) thread_scratch_[static_cast<size_t>(t)].reserve(most.thread);
  return steps;
}

void Program::run(ThreadPool& pool, const Batch& batch, int begin, int end) {
  if (!finished_) throw std::invalid_argument("run: finish() comes first");
  if (end < 0) end = operation_count();
  if (begin < 0 || begin > end || end > operation_count())
    throw std::invalid_argument("run: operations " + std::to_string(begin) + ".." + std::to_string(end) +
                                " are outside 0.." + std::to_string(operation_count()));
  check_bound(begin, end, batch);
  execute(pool, batch, begin, end);
}

void Program::execute(ThreadPool& pool, const Batch& batch, int begin, int end) {
  const int tokens = batch.size(), outputs = static_cast<int>(batch.outputs().size());
  bool rotates = false;
  size_t part_counts = 0;
  schedules_.clear();
  for (const ScheduleKey& key : schedule_keys_)
    schedules_.push_back(schedule_attention(batch, key.heads_per_unit, key.window));
  for (int i = begin; i < end; ++i) {
    const OperationBody& body = operations_[static_cast<size_t>(i)].body;
    rotates |= std::holds_alternative<Rope>(body);
    if (const auto* attention = std::get_if<Attention>(&body))
      part_counts = std::max(part_counts, schedules_[static_cast<size_t>(attention->schedule)].groups.size() *
                                              static_cast<size_t>(attention->heads / heads_per_unit(*attention)));
  }
  if (part_counts > part_count_capacity_) {
    part_counts_ = std::make_unique<std::atomic<int>[]>(part_counts);
    part_count_capacity_ = part_counts;
  }

  const RunShape shape{tokens, outputs, pool.threads(), schedules_.data()};
  reserve_rows(tokens, outputs, &shape);
  size_t rope_bytes = 0;
  if (rotates)
    for (const RopeTable& table : rope_tables_)
      rope_bytes += aligned_size(sizeof(float) * 2 * table.frequencies.size() * static_cast<size_t>(tokens));
  const std::vector<Placed> steps = place_steps(begin, end, shape, rope_bytes);

  std::vector<float*> rope_rows;
  uint8_t* at = shared_scratch_.data();
  if (rotates)
    for (const RopeTable& table : rope_tables_)
      rope_rows.push_back(reinterpret_cast<float*>(std::exchange(
          at, at + aligned_size(sizeof(float) * 2 * table.frequencies.size() * static_cast<size_t>(tokens)))));
  const Run run{*this, batch, shape, value_rows_.data(), nullptr, rope_rows.data(), part_counts_.get()};
  Region region{run, pool, steps, thread_scratch_, rope_rows};
  pool.run(walk, &region);
  last_tokens_ = tokens;
  last_outputs_ = outputs;
}

}  // namespace tessera
