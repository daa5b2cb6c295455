#include "operations.h"

namespace tessera {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace

const char* operation_name(const Operation& operation) {
  static const char* const names[] = {"embed",       "rms_norm",    "linear",     "head_linear", "rope",  "attention",
                                      "glu",         "router",      "experts",    "add",         "scale", "soft_cap",
                                      "select_rows", "split_heads", "short_conv", "delta_rule"};
  static_assert(std::variant_size_v<OperationBody> == sizeof names / sizeof *names);
  return names[operation.body.index()];
}

Handles values_read(const Operation& operation) {
  return std::visit(Overloaded{
                        [](const Embed&) { return Handles{}; },
                        [](const RmsNorm& o) { return Handles{o.x}; },
                        [](const Linear& o) { return Handles{o.x}; },
                        [](const HeadLinear& o) { return Handles{o.x}; },
                        [](const Rope& o) { return Handles{o.x}; },
                        [](const Attention& o) { return Handles{o.q, o.k, o.v}; },
                        [](const Glu& o) { return Handles{o.gate, o.up}; },
                        [](const Router& o) { return Handles{o.logits}; },
                        [](const Experts& o) { return Handles{o.x, o.ids, o.weights}; },
                        [](const Add& o) { return Handles{o.a, o.b}; },
                        [](const Scale& o) { return Handles{o.x}; },
                        [](const SoftCap& o) { return Handles{o.x}; },
                        [](const SelectRows& o) { return Handles{o.x}; },
                        [](const SplitHeads& o) { return Handles{o.x}; },
                        [](const ShortConv& o) { return Handles{o.x}; },
                        [](const DeltaRule& o) { return Handles{o.x, o.alpha, o.beta}; },
                    },
                    operation.body);
}

Handles values_written(const Operation& operation) {
  return std::visit(Overloaded{
                        [](const Linear& o) { return o.outs; },
                        [](const SplitHeads& o) { return o.outs; },
                        [](const Rope& o) { return Handles{o.x}; },
                        [](const Router& o) { return Handles{o.out_ids, o.out_weights}; },
                        [](const Scale& o) { return Handles{o.x}; },
                        [](const SoftCap& o) { return Handles{o.x}; },
                        [](const auto& o) { return Handles{o.out}; },
                    },
                    operation.body);
}

Handles weights_used(const Operation& operation) {
  return std::visit(Overloaded{
                        [](const Embed& o) { return Handles{o.table}; },
                        [](const RmsNorm& o) { return o.weight == kNone ? Handles{} : Handles{o.weight}; },
                        [](const Linear& o) {
                          Handles used = o.weights;
                          for (Handle bias : o.biases)
                            if (bias != kNone) used.push_back(bias);
                          return used;
                        },
                        [](const HeadLinear& o) { return Handles{o.weight}; },
                        [](const ShortConv& o) { return Handles{o.weight}; },
                        [](const DeltaRule& o) { return Handles{o.a, o.dt}; },
                        [](const Router& o) { return o.bias == kNone ? Handles{} : Handles{o.bias}; },
                        [](const Attention& o) { return o.sinks == kNone ? Handles{} : Handles{o.sinks}; },
                        [](const Experts& o) {
                          Handles used = {o.gate, o.up, o.down};
                          for (const Handle bias : {o.gate_bias, o.up_bias, o.down_bias})
                            if (bias != kNone) used.push_back(bias);
                          return used;
                        },
                        [](const auto&) { return Handles{}; },
                    },
                    operation.body);
}

}  // namespace tessera
