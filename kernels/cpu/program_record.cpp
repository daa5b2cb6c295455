// Recording: every operation's handles and widths are checked when it is added.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "program.h"
#include "steps.h"

namespace tessera {
namespace {

// Checks for one operation; every message starts with its name.
class Checks {
 public:
  Checks(const char* operation, const std::vector<Value>& values, const std::vector<Weight>& weights)
      : operation_(operation), values_(values), weights_(weights) {}

  [[noreturn]] void refuse(const std::string& message) const {
    throw std::invalid_argument(std::string(operation_) + ": " + message);
  }
  void require(bool condition, const std::string& message) const {
    if (!condition) refuse(message);
  }
  const Value& value(const char* role, Handle handle) const {
    require(handle >= 0 && static_cast<size_t>(handle) < values_.size(),
            std::string(role) + " names value " + std::to_string(handle) + ", which does not exist");
    return values_[static_cast<size_t>(handle)];
  }
  int width(const char* role, Handle handle) const {
    require(!value(role, handle).is_ids,
            std::string(role) + " names value " + std::to_string(handle) + ", which holds ids");
    return value(role, handle).width;
  }
  const Weight& weight(const char* role, Handle handle) const {
    require(handle >= 0 && static_cast<size_t>(handle) < weights_.size(),
            std::string(role) + " names weight " + std::to_string(handle) + ", which does not exist");
    return weights_[static_cast<size_t>(handle)];
  }
  void equal(const std::string& what, int64_t found, int64_t expected) const {
    require(found == expected, what + " is " + std::to_string(found) + ", not " + std::to_string(expected));
  }
  // A vector of float32: norm weights and biases.
  void vector(const char* role, Handle handle, int size) const {
    const Weight& w = weight(role, handle);
    require(w.type == QuantType::F32 && w.rows == 1 && w.count == 1,
            std::string(role) + " (weight " + std::to_string(handle) + ") must be one row of F32");
    equal(std::string("the size of ") + role, w.cols, size);
  }
  // A vector of float32 for each matrix of a stack, or none.
  void stacked_vectors(const char* role, Handle handle, const Weight& matrices) const {
    if (handle == kNone) return;
    const Weight& w = weight(role, handle);
    require(w.type == QuantType::F32 && w.rows == 1 && w.cols == matrices.rows && w.count == matrices.count,
            std::string(role) + " (weight " + std::to_string(handle) + ") must be " + std::to_string(matrices.count) +
                " rows of " + std::to_string(matrices.rows) + " F32");
  }
  void finite(const char* role, float x) const { require(std::isfinite(x), std::string(role) + " must be finite"); }

