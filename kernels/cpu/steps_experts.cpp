// Experts. The (token, expert) pairs of a batch are sorted by expert, so that every expert sees its tokens
// as one small batch: gate, up and the activation between them first, then down, whose rows are shared out so that each
// sum over a token's experts is made by one thread, in the order of expert numbers. Large batches go through the
// experts in waves, so that what lies between gate and down takes little memory.
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "packing.h"
#include "steps.h"

namespace tessera {
namespace {

constexpr size_t kWaveBytes = size_t{5} << 19;  // of what a wave keeps between its products

// Experts begin … end, and where they stand among the active ones.
struct Wave {
  int32_t begin, end, first, last;
};

// The (token, expert) pairs of a batch sorted by expert; pair = token * top_k + k. Pairs of absent experts are left
// out.
struct Grouping {
  int32_t* starts;  // [experts + 1]: pairs of expert e are sorted[starts[e] … starts[e + 1])
  int32_t* sorted;  // [pairs]; within an expert by token
  int32_t* tokens;  // [pairs]: the token of each sorted pair
  int32_t* active;  // experts that have pairs, by number, those of a wave by falling count
  size_t* inputs;   // [experts]: offset of an expert's packed input in its wave, in bytes
  size_t* hiddens;  // [experts]: offset of its packed hidden activations
  Wave* waves;      // [experts]
  int active_count, wave_count;

  int count(int expert) const { return starts[expert + 1] - starts[expert]; }
};

class ExpertsStep final : public Step {
 public:
  ExpertsStep(const Program& program, const Experts& o, Domain domain)
      : o_(o),
        domain_(domain),
        experts_(program.weight_at(o.gate).count),
        top_k_(program.value_at(o.ids).width),
        width_(program.weight_at(o.gate).cols),
        hidden_(program.weight_at(o.gate).rows),
        input_(program.kernels().matmul, width_),
        hidden_packing_(program.kernels().matmul, hidden_) {
    for (const Handle w : {o.gate, o.up, o.down}) {
      const Weight& weight = program.weight_at(w);
      const MatmulKernels& kernels = program.kernels().matmul.types[static_cast<int>(weight.type)];
      (w == o.down ? hidden_packing_ : input_).require(kernels.format);
      int& step = w == o.down ? down_step_ : gate_step_;
      step = std::max(step, kernels.row_step);
      multiply_scratch_ = std::max(multiply_scratch_, aligned_size(kernels.scratch_bytes(weight.cols)));
    }
  }

  Needs needs(const Program&, const RunShape& shape) const override {
    const int tokens = shape.rows(domain_), pairs = wave_pairs(tokens);
    return {packed_bound(input_, pairs) + packed_bound(hidden_packing_, pairs) + floats(pairs, hidden_),
            multiply_scratch_ + grouping_bytes(tokens * top_k_) + product_bytes(shape, tokens) +
                (tokens == 1 ? aligned_size(packed_bound(input_, pairs)) + packed_bound(hidden_packing_, pairs) : 0)};
  }

  void run(const Run& run, Worker& worker) const noexcept override {
    const int tokens = run.shape.rows(domain_);
    if (tokens == 0) return;
    // Every thread sorts for itself, and packs a single token's activations: it takes less time than waiting would.
    const bool alone = tokens == 1;
    const Grouping groups = group(run, worker.scratch() + multiply_scratch_, tokens);
    const int most = wave_pairs(tokens);
    float* const hidden = reinterpret_cast<float*>(run.shared);  // first: of the others much is padding, never touched
    float* const product =
        reinterpret_cast<float*>(worker.scratch() + multiply_scratch_ + grouping_bytes(tokens * top_k_));
    uint8_t* const own = reinterpret_cast<uint8_t*>(product) + product_bytes(run.shape, tokens);
    uint8_t* const inputs = alone ? own : run.shared + floats(most, hidden_);
    uint8_t* const hiddens = inputs + (alone ? aligned_size(packed_bound(input_, most)) : packed_bound(input_, most));
    for (int w = 0; w < groups.wave_count; ++w) {
      if (w > 0) worker.barrier();
      run_wave(run, worker, groups, groups.waves[w], alone, inputs, hiddens, hidden, product);
    }
  }

