// Router: which experts a token goes to, and with which weights.
//
// An expert's gate is the softmax over all logits, or the sigmoid of its own. Experts are chosen by gate + bias, and
// where they come in groups, only from the groups whose two best experts add up to most. Weights are the gates alone.
#include <cmath>
#include <limits>

#include "steps.h"

namespace tessera {
namespace {

// Logits as finite numbers: NaN counts as the lowest, so that choices and weights are always defined.
float finite(float x) {
  constexpr float kMost = std::numeric_limits<float>::max();
  return x >= -kMost ? std::min(x, kMost) : -kMost;
}

class RouterStep final : public Step {
 public:
  RouterStep(const Program& program, const Router& o, Domain domain)
      : o_(o), domain_(domain), experts_(program.value_at(o.logits).width) {}

  Needs needs(const Program&, const RunShape&) const override {
    return {0, aligned_size(sizeof(float) * static_cast<size_t>(experts_))};
  }

  void run(const Run& run, Worker& worker) const noexcept override {
    const int rows = run.shape.rows(domain_);
    const int size = std::max(1, rows / (run.shape.threads * 4));
    worker.share((rows + size - 1) / size, [&](int i) {
      for (int r = i * size; r < std::min(rows, (i + 1) * size); ++r)
        route(run, r, reinterpret_cast<float*>(worker.scratch()));
    });
  }

 private:
  struct Gates {
    bool softmax;
    float peak, total;
    float of(float logit) const { return softmax ? std::exp(logit - peak) / total : 1.0f / (1.0f + std::exp(-logit)); }
  };

  void route(const Run& run, int r, float* scores) const {
    const float* const logits = run.row(o_.logits, r);
    auto* const ids = reinterpret_cast<int32_t*>(run.row(o_.out_ids, r));
    float* const weights = run.row(o_.out_weights, r);
    const Gates gates = gates_of(logits);
    score(run, logits, gates, scores);
    choose(scores, ids);
    float chosen = 0;
    for (int k = 0; k < o_.top_k; ++k) {
      weights[k] = gates.of(finite(logits[ids[k]]));
      chosen += weights[k];
    }
    const float factor = o_.normalise && chosen > 0 ? o_.scale / chosen : o_.scale;
    for (int k = 0; k < o_.top_k; ++k) weights[k] *= factor;
  }

  Gates gates_of(const float* logits) const {
    if (o_.gating == Gating::sigmoid) return {false, 0, 1};
    float peak = finite(logits[0]), total = 0;
    for (int e = 1; e < experts_; ++e) peak = std::max(peak, finite(logits[e]));
    for (int e = 0; e < experts_; ++e) total += std::exp(finite(logits[e]) - peak);
    return {true, peak, total};
  }

  // What experts are chosen by. Without bias and groups, logits put them in the same order as their gates.
  void score(const Run& run, const float* logits, const Gates& gates, float* scores) const {
    for (int e = 0; e < experts_; ++e) scores[e] = finite(logits[e]);
    if (o_.bias == kNone && o_.groups == 1) return;
    const float* const bias =
        o_.bias == kNone ? nullptr : reinterpret_cast<const float*>(run.program.weight_at(o_.bias).data);
    for (int e = 0; e < experts_; ++e) scores[e] = finite(gates.of(scores[e]) + (bias == nullptr ? 0 : bias[e]));
    if (o_.groups > 1) close_groups(scores);
  }

  // Experts outside the best groups cannot be chosen any more; of equal groups the first is better.
  void close_groups(float* scores) const {
    const int size = experts_ / o_.groups;
    float sums[kMostGroups];
    for (int g = 0; g < o_.groups; ++g) {
      float best = -std::numeric_limits<float>::infinity(), second = best;
      for (int e = g * size; e < (g + 1) * size; ++e) {
        second = std::max(second, std::min(best, scores[e]));
        best = std::max(best, scores[e]);
      }
      sums[g] = finite(best + second);
    }
    for (int g = 0; g < o_.groups; ++g) {
      int better = 0;
      for (int other = 0; other < o_.groups; ++other)
        better += sums[other] > sums[g] || (sums[other] == sums[g] && other < g);
      if (better >= o_.groups_used)
        std::fill(scores + g * size, scores + (g + 1) * size, -std::numeric_limits<float>::infinity());
    }
  }

  // Insertion into a sorted list of top_k; an equal score of a later expert does not displace an earlier one.
  void choose(const float* scores, int32_t* ids) const {
    int found = 0;
    for (int e = 0; e < experts_; ++e) {
      if (found == o_.top_k && scores[e] <= scores[ids[found - 1]]) continue;
      int at = found < o_.top_k ? found++ : found - 1;
      for (; at > 0 && scores[ids[at - 1]] < scores[e]; --at) ids[at] = ids[at - 1];
      ids[at] = e;
    }
  }

  Router o_;
  Domain domain_;
  int experts_;
};

}  // namespace

StepPointer make_router_step(const Program& program, const Router& operation, Domain domain) {
  return std::make_unique<RouterStep>(program, operation, domain);
}

}  // namespace tessera
