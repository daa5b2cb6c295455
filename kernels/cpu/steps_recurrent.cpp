// Layers that remember a state of fixed size: a short convolution over time, and the gated delta rule
// (arXiv:2412.06464). Every sequence reads one slot of the layer's state and writes another, so that a run that fails
// leaves what was there.
#include <cmath>
#include <cstring>
#include <utility>

#include "steps.h"

namespace tessera {
namespace {

constexpr int kChannels = 256;  // of a convolution that a thread takes at once

// out[t, c] = silu(Σ_j w[c, j] x[t - taps + 1 + j, c]); before the batch, x comes from the tail that the slot keeps.
class ShortConvStep final : public Step {
 public:
  ShortConvStep(const Program& program, const ShortConv& o)
      : o_(o), channels_(program.weight_at(o.weight).rows), taps_(program.weight_at(o.weight).cols) {}

  Needs needs(const Program&, const RunShape&) const override {
    return {0, aligned_size(sizeof(float) * static_cast<size_t>(kChannels * (2 * taps_ + 1)))};
  }

  void run(const Run& run, Worker& worker) const noexcept override {
    const int chunks = (channels_ + kChannels - 1) / kChannels;
    worker.share(chunks * static_cast<int>(run.batch.spans().size()), [&](int i) {
      const int first = i % chunks * kChannels;
      convolve(run, run.batch.spans()[static_cast<size_t>(i / chunks)], first, std::min(kChannels, channels_ - first),
               reinterpret_cast<float*>(worker.scratch()));
    });
  }

 private:
  void convolve(const Run& run, const Batch::Span& span, int first, int count, float* scratch) const {
    const StateLayer& layer = run.program.state_at(o_.state);
    const Batch::Slots slots = run.batch.slots(span.sequence);
    float* const weights = scratch;                   // [taps, count]: channels are neighbours
    float* const past = weights + taps_ * kChannels;  // [taps - 1, count]
    float* const ones = past + taps_ * kChannels;
    const auto* w = reinterpret_cast<const float*>(run.program.weight_at(o_.weight).data);
    for (int j = 0; j < taps_; ++j)
      for (int c = 0; c < count; ++c) weights[j * kChannels + c] = w[(first + c) * taps_ + j];
    for (int c = 0; c < count; ++c) ones[c] = 1;
    const size_t row = sizeof(float) * static_cast<size_t>(count);
    for (int j = 0; j < taps_ - 1; ++j) {
      if (slots.source < 0)
        std::memset(past + j * kChannels, 0, row);
      else
        std::memcpy(past + j * kChannels, tail(layer, slots.source, j) + first, row);
    }
    // Position i of the span, negative: of the past.
    const auto input = [&](int i) {
      return i < 0 ? past + (taps_ - 1 + i) * kChannels
                   : run.row(o_.x, run.batch.order()[static_cast<size_t>(span.first + i)]) + first;
    };
    for (int i = 0; i < span.count; ++i) {
      float* const out = run.row(o_.out, run.batch.order()[static_cast<size_t>(span.first + i)]) + first;
      for (int c = 0; c < count; ++c) out[c] = 0;
      for (int j = 0; j < taps_; ++j) {
        const float* const x = input(i - taps_ + 1 + j);
        for (int c = 0; c < count; ++c) out[c] += weights[j * kChannels + c] * x[c];
      }
      run.program.kernels().vector.glu(out, ones, out, count, Activation::silu);
    }
    for (int j = 0; j < taps_ - 1; ++j)
      std::memcpy(tail(layer, slots.target, j) + first, input(span.count - taps_ + 1 + j), row);
  }

  float* tail(const StateLayer& layer, int slot, int j) const {
    return layer.tails + static_cast<ptrdiff_t>(slot) * layer.tail_values + static_cast<ptrdiff_t>(j) * channels_;
  }

  ShortConv o_;
  int channels_, taps_;
};

// Per value head, with q and k of length 1: S = e^g S; S += k (β (v - kᵀ S))ᵀ; out = qᵀ S / √key_dim.
class DeltaRuleStep final : public Step {
 public:
  explicit DeltaRuleStep(const DeltaRule& o) : o_(o) {}

  Needs needs(const Program&, const RunShape&) const override {
    return {0, 3 * aligned_size(sizeof(float) * static_cast<size_t>(o_.key_dim))};
  }

  void run(const Run& run, Worker& worker) const noexcept override {
    worker.share(o_.value_heads * static_cast<int>(run.batch.spans().size()), [&](int i) {
      attend(run, run.batch.spans()[static_cast<size_t>(i / o_.value_heads)], i % o_.value_heads,
             reinterpret_cast<float*>(worker.scratch()));
    });
  }

 private:
  void attend(const Run& run, const Batch::Span& span, int head, float* scratch) const {
    const VectorKernels& vector = run.program.kernels().vector;
    const StateLayer& layer = run.program.state_at(o_.state);
    const ptrdiff_t values = static_cast<ptrdiff_t>(o_.key_dim) * o_.value_dim;
    const Batch::Slots slots = run.batch.slots(span.sequence);
    float* const next = layer.states + static_cast<ptrdiff_t>(slots.target) * layer.state_values + head * values;
    const float* state = layer.states + static_cast<ptrdiff_t>(slots.source) * layer.state_values + head * values;
    if (slots.source < 0) {
      std::memset(next, 0, sizeof(float) * static_cast<size_t>(values));
      state = next;
    }
    const size_t padded = aligned_size(sizeof(float) * static_cast<size_t>(o_.key_dim)) / sizeof(float);
    float* const query = scratch;
    float* const key = query + padded;
    float* const length = key + padded;
    std::fill_n(length, o_.key_dim, 1.0f / std::sqrt(static_cast<float>(o_.key_dim)));
    const int key_head = o_.tiled ? head % o_.key_heads : head / (o_.value_heads / o_.key_heads);
    const auto* a = reinterpret_cast<const float*>(run.program.weight_at(o_.a).data);
    const auto* dt = reinterpret_cast<const float*>(run.program.weight_at(o_.dt).data);
    const float epsilon = o_.epsilon / static_cast<float>(o_.key_dim);
    const int keys = o_.key_heads * o_.key_dim;
    for (int i = 0; i < span.count; ++i) {
      const int token = run.batch.order()[static_cast<size_t>(span.first + i)];
      const float* const x = run.row(o_.x, token);
      vector.rms_norm(x + key_head * o_.key_dim, length, query, o_.key_dim, epsilon);
      vector.rms_norm(x + keys + key_head * o_.key_dim, length, key, o_.key_dim, epsilon);
      DeltaStep step{};
      step.state = state;
      step.next = next;
      step.query = query;
      step.key = key;
      step.value = x + 2 * keys + head * o_.value_dim;
      step.decay = std::exp(a[head] * softplus(run.row(o_.alpha, token)[head] + dt[head]));
      step.beta = 1.0f / (1.0f + std::exp(-run.row(o_.beta, token)[head]));
      step.scale = length[0];
      step.key_dim = o_.key_dim;
      step.value_dim = o_.value_dim;
      step.out = run.row(o_.out, token) + head * o_.value_dim;
      vector.delta_step(step);
      state = next;
    }
  }

  static float softplus(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }

  DeltaRule o_;
};

}  // namespace

StepPointer make_short_conv_step(const Program& program, const ShortConv& operation) {
  return std::make_unique<ShortConvStep>(program, operation);
}

StepPointer make_delta_rule_step(const DeltaRule& operation) { return std::make_unique<DeltaRuleStep>(operation); }

}  // namespace tessera