 private:
  const char* operation_;
  const std::vector<Value>& values_;
  const std::vector<Weight>& weights_;
};

Activation parse_activation(const Checks& check, const std::string& name) {
  if (name == "silu") return Activation::silu;
  if (name == "gelu") return Activation::gelu;
  if (name == "sigmoid") return Activation::sigmoid;
  if (name == "swiglu_oai") return Activation::swiglu_oai;
  if (name == "linear") return Activation::linear;
  check.refuse("activation must be silu, gelu, sigmoid, swiglu_oai or linear, not " + name);
}

}  // namespace

void Program::check_recording(const char* operation) const {
  check_idle(operation);
  if (finished_) throw std::invalid_argument(std::string(operation) + ": the program is finished");
}

void Program::embed(Handle table, Handle out) {
  check_recording("embed");
  const Checks check("embed", values_, weights_);
  check.equal("out's width", check.width("out", out), check.weight("table", table).cols);
  check.equal("table's count", weight_at(table).count, 1);
  operations_.push_back({Embed{table, out}});
}

void Program::rms_norm(Handle x, Handle weight, Handle out, float epsilon, int group, int groups) {
  check_recording("rms_norm");
  const Checks check("rms_norm", values_, weights_);
  const int width = check.width("x", x), size = group > 0 ? group : width;
  check.equal("out's width", check.width("out", out), width);
  check.require(group >= 0 && size <= width && (groups > 0 || width % size == 0),
                "group must divide the width " + std::to_string(width));
  check.require(groups >= 0 && groups <= width / size,
                "groups must be 0.." + std::to_string(width / size) + ", not " + std::to_string(groups));
  if (weight != kNone) check.vector("weight", weight, size);
  check.require(epsilon >= 0, "epsilon must not be negative");
  check.finite("epsilon", epsilon);
  operations_.push_back({RmsNorm{x, weight, out, epsilon, size, groups > 0 ? groups : width / size}});
}

void Program::linear(Handle x, std::vector<Handle> weights, std::vector<Handle> biases, std::vector<Handle> outs) {
  check_recording("linear");
  const Checks check("linear", values_, weights_);
  check.require(!weights.empty() && weights.size() <= 64, "takes 1..64 weights, not " + std::to_string(weights.size()));
  check.equal("the number of outs", static_cast<int64_t>(outs.size()), static_cast<int64_t>(weights.size()));
  if (biases.empty()) biases.assign(weights.size(), kNone);
  check.equal("the number of biases", static_cast<int64_t>(biases.size()), static_cast<int64_t>(weights.size()));
  for (size_t i = 0; i < weights.size(); ++i) {
    const Weight& w = check.weight("weights", weights[i]);
    check.equal("weights' count", w.count, 1);
    check.equal("weight " + std::to_string(weights[i]) + "'s cols", w.cols, check.width("x", x));
    check.equal("value " + std::to_string(outs[i]) + "'s width", check.width("outs", outs[i]), w.rows);
    check.require(outs[i] != x, "x cannot be one of outs");
    for (size_t k = 0; k < i; ++k) check.require(outs[k] != outs[i], "outs must differ");
    if (biases[i] != kNone) check.vector("biases", biases[i], w.rows);
  }
  operations_.push_back({Linear{x, std::move(weights), std::move(biases), std::move(outs)}});
}

void Program::head_linear(Handle x, Handle weight, Handle out, int heads, int first, int rows, bool transposed) {
  check_recording("head_linear");
  const Checks check("head_linear", values_, weights_);
  const Weight& w = check.weight("weight", weight);
  const int x_width = check.width("x", x), out_width = check.width("out", out);
  const int64_t all_rows = static_cast<int64_t>(w.rows) * w.count;
  check.require(heads >= 1 && all_rows % heads == 0 && x_width % heads == 0 && out_width % heads == 0,
                "heads must divide the weight's rows and both widths, not " + std::to_string(heads));
  check.require(first >= 0 && rows >= 1 && rows <= kMostWidth && first <= all_rows / heads - rows,
                "a head has " + std::to_string(all_rows / heads) + " rows, fewer than " + std::to_string(first) +
                    " and " + std::to_string(rows));
  check.require(all_rows <= kMostWidth, "the weight has more than " + std::to_string(kMostWidth) + " rows");
  const int in = transposed ? rows : w.cols, made = transposed ? w.cols : rows;
  check.require(x_width / heads >= in, "x's heads have " + std::to_string(x_width / heads) +
                                           " values, fewer than the " + std::to_string(in) + " that are multiplied");
  check.equal("the size of out's heads", out_width / heads, x_width / heads - in + made);
  check.require(out != x, "out must be a value of its own");
  operations_.push_back({HeadLinear{x, weight, out, heads, first, rows, transposed}});
}

void Program::rope(Handle x, int heads, int head_dim, int rope_dim, const std::string& mode,
                   std::vector<float> frequencies, float magnitude, int offset, Temperature temperature) {
  check_recording("rope");
  const Checks check("rope", values_, weights_);
  check.require(mode == "norm" || mode == "neox", "mode must be norm or neox, not " + mode);
  check.require(heads >= 1 && head_dim >= 1, "heads and head_dim must be positive");
  check.equal("x's width", check.width("x", x), static_cast<int64_t>(heads) * head_dim);
  check.require(rope_dim >= 2 && rope_dim % 2 == 0 && rope_dim <= head_dim,
                "rope_dim must be even and 2.." + std::to_string(head_dim) + ", not " + std::to_string(rope_dim));
  check.require(offset >= 0 && offset <= head_dim - rope_dim,
                "offset must be 0.." + std::to_string(head_dim - rope_dim) + ", not " + std::to_string(offset));
  check.equal("the number of frequencies", static_cast<int64_t>(frequencies.size()), rope_dim / 2);
  for (float f : frequencies) check.finite("every frequency", f);
  check.finite("magnitude", magnitude);
  check.require(std::isfinite(temperature.scale) && std::isfinite(temperature.offset) && temperature.length >= 1 &&
                    temperature.offset >= 0,
                "temperature must be finite, with a length of at least 1 and an offset of at least 0");
  const RopeTable wanted{std::move(frequencies), magnitude, temperature};
  const auto table =
      static_cast<size_t>(std::find(rope_tables_.begin(), rope_tables_.end(), wanted) - rope_tables_.begin());
  if (table == rope_tables_.size()) rope_tables_.push_back(wanted);
  operations_.push_back({Rope{x, heads, head_dim, offset, rope_dim / 2, mode == "neox", static_cast<int>(table)}});
}

void Program::attention(Handle q, Handle k, Handle v, Handle kv, Handle out, int heads, float scale, int window,
                        float soft_cap, Handle sinks) {
  check_recording("attention");
  const Checks check("attention", values_, weights_);
  check.require(kv >= 0 && static_cast<size_t>(kv) < kv_layers_.size(),
                "kv names layer " + std::to_string(kv) + ", which does not exist");
  const KvLayer& layer = kv_at(kv);
  check.require(
      heads >= 1 && heads <= (1 << 12) && heads % layer.heads == 0,
      "heads must be a multiple of the " + std::to_string(layer.heads) + " KV heads, not " + std::to_string(heads));
  check.equal("q's width", check.width("q", q), static_cast<int64_t>(heads) * layer.key_dim);
  check.equal("k's width", check.width("k", k), static_cast<int64_t>(layer.heads) * layer.key_dim);
  if (layer.latent)
    check.require(v == k, "a latent layer's v is its k");
  else
    check.equal("v's width", check.width("v", v), static_cast<int64_t>(layer.heads) * layer.value_dim);
  check.equal("out's width", check.width("out", out), static_cast<int64_t>(heads) * layer.value_dim);
  check.require(out != q && out != k && out != v, "out must be a value of its own");
  check.require(window >= -(1 << 30), "window must be above -2^30");
  check.finite("scale", scale);
  check.finite("soft_cap", soft_cap);
  check.require(soft_cap >= 0, "soft_cap must not be negative");
  if (sinks != kNone) check.vector("sinks", sinks, heads);
  const ScheduleKey key{attention_unit(heads / layer.heads), window};
  size_t schedule = 0;
  while (schedule < schedule_keys_.size() && (schedule_keys_[schedule].heads_per_unit != key.heads_per_unit ||
                                              schedule_keys_[schedule].window != key.window))
    ++schedule;
  if (schedule == schedule_keys_.size()) schedule_keys_.push_back(key);
  operations_.push_back(
      {Attention{q, k, v, kv, out, heads, scale, window, static_cast<int>(schedule), soft_cap, sinks}});
}

void Program::glu(Handle gate, Handle up, Handle out, const std::string& activation) {
  check_recording("glu");
  const Checks check("glu", values_, weights_);
  const int width = check.width("up", up), gate_width = check.width("gate", gate);
  check.require(width % gate_width == 0,
                "gate's width " + std::to_string(gate_width) + " must divide up's width " + std::to_string(width));
  check.require(gate_width == width || out != gate, "out cannot be the narrower gate");
  check.equal("out's width", check.width("out", out), width);
  operations_.push_back({Glu{gate, up, out, parse_activation(check, activation)}});
}

void Program::router(Handle logits, Handle out_ids, Handle out_weights, int top_k, const std::string& gating,
                     bool normalise, float scale, Handle bias, int groups, int groups_used) {
  check_recording("router");
  const Checks check("router", values_, weights_);
  const int experts = check.width("logits", logits);
  check.require(top_k >= 1 && top_k <= experts && top_k <= 256,
                "top_k must be 1.." + std::to_string(std::min(experts, 256)) + ", not " + std::to_string(top_k));
  check.equal("out_ids' width", check.value("out_ids", out_ids).width, top_k);
  check.equal("out_weights' width", check.width("out_weights", out_weights), top_k);
  check.require(out_ids != out_weights && out_ids != logits && out_weights != logits, "its three values must differ");
  for (const Operation& other : operations_) {
    const Handles written = values_written(other);
    if (!values_[static_cast<size_t>(out_ids)].is_ids)
      check.require(std::find(written.begin(), written.end(), out_ids) == written.end(),
                    "out_ids is used as float32 elsewhere");
  }
  check.require(gating == "softmax" || gating == "sigmoid", "gating must be softmax or sigmoid, not " + gating);
  check.finite("scale", scale);
  if (bias != kNone) check.vector("bias", bias, experts);
  check.require(groups >= 1 && groups <= kMostGroups && experts % groups == 0,
                "groups must be 1.." + std::to_string(kMostGroups) + " and divide the " + std::to_string(experts) +
                    " experts, not " + std::to_string(groups));
  check.require(groups == 1 || experts / groups >= 2, "a group must hold at least 2 experts");
  check.require(groups_used >= 1 && groups_used <= groups && groups_used * (experts / groups) >= top_k,
                "groups_used must be 1.." + std::to_string(groups) + " and hold top_k experts, not " +
                    std::to_string(groups_used));
  values_[static_cast<size_t>(out_ids)].is_ids = true;
  operations_.push_back({Router{logits, out_ids, out_weights, bias, top_k, groups, groups_used,
                                gating == "softmax" ? Gating::softmax : Gating::sigmoid, normalise, scale}});
}

void Program::experts(Handle x, Handle ids, Handle weights, Handle gate, Handle up, Handle down, Handle out,
                      const std::string& activation, Handle mask, const std::vector<Handle>& biases) {
  check_recording("experts");
  const Checks check("experts", values_, weights_);
  const Weight& g = check.weight("gate", gate);
  const Weight& u = check.weight("up", up);
  const Weight& d = check.weight("down", down);
  check.equal("gate's cols", g.cols, check.width("x", x));
  check.require(u.rows == g.rows && u.cols == g.cols && u.count == g.count, "gate and up must have the same shape");
  check.equal("down's cols", d.cols, g.rows);
  check.equal("down's count", d.count, g.count);
  check.equal("out's width", check.width("out", out), d.rows);
  check.equal("down's rows", d.rows, g.cols);
  check.equal("weights' width", check.width("weights", weights), check.value("ids", ids).width);
  check.require(value_at(ids).is_ids, "ids must be a value of ids");
  check.require(out != x && out != weights, "out must be a value of its own");
  if (mask != kNone) {
    check.require(mask >= 0 && static_cast<size_t>(mask) < masks_.size(),
                  "mask names expert_mask " + std::to_string(mask) + ", which does not exist");
    check.equal("mask's size", static_cast<int64_t>(mask_at(mask).present.size()), g.count);
  }
  check.require(biases.empty() || biases.size() == 3, "biases must be those of gate, up and down, or none");
  const Handle gate_bias = biases.empty() ? kNone : biases[0], up_bias = biases.empty() ? kNone : biases[1],
               down_bias = biases.empty() ? kNone : biases[2];
  check.stacked_vectors("the bias of gate", gate_bias, g);
  check.stacked_vectors("the bias of up", up_bias, g);
  check.stacked_vectors("the bias of down", down_bias, d);
  operations_.push_back({Experts{x, ids, weights, gate, up, down, out, parse_activation(check, activation), mask,
                                 gate_bias, up_bias, down_bias}});
}

void Program::add(Handle a, Handle b, Handle out) {
  check_recording("add");
  const Checks check("add", values_, weights_);
  const int width = check.width("a", a);
  check.equal("b's width", check.width("b", b), width);
  check.equal("out's width", check.width("out", out), width);
  operations_.push_back({Add{a, b, out}});
}

void Program::scale(Handle x, float factor) {
  check_recording("scale");
  const Checks check("scale", values_, weights_);
  check.width("x", x);
  check.finite("factor", factor);
  operations_.push_back({Scale{x, factor}});
}

void Program::soft_cap(Handle x, float cap) {
  check_recording("soft_cap");
  const Checks check("soft_cap", values_, weights_);
  check.width("x", x);
  check.finite("cap", cap);
  check.require(cap > 0, "cap must be positive");
  operations_.push_back({SoftCap{x, cap}});
}

void Program::select_rows(Handle x, Handle out) {
  check_recording("select_rows");
  const Checks check("select_rows", values_, weights_);
  check.equal("out's width", check.width("out", out), check.width("x", x));
  check.require(out != x, "out must be a value of its own");
  operations_.push_back({SelectRows{x, out}});
}

void Program::split_heads(Handle x, std::vector<Handle> outs, std::vector<int> sizes, int heads) {
  check_recording("split_heads");
  const Checks check("split_heads", values_, weights_);
  check.require(!outs.empty() && outs.size() <= 64, "takes 1..64 parts, not " + std::to_string(outs.size()));
  check.equal("the number of sizes", static_cast<int64_t>(sizes.size()), static_cast<int64_t>(outs.size()));
  check.require(heads >= 1 && heads <= kMostWidth, "heads must be positive");
  int64_t total = 0;
  for (size_t i = 0; i < outs.size(); ++i) {
    check.require(sizes[i] >= 1 && sizes[i] <= kMostWidth,
                  "every part must hold 1.." + std::to_string(kMostWidth) + " values, not " + std::to_string(sizes[i]));
    check.require(outs[i] != x, "x cannot be one of outs");
    total += sizes[i];
    int64_t width = 0;
    for (size_t k = 0; k < outs.size(); ++k)
      if (outs[k] == outs[i]) width += static_cast<int64_t>(sizes[k]) * heads;
    check.equal("value " + std::to_string(outs[i]) + "'s width", check.width("outs", outs[i]), width);
  }
  check.equal("x's width", check.width("x", x), total * heads);
  operations_.push_back({SplitHeads{x, std::move(outs), std::move(sizes), heads}});
}

void Program::short_conv(Handle x, Handle weight, Handle out, Handle state) {
  check_recording("short_conv");
  const Checks check("short_conv", values_, weights_);
  const Weight& w = check.weight("weight", weight);
  check.require(w.type == QuantType::F32 && w.count == 1, "weight must be of type F32");
  check.require(w.cols >= 2 && w.cols <= 64, "weight must have 2..64 taps, not " + std::to_string(w.cols));
  check.equal("x's width", check.width("x", x), w.rows);
  check.equal("out's width", check.width("out", out), w.rows);
  check.require(out != x, "out must be a value of its own");
  check.require(state >= 0 && static_cast<size_t>(state) < state_layers_.size(),
                "state names layer " + std::to_string(state) + ", which does not exist");
  check.equal("the layer's tail", state_at(state).tail_values, static_cast<int64_t>(w.rows) * (w.cols - 1));
  operations_.push_back({ShortConv{x, weight, out, state}});
}

void Program::delta_rule(const DeltaRule& o) {
  check_recording("delta_rule");
  const Checks check("delta_rule", values_, weights_);
  check.require(
      o.key_heads >= 1 && o.value_heads >= 1 && o.value_heads <= (1 << 12) && o.value_heads % o.key_heads == 0,
      std::to_string(o.value_heads) + " value heads cannot share " + std::to_string(o.key_heads) + " key heads evenly");
  check.require(o.key_dim >= 1 && o.key_dim <= (1 << 12) && o.value_dim >= 1 && o.value_dim <= (1 << 12),
                "heads must hold 1..4096 values");
  check.equal("x's width", check.width("x", o.x),
              2 * static_cast<int64_t>(o.key_heads) * o.key_dim + static_cast<int64_t>(o.value_heads) * o.value_dim);
  check.equal("alpha's width", check.width("alpha", o.alpha), o.value_heads);
  check.equal("beta's width", check.width("beta", o.beta), o.value_heads);
  check.equal("out's width", check.width("out", o.out), static_cast<int64_t>(o.value_heads) * o.value_dim);
  check.require(o.out != o.x && o.out != o.alpha && o.out != o.beta, "out must be a value of its own");
  check.vector("a", o.a, o.value_heads);
  check.vector("dt", o.dt, o.value_heads);
  check.require(o.epsilon >= 0, "epsilon must not be negative");
  check.finite("epsilon", o.epsilon);
  check.require(o.state >= 0 && static_cast<size_t>(o.state) < state_layers_.size(),
                "state names layer " + std::to_string(o.state) + ", which does not exist");
  check.equal("the layer's state", state_at(o.state).state_values,
              static_cast<int64_t>(o.value_heads) * o.key_dim * o.value_dim);
  operations_.push_back({o});
}

}  // namespace tessera
