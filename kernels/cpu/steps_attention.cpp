// Attention: heads are normalised and rotated where that is fused, keys and values go into the paged cache, then every
// (item, unit of heads) attends. Where an item's keys are split into parts, whoever finishes a group's last part
// combines them, always in the same order.
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "steps.h"

namespace tessera {
namespace {

// What one attend call yields for `rows` query rows.
struct Partial {
  float* out;    // [rows, value_dim]
  float* peaks;  // [rows]
  float* sums;   // [rows]

  static size_t bytes(int rows, int value_dim) {
    return aligned_size(sizeof(float) * static_cast<size_t>(rows) * static_cast<size_t>(value_dim)) +
           2 * aligned_size(sizeof(float) * static_cast<size_t>(rows));
  }
  static Partial at(uint8_t* memory, int rows, int value_dim) {
    const size_t out_bytes = aligned_size(sizeof(float) * static_cast<size_t>(rows) * static_cast<size_t>(value_dim));
    const size_t row_bytes = aligned_size(sizeof(float) * static_cast<size_t>(rows));
    return {reinterpret_cast<float*>(memory), reinterpret_cast<float*>(memory + out_bytes),
            reinterpret_cast<float*>(memory + out_bytes + row_bytes)};
  }
};

class AttentionStep final : public Step {
 public:
  AttentionStep(const Program& program, const FusedAttention& d)
      : o_(d.attention),
        q_(d.q),
        k_(d.k),
        kv_heads_(program.kv_at(o_.kv).heads),
        heads_per_kv_(o_.heads / kv_heads_),
        heads_per_unit_(program.heads_per_unit(o_)),
        units_(o_.heads / heads_per_unit_),
        key_dim_(program.kv_at(o_.kv).key_dim),
        value_dim_(program.kv_at(o_.kv).value_dim) {}

  Needs needs(const Program& program, const RunShape& shape) const override {
    const AttentionSchedule& schedule = shape.schedules[o_.schedule];
    const auto rows = static_cast<size_t>(schedule.most_rows);
    const size_t shared = static_cast<size_t>(schedule.parts) * static_cast<size_t>(units_) *
                          Partial::bytes(schedule.most_part_rows, value_dim_);
    const size_t row_lists = aligned_size(sizeof(const float*) * rows) + 2 * aligned_size(sizeof(int32_t) * rows);
    return {shared, row_lists + Partial::bytes(schedule.most_rows, value_dim_) +
                        program.kernels().attention.scratch_bytes(schedule.most_rows, key_dim_, value_dim_)};
  }

  void run(const Run& run, Worker& worker) const noexcept override {
    const int units = run.shape.tokens * kv_heads_, size = std::max(1, units / (run.shape.threads * 4));
    worker.share((units + size - 1) / size, [&](int i) {
      for (int u = i * size; u < std::min(units, (i + 1) * size); ++u) prepare(run, u / kv_heads_, u % kv_heads_);
    });
    worker.barrier();
    const AttentionSchedule& schedule = run.shape.schedules[o_.schedule];
    worker.share(static_cast<int>(schedule.items.size()) * units_, [&](int i) {
      attend(run, worker, schedule, schedule.by_cost[static_cast<size_t>(i / units_)], i % units_);
    });
  }

 private:
  // One KV head of one token, and the query heads that share it.
  void prepare(const Run& run, int token, int kv_head) const {
    for (int h = 0; h < heads_per_kv_; ++h) prepare_head(run, q_, o_.q, token, kv_head * heads_per_kv_ + h);
    prepare_head(run, k_, o_.k, token, kv_head);

    const KvLayer& kv = run.program.kv_at(o_.kv);
    const auto t = static_cast<size_t>(token);
    const int position = run.batch.positions()[t];
    const auto block =
        static_cast<size_t>(run.batch.block_table(run.batch.sequences()[t], kv.table)[position / kv.block_tokens]);
    const size_t row =
        (block * static_cast<size_t>(kv_heads_) + static_cast<size_t>(kv_head)) * static_cast<size_t>(kv.block_tokens) +
        static_cast<size_t>(position % kv.block_tokens);
    const auto store = run.program.kernels().attention.store[static_cast<int>(kv.type)];
    store(run.row(o_.k, token) + static_cast<ptrdiff_t>(kv_head) * key_dim_, kv.keys + row * kv.key_row_bytes,
          key_dim_);
    if (kv.latent) return;
    store(run.row(o_.v, token) + static_cast<ptrdiff_t>(kv_head) * value_dim_, kv.values + row * kv.value_row_bytes,
          value_dim_);
  }

  void prepare_head(const Run& run, const HeadPreparation& how, Handle value, int token, int head) const {
    const VectorKernels& vector = run.program.kernels().vector;
    const ptrdiff_t at = static_cast<ptrdiff_t>(head) * key_dim_;
    float* const x = run.row(value, token) + at;
    if (how.norm_x != kNone) {
      const float* const weight = run.program.vector_at(how.norm_weight);
      vector.rms_norm(run.row(how.norm_x, token) + at, weight, x, key_dim_, how.epsilon);
    }
    if (how.pairs == 0) return;
    const float* const cosines = run.rope_rows[how.rope_table] + static_cast<ptrdiff_t>(token) * 2 * how.pairs;
    vector.rope(x, cosines, cosines + how.pairs, how.pairs, how.halves);
  }