 private:
  void run_wave(const Run& run, Worker& worker, const Grouping& groups, const Wave& wave, bool alone, uint8_t* inputs,
                uint8_t* hiddens, float* hidden, float* product) const {
    const int32_t* const active = groups.active + wave.first;
    const int count = wave.last - wave.first;
    const auto pack_input = [&](int e) {
      input_.pack(run.value(o_.x), width_, groups.tokens + groups.starts[e], groups.count(e), 0, groups.count(e),
                  inputs + groups.inputs[e]);
    };
    if (alone) {
      if (count > 0) pack_input(active[0]);
    } else {
      worker.share(count, [&](int i) { pack_input(active[i]); });
      worker.barrier();
    }
    const int rows = chunk(run.shape), chunks = (hidden_ + rows - 1) / rows;
    const auto hidden_of = [&](int e) {
      return hidden + static_cast<ptrdiff_t>(groups.starts[e] - groups.starts[wave.begin]) * hidden_;
    };
    worker.share_parts(count * chunks, [&](int i) {
      const int first = i % chunks * rows, e = active[i / chunks];
      const int after = i + 1;
      const uint8_t* const next = after < count * chunks ? rows_at(run.program.weight_at(o_.gate),
                                                                   active[after / chunks], after % chunks * rows)
                                                         : nullptr;
      gate_and_up(run, worker, groups, e, {first, std::min(rows, hidden_ - first)}, inputs, hidden_of(e), product,
                  next);
    });
    worker.barrier();
    const auto pack_hidden = [&](int e) {
      hidden_packing_.pack(hidden_of(e), hidden_, nullptr, groups.count(e), 0, groups.count(e),
                           hiddens + groups.hiddens[e]);
    };
    if (alone) {
      for (int i = 0; i < count; ++i) pack_hidden(active[i]);
    } else {
      worker.share(count, [&](int i) { pack_hidden(active[i]); });
      worker.barrier();
    }
    const int out_rows = down_chunk(run.shape), out_chunks = (width_ + out_rows - 1) / out_rows;
    worker.share_parts(out_chunks, [&](int i) {
      down(run, worker, groups, wave, {i * out_rows, std::min(out_rows, width_ - i * out_rows)}, hiddens, product);
    });
  }

  static size_t floats(int rows, int cols) {
    return aligned_size(sizeof(float) * static_cast<size_t>(rows) * static_cast<size_t>(cols));
  }

  // Of a chunk of gate and up, or of down.
  size_t product_bytes(const RunShape& shape, int tokens) const {
    return std::max(2 * floats(tokens, chunk(shape)), floats(tokens, down_chunk(shape)));
  }

  // Pairs of a wave, at most: all experts of a small batch, or as many as keep their activations in the cache.
  int wave_pairs(int tokens) const {
    const size_t bytes = input_.bytes_per_token() + hidden_packing_.bytes_per_token() + floats(1, hidden_);
    return std::min(tokens * top_k_, std::max(tokens, static_cast<int>(kWaveBytes / bytes)));
  }

  // Experts' inputs are packed one by one, each rounded up to what its kernel likes.
  size_t packed_bound(const Packing& packing, int pairs) const {
    const int most_active = std::min(experts_, pairs);
    return static_cast<size_t>(pairs) * packing.bytes_per_token() +
           static_cast<size_t>(most_active) * packing.bytes_per_batch();
  }

  int chunk(const RunShape& shape) const { return chunk_of(hidden_, gate_step_, shape); }
  int down_chunk(const RunShape& shape) const { return chunk_of(width_, down_step_, shape); }
  static int chunk_of(int rows, int step, const RunShape& shape) {
    const int wanted = std::max(1, rows / (shape.threads * 4));
    return std::min((wanted + step - 1) / step * step, 256 / step * step + (step > 256 ? step : 0));
  }

  size_t grouping_bytes(int pairs) const {
    return aligned_size((2 * sizeof(size_t) + sizeof(Wave)) * static_cast<size_t>(experts_)) +
           aligned_size(sizeof(int32_t) * static_cast<size_t>(2 * experts_ + 1 + 2 * pairs));
  }

  Grouping group(const Run& run, uint8_t* memory, int tokens) const {
    const int pairs = tokens * top_k_;
    Grouping g{};
    g.inputs = reinterpret_cast<size_t*>(memory);
    g.hiddens = g.inputs + experts_;
    g.waves = reinterpret_cast<Wave*>(g.hiddens + experts_);
    g.starts = reinterpret_cast<int32_t*>(
        memory + aligned_size((2 * sizeof(size_t) + sizeof(Wave)) * static_cast<size_t>(experts_)));
    g.active = g.starts + experts_ + 1;
    g.sorted = g.active + experts_;
    g.tokens = g.sorted + pairs;

    const auto* const ids = reinterpret_cast<const int32_t*>(run.value(o_.ids));
    const std::vector<uint8_t>* const present = o_.mask != kNone ? &run.program.mask_at(o_.mask).present : nullptr;
    const auto is_ours = [&](int pair) {
      const int32_t id = ids[pair];
      for (int p = pair / top_k_ * top_k_; p < pair; ++p)
        if (ids[p] == id) return false;  // a token's experts differ, so that an expert has one row per token at most
      return id >= 0 && id < experts_ && (present == nullptr || (*present)[static_cast<size_t>(id)] != 0);
    };
    std::fill_n(g.starts, experts_ + 1, 0);
    for (int p = 0; p < pairs; ++p)
      if (is_ours(p)) ++g.starts[ids[p] + 1];
    size_t input = 0, hidden = 0;
    Wave* wave = g.waves;
    *wave = {0, experts_, 0, 0};
    const int most = wave_pairs(tokens);
    for (int e = 0; e < experts_; ++e) {
      const int n = g.starts[e + 1];
      g.starts[e + 1] += g.starts[e];
      if (g.starts[e + 1] - g.starts[wave->begin] > most) {
        wave->end = e;
        *++wave = {e, experts_, g.active_count, g.active_count};
        input = hidden = 0;
      }
      g.inputs[e] = input;
      g.hiddens[e] = hidden;
      if (n == 0) continue;
      g.active[g.active_count++] = e;
      wave->last = g.active_count;
      if (tokens > 1) input += input_.bytes(n);  // all experts of a single token see the same
      hidden += hidden_packing_.bytes(n);
    }
    for (int p = 0; p < pairs; ++p) {  // starts[e] runs up to the end of e and is shifted back below
      if (!is_ours(p)) continue;
      const int at = g.starts[ids[p]]++;
      g.sorted[at] = p;
      g.tokens[at] = p / top_k_;
    }
    for (int e = experts_; e > 0; --e) g.starts[e] = g.starts[e - 1];
    g.starts[0] = 0;
    g.wave_count = static_cast<int>(wave - g.waves) + 1;
    for (int w = 0; w < g.wave_count; ++w)
      std::sort(g.active + g.waves[w].first, g.active + g.waves[w].last,
                [&g](int32_t a, int32_t b) { return std::pair(-g.count(a), a) < std::pair(-g.count(b), b); });
    return g;
  }

