// Finishing: which rows every value has, and which neighbouring operations become one step.
#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "program.h"
#include "steps.h"
#include "value_memory.h"

namespace tessera {
namespace {

bool contains(const Handles& handles, Handle h) {
  return std::find(handles.begin(), handles.end(), h) != handles.end();
}

}  // namespace

void Program::infer_domains() {
  std::vector<Domain> domains(values_.size(), Domain::tokens);
  has_token_rows_.assign(values_.size(), false);
  for (size_t i = 0; i < operations_.size(); ++i) {
    Operation& operation = operations_[i];
    const auto refuse = [&](const std::string& message) {
      throw std::invalid_argument("finish: operation " + std::to_string(i) + ", " + operation_name(operation) + ": " +
                                  message);
    };
    const Handles reads = values_read(operation);
    if (!reads.empty()) operation.domain = domains[static_cast<size_t>(reads[0])];
    for (const Handle h : reads) {
      if (domains[static_cast<size_t>(h)] != operation.domain)
        refuse("some inputs have a row per token and some a row per output");
      if (operation.domain == Domain::tokens) has_token_rows_[static_cast<size_t>(h)] = true;
    }
    const bool by_token =
        std::holds_alternative<Rope>(operation.body) || std::holds_alternative<Attention>(operation.body) ||
        std::holds_alternative<ShortConv>(operation.body) || std::holds_alternative<DeltaRule>(operation.body) ||
        std::holds_alternative<SelectRows>(operation.body);
    if (by_token && operation.domain != Domain::tokens) refuse("needs a row per token");
    if (std::holds_alternative<SelectRows>(operation.body)) operation.domain = Domain::outputs;
    for (const Handle h : values_written(operation)) {
      domains[static_cast<size_t>(h)] = operation.domain;
      if (operation.domain == Domain::tokens) has_token_rows_[static_cast<size_t>(h)] = true;
    }
  }
  last_domains_ = std::move(domains);
}

// Whether nothing reads what `value` holds after operation `index`.
bool Program::is_dead_after(Handle value, int index) const {
  for (size_t i = static_cast<size_t>(index) + 1; i < operations_.size(); ++i) {
    if (contains(values_read(operations_[i]), value)) return false;
    if (contains(values_written(operations_[i]), value)) return true;
  }
  return true;
}

// Makes a fused step that starts at operation `index`, if one can: norms and rotations of the q and k of an attention,
// each value normalised before it is rotated, then the attention. All values are kept.
void Program::fuse_attention_at(int index) {
  const auto count = static_cast<int>(operations_.size());
  int last = index;
  while (last < count && (std::holds_alternative<RmsNorm>(operations_[static_cast<size_t>(last)].body) ||
                          std::holds_alternative<Rope>(operations_[static_cast<size_t>(last)].body)))
    ++last;
  const auto* attention = last < count ? std::get_if<Attention>(&operations_[static_cast<size_t>(last)].body) : nullptr;
  if (attention == nullptr || last == index || attention->q == attention->k) return;
  const int dim = kv_at(attention->kv).key_dim;
  FusedAttention fused{*attention, {}, {}};
  for (int i = index; i < last; ++i) {
    const OperationBody& body = operations_[static_cast<size_t>(i)].body;
    const Handle out = values_written(operations_[static_cast<size_t>(i)])[0];
    if (out != attention->q && out != attention->k) return;
    HeadPreparation& how = out == attention->q ? fused.q : fused.k;
    if (how.pairs != 0) return;  // nothing follows a rotation
    if (const auto* norm = std::get_if<RmsNorm>(&body)) {
      const Handle other = out == attention->q ? attention->k : attention->q;
      if (how.norm_x != kNone || norm->group != dim || norm->groups * dim != value_at(norm->x).width ||
          norm->x == other || norm->x == attention->v)
        return;
      how.norm_x = norm->x;
      how.norm_weight = norm->weight;
      how.epsilon = norm->epsilon;
    } else {
      const Rope& rope = std::get<Rope>(body);
      if (rope.head_dim != dim || rope.offset != 0) return;
      how.pairs = rope.pairs;
      how.rope_table = rope.table;
      how.halves = rope.halves;
    }
  }
  fused_[static_cast<size_t>(index)] = {make_attention_step(*this, fused), last + 1};
}

// Makes a fused step that starts at operation `index`, if one can:
//   [rms_norm] linear [glu | add]
// `last_writes`: the operation that writes each value last.
void Program::fuse_linear_at(int index, const std::vector<int>& last_writes) {
  const auto count = static_cast<int>(operations_.size());
  const auto body = [&](int i) -> const OperationBody* {
    return i < count ? &operations_[static_cast<size_t>(i)].body : nullptr;
  };
  FusedLinear fused{};
  int next = index;
  const auto* norm = std::get_if<RmsNorm>(body(index));
  if (norm != nullptr) {
    if (norm->group != values_[static_cast<size_t>(norm->x)].width || norm->out == norm->x) return;
    ++next;
  }
  const auto* linear = next < count ? std::get_if<Linear>(body(next)) : nullptr;
  if (linear == nullptr || (norm != nullptr && linear->x != norm->out)) return;
  fused.linear = *linear;
  fused.domain = operations_[static_cast<size_t>(next)].domain;
  Handles gone;
  if (norm != nullptr) {
    if (contains(linear->outs, norm->x)) return;
    fused.has_norm = true;
    fused.norm = {norm->weight, norm->epsilon, norm->out};
    fused.linear.x = norm->x;
    fused.norm_kept = !is_dead_after(norm->out, next);
    if (!fused.norm_kept) gone.push_back(norm->out);
  }
  const Handles& outs = linear->outs;
  ++next;
  const auto dies = [&](Handle h, Handle written) { return h == written || is_dead_after(h, next); };
  if (const auto* glu = next < count ? std::get_if<Glu>(body(next)) : nullptr;
      glu != nullptr && outs.size() == 2 && glu->gate == outs[0] && glu->up == outs[1] &&
      value_at(outs[0]).width == value_at(outs[1]).width && dies(outs[0], glu->out) && dies(outs[1], glu->out)) {
    fused.glu_out = glu->out;
    fused.activation = glu->activation;
    for (const Handle h : outs)
      if (h != glu->out) gone.push_back(h);
    ++next;
  } else if (const auto* add = next < count ? std::get_if<Add>(body(next)) : nullptr;
             add != nullptr && outs.size() == 1 && (add->a == outs[0]) != (add->b == outs[0]) &&
             dies(outs[0], add->out)) {
    fused.residual = add->a == outs[0] ? add->b : add->a;
    fused.residual_out = add->out;
    if (outs[0] != add->out) gone.push_back(outs[0]);
    ++next;
  }
  // The normalised rows would be read as the residual while they are still being made.
  if (norm != nullptr && fused.residual == norm->out && !fused.norm_kept) return;
  if (next - index < 2) return;
  for (const Handle h : gone)
    if (last_writes[static_cast<size_t>(h)] < next) values_[static_cast<size_t>(h)].fused_away = true;
  fused_[static_cast<size_t>(index)] = {make_linear_step(*this, std::move(fused)), next, std::move(gone)};
}

// Places the values with a row per token that need not be kept: what no step needs at the same time shares memory.
// A fused step counts as one time, whichever way it is run.
void Program::place_values(const Handles& kept) {
  const size_t count = values_.size();
  const auto at = [](Handle h) { return static_cast<size_t>(h); };
  std::vector<bool> live(count, false);
  ValueUse use{std::vector<int>(count, 0), std::vector<bool>(count, false), {}, {}};
  std::vector<int> begins;  // of steps, the last first
  for (int i = 0; i < operation_count(); i = fused_[at(i)].step != nullptr ? fused_[at(i)].end : i + 1)
    begins.insert(begins.begin(), i);
  int end = operation_count();
  for (const int begin : begins) {
    std::vector<bool> needed = live;
    for (int i = end - 1; i >= begin; --i) {
      const Operation& operation = operations_[at(i)];
      const Handles reads = values_read(operation), written = values_written(operation);
      for (const Handle h : written) needed[at(h)] = true, live[at(h)] = false;
      for (const Handle h : reads) needed[at(h)] = live[at(h)] = true;
      // A unit of heads of some tokens is written only when nobody reads its queries any more.
      if (const auto* const attention = std::get_if<Attention>(&operation.body);
          attention != nullptr && is_dead_after(attention->q, i))
        use.in_place.push_back({use.sets.size(), attention->q, attention->out});
    }
    use.sets.push_back(std::move(needed));
    end = begin;
  }
  for (size_t v = 0; v < count; ++v) {
    const bool is_asked_for = contains(kept, static_cast<Handle>(v));
    values_[v].kept = is_asked_for || live[v] || !has_token_rows_[v];  // live now: read before it is written
    use.widths[v] = values_[v].kept ? 0 : values_[v].width;
    use.last[v] = values_[v].fused_away;
  }
  const auto [places, row] = share_memory(use);
  for (size_t v = 0; v < count; ++v) values_[v].place = places[v];
  shared_row_ = row;
  for (size_t s = 0; s < begins.size(); ++s) {
    Planned& fused = fused_[at(begins[s])];
    const int past = fused.step != nullptr ? fused.end : begins[s] + 1;
    size_t top = 0;
    for (size_t v = 0; v < count; ++v) {
      if (!use.sets[s][v] || use.widths[v] == 0) continue;
      const size_t above = places[v] + padded_width(use.widths[v]);
      top = std::max(top, above);
      if (!contains(fused.gone, static_cast<Handle>(v))) fused.top = std::max(fused.top, above);
    }
    for (int i = begins[s]; i < past; ++i) single_[at(i)].top = top;
  }
  find_result(kept);
}

// The one value that outlasts the run and is read by no operation: logits.
void Program::find_result(const Handles& kept) {
  for (const Handle h : kept) {
    int first = operation_count();
    bool is_read = false;
    for (int i = operation_count() - 1; i >= 0; --i) {
      if (contains(values_written(operations_[static_cast<size_t>(i)]), h)) first = i;
      is_read = is_read || contains(values_read(operations_[static_cast<size_t>(i)]), h);
    }
    const bool is_output = !has_token_rows_[static_cast<size_t>(h)] && first < operation_count();
    if (is_output && !is_read) std::tie(result_, result_from_) = std::pair(h, first);
  }
}

void Program::finish(bool fuse, const Handles* kept) {
  check_recording("finish");
  if (kept != nullptr)
    for (const Handle h : *kept)
      if (h < 0 || static_cast<size_t>(h) >= values_.size())
        throw std::invalid_argument("finish: there is no value " + std::to_string(h));
  infer_domains();
  single_.clear();
  fused_.clear();
  used_weights_.clear();
  for (const Operation& operation : operations_) {
    single_.push_back({make_step(*this, operation), static_cast<int>(single_.size()) + 1});
    used_weights_.push_back(weights_used(operation));
  }
  fused_.resize(operations_.size());
  std::vector<int> last_writes(values_.size(), 0);
  for (int i = 0; i < operation_count(); ++i)
    for (const Handle h : values_written(operations_[static_cast<size_t>(i)])) last_writes[static_cast<size_t>(h)] = i;
  if (fuse)
    for (int i = 0; i < static_cast<int>(operations_.size()); ++i) {
      fuse_linear_at(i, last_writes);
      if (fused_[static_cast<size_t>(i)].step == nullptr) fuse_attention_at(i);
      if (fused_[static_cast<size_t>(i)].step != nullptr) i = fused_[static_cast<size_t>(i)].end - 1;
    }
  if (kept != nullptr) place_values(*kept);
  finished_ = true;
}

}  // namespace tessera