  void attend(const Run& run, Worker& worker, const AttentionSchedule& schedule, int index, int unit) const {
    const AttentionItem& item = schedule.items[static_cast<size_t>(index)];
    const AttentionGroup& group = schedule.groups[static_cast<size_t>(item.group)];
    uint8_t* scratch = worker.scratch();
    const auto take = [&scratch](size_t bytes) { return std::exchange(scratch, scratch + aligned_size(bytes)); };
    const auto most = static_cast<size_t>(schedule.most_rows);
    auto** const queries = reinterpret_cast<const float**>(take(sizeof(const float*) * most));
    auto* const first = reinterpret_cast<int32_t*>(take(sizeof(int32_t) * most));
    auto* const last = reinterpret_cast<int32_t*>(take(sizeof(int32_t) * most));
    list_rows(run, item, unit, queries, first, last);

    const Partial partial = group.parts > 1
                                ? part_memory(run, schedule, group, unit, item.part)
                                : Partial::at(take(Partial::bytes(group.rows, value_dim_)), group.rows, value_dim_);
    const KvLayer& kv = run.program.kv_at(o_.kv);
    const auto head =
        static_cast<size_t>(unit * heads_per_unit_ / heads_per_kv_) * static_cast<size_t>(kv.block_tokens);
    AttentionTask task{};
    task.type = kv.type;
    task.keys = kv.keys + head * kv.key_row_bytes;
    task.values = kv.values + head * kv.value_row_bytes;
    task.key_block_bytes = kv.block_bytes(kv.key_row_bytes);
    task.value_block_bytes = kv.block_bytes(kv.value_row_bytes);
    task.key_row_bytes = kv.key_row_bytes;
    task.value_row_bytes = kv.value_row_bytes;
    task.blocks = run.batch.block_table(item.sequence, kv.table);
    task.block_tokens = kv.block_tokens;
    task.key_dim = key_dim_;
    task.value_dim = value_dim_;
    task.begin = item.begin;
    task.end = item.end;
    task.rows = group.rows;
    task.queries = queries;
    task.first = first;
    task.last = last;
    task.scale = o_.scale;
    task.soft_cap = o_.soft_cap;
    task.out = partial.out;
    task.peaks = partial.peaks;
    task.sums = partial.sums;
    task.scratch = scratch;
    run.program.kernels().attention.attend(task);

    if (group.parts > 1) {
      std::atomic<int>& done = run.part_counts[static_cast<ptrdiff_t>(item.group) * units_ + unit];
      if (done.fetch_add(1, std::memory_order_acq_rel) + 1 < group.parts) return;
      done.store(0, std::memory_order_relaxed);
    }
    combine(run, schedule, item, group, unit, partial);
  }

  // Row r is token r / heads_per_unit of the item, query head r % heads_per_unit of the unit.
  void list_rows(const Run& run, const AttentionItem& item, int unit, const float** queries, int32_t* first,
                 int32_t* last) const {
    for (int i = 0; i < item.count; ++i) {
      const int token = run.batch.order()[static_cast<size_t>(item.first + i)];
      const int position = run.batch.positions()[static_cast<size_t>(token)];
      for (int h = 0; h < heads_per_unit_; ++h) {
        const int r = i * heads_per_unit_ + h;
        queries[r] = run.row(o_.q, token) + static_cast<ptrdiff_t>(unit * heads_per_unit_ + h) * key_dim_;
        first[r] = first_seen(position, o_.window);
        last[r] = position;
      }
    }
  }

  Partial part_memory(const Run& run, const AttentionSchedule& schedule, const AttentionGroup& group, int unit,
                      int part) const {
    const size_t index =
        static_cast<size_t>(group.first_part + part) * static_cast<size_t>(units_) + static_cast<size_t>(unit);
    return Partial::at(run.shared + index * Partial::bytes(schedule.most_part_rows, value_dim_), group.rows,
                       value_dim_);
  }

  // Writes the weighted mean of the values that the group's parts have seen.
  void combine(const Run& run, const AttentionSchedule& schedule, const AttentionItem& item,
               const AttentionGroup& group, int unit, const Partial& only) const {
    const auto part = [&](int p) { return part_memory(run, schedule, group, unit, p); };
    const VectorKernels& vector = run.program.kernels().vector;
    const float* const sinks = run.program.vector_at(o_.sinks);
    for (int r = 0; r < group.rows; ++r) {
      const int token = run.batch.order()[static_cast<size_t>(item.first + r / heads_per_unit_)];
      const int head = unit * heads_per_unit_ + r % heads_per_unit_;
      float* const out = run.row(o_.out, token) + static_cast<ptrdiff_t>(head) * value_dim_;
      const ptrdiff_t at = static_cast<ptrdiff_t>(r) * value_dim_;
      // A sink takes part in the sum as a key without a value would.
      const float sink = sinks != nullptr ? sinks[head] : -std::numeric_limits<float>::infinity();
      if (group.parts == 1) {
        vector.scale(only.out + at, 1.0f / (only.sums[r] + std::exp(sink - only.peaks[r])), out, value_dim_);
        continue;
      }
      float peak = -std::numeric_limits<float>::infinity(), sum = 0;
      for (int p = 0; p < group.parts; ++p) peak = std::max(peak, part(p).peaks[r]);
      for (int p = 0; p < group.parts; ++p) sum += std::exp(part(p).peaks[r] - peak) * part(p).sums[r];
      sum += std::exp(sink - peak);
      vector.scale(part(0).out + at, std::exp(part(0).peaks[r] - peak) / sum, out, value_dim_);
      for (int p = 1; p < group.parts; ++p)
        vector.add_scaled(part(p).out + at, std::exp(part(p).peaks[r] - peak) / sum, out, value_dim_);
    }
  }

  Attention o_;
  HeadPreparation q_, k_;
  int kv_heads_, heads_per_kv_, heads_per_unit_, units_, key_dim_, value_dim_;
};

}  // namespace

StepPointer make_attention_step(const Program& program, const FusedAttention& description) {
  return std::make_unique<AttentionStep>(program, description);
}

}  // namespace tessera