  void gate_and_up(const Run& run, Worker& worker, const Grouping& groups, int expert, RowRange range,
                   const uint8_t* inputs, float* hidden, float* product, const uint8_t* next) const {
    const Kernels& kernels = run.program.kernels();
    const int n = groups.count(expert);
    float* const up = product + floats(n, range.count) / sizeof(float);
    for (const bool is_gate : {true, false}) {
      const Weight& weight = run.program.weight_at(is_gate ? o_.gate : o_.up);
      const ActivationFormat format = kernels.matmul.types[static_cast<int>(weight.type)].format;
      multiply_rows(kernels, weight, expert, range, input_.find(inputs + groups.inputs[expert], format, n), n,
                    is_gate ? product : up, range.count, worker.scratch(),
                    is_gate ? rows_at(run.program.weight_at(o_.up), expert, range.first) : next);
      add_bias(run, is_gate ? o_.gate_bias : o_.up_bias, expert, range, n, is_gate ? product : up);
    }
    for (int i = 0; i < n; ++i) {
      const ptrdiff_t at = static_cast<ptrdiff_t>(i) * range.count;
      kernels.vector.glu(product + at, up + at, hidden + static_cast<ptrdiff_t>(i) * hidden_ + range.first, range.count,
                         o_.activation);
    }
  }

  void add_bias(const Run& run, Handle bias, int expert, RowRange range, int n, float* product) const {
    if (bias == kNone) return;
    const Weight& weight = run.program.weight_at(bias);
    const auto* const values =
        reinterpret_cast<const float*>(weight.data) + static_cast<ptrdiff_t>(expert) * weight.cols + range.first;
    for (int i = 0; i < n; ++i) {
      float* const row = product + static_cast<ptrdiff_t>(i) * range.count;
      run.program.kernels().vector.add(row, values, row, range.count);
    }
  }

  // Rows `range` of the output of every token: the weighted sum over its experts, by rising expert.
  void down(const Run& run, Worker& worker, const Grouping& groups, const Wave& wave, RowRange range,
            const uint8_t* hiddens, float* product) const {
    const Kernels& kernels = run.program.kernels();
    const Weight& weight = run.program.weight_at(o_.down);
    const ActivationFormat format = kernels.matmul.types[static_cast<int>(weight.type)].format;
    const float* const factors = run.value(o_.weights);
    for (int r = 0; wave.begin == 0 && r < run.shape.rows(domain_); ++r)
      std::memset(run.row(o_.out, r) + range.first, 0, sizeof(float) * static_cast<size_t>(range.count));
    const auto active = [&](int e) {  // the first from e on
      while (e < wave.end && groups.count(e) == 0) ++e;
      return e;
    };
    for (int e = active(wave.begin), next; e < wave.end; e = next) {
      const int n = groups.count(e);
      next = active(e + 1);
      multiply_rows(kernels, weight, e, range, hidden_packing_.find(hiddens + groups.hiddens[e], format, n), n, product,
                    range.count, worker.scratch(), next < wave.end ? rows_at(weight, next, range.first) : nullptr);
      add_bias(run, o_.down_bias, e, range, n, product);
      for (int i = 0; i < n; ++i) {
        const int pair = groups.sorted[groups.starts[e] + i];
        kernels.vector.add_scaled(product + static_cast<ptrdiff_t>(i) * range.count, factors[pair],
                                  run.row(o_.out, pair / top_k_) + range.first, range.count);
      }
    }
  }

  Experts o_;
  Domain domain_;
  int experts_, top_k_, width_, hidden_;
  Packing input_, hidden_packing_;
  int gate_step_ = 1, down_step_ = 1;
  size_t multiply_scratch_ = 0;
};

}  // namespace

StepPointer make_experts_step(const Program& program, const Experts& operation, Domain domain) {
  return std::make_unique<ExpertsStep>(program, operation, domain);
}

}  // namespace tessera
