// The best few of a vocabulary's logits: what a sampler looks at between two tokens.
//
// NumPy takes eight calls for this. After a decode step, which leaves nothing in the caches, they cost twice as much as
// this one: 350 instead of 175 µs of processor time for a whole choice from 49,152 logits, on a busy Zen 3. The sampler
// is called from here for the same reason: ctypes, and what Python does around it, are cold as well.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bindings.h"

namespace tessera {
namespace {

namespace nb = nanobind;
using Logits = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A tile of logits is kLanes columns of kRows values, so that maxima of columns need no step across lanes.
constexpr size_t kLanes = 16, kRows = 64, kTile = kLanes * kRows;
using Floats = float __attribute__((vector_size(16)));  // what every processor has; wider ones become scalars here
using Flags = int __attribute__((vector_size(16)));
constexpr size_t kParts = kLanes / 4;

struct Candidate {  // llama_token_data in llama.h
  int32_t id;
  float logit, p;
};

// The largest value of each column that is no NaN; `has_nan` is set where one is. Less than a tile at the end.
void column_maxima(const float* x, size_t count, float* maxima, bool& has_nan) {
  std::fill_n(maxima, kLanes, -std::numeric_limits<float>::infinity());
  if (count < kTile) {
    for (size_t i = 0; i < count; ++i) {
      maxima[i % kLanes] = x[i] > maxima[i % kLanes] ? x[i] : maxima[i % kLanes];
      has_nan = has_nan || std::isnan(x[i]);
    }
    return;
  }
  Floats most[kParts];
  Flags nan[kParts] = {};
  std::memcpy(most, maxima, sizeof most);
  for (size_t row = 0; row < kRows; ++row)
    for (size_t part = 0; part < kParts; ++part) {
      Floats value;
      std::memcpy(&value, x + row * kLanes + 4 * part, sizeof value);
      most[part] = value > most[part] ? value : most[part];
      nan[part] |= value != value;
    }
  std::memcpy(maxima, most, sizeof most);
  const Flags any = nan[0] | nan[1] | nan[2] | nan[3];
  has_nan = has_nan || (any[0] | any[1] | any[2] | any[3]) != 0;
}
static_assert(kParts == 4);

std::pair<int64_t, int64_t> best_logits(Logits logits, int64_t count, Bytes records) {
  const size_t size = logits.size();
  const float* const x = logits.data();
  if (size == 0 || size > std::numeric_limits<int32_t>::max() || count < 1)
    throw std::invalid_argument("at least one logit and one candidate are needed");
  if (records.size() / sizeof(Candidate) < size) throw std::invalid_argument("there must be a record per logit");
  auto* const out = reinterpret_cast<Candidate*>(records.data());
  std::vector<float> maxima((size + kTile - 1) / kTile * kLanes);
  bool has_nan = false;
  for (size_t tile = 0; tile * kTile < size; ++tile)
    column_maxima(x + tile * kTile, std::min(kTile, size - tile * kTile), &maxima[tile * kLanes], has_nan);
  if (has_nan) return {std::find_if(x, x + size, [](float value) { return std::isnan(value); }) - x, 0};
  // The count-th largest maximum of columns cannot exceed the count-th largest logit.
  float least = -std::numeric_limits<float>::infinity();
  if (maxima.size() > static_cast<size_t>(count)) {
    std::vector<float> sorted = maxima;
    std::nth_element(sorted.begin(), sorted.begin() + (count - 1), sorted.end(), std::greater<>());
    least = sorted[static_cast<size_t>(count - 1)];
  }
  int64_t found = 0;
  for (size_t column = 0; column < maxima.size(); ++column) {
    if (maxima[column] < least) continue;
    const size_t first = column / kLanes * kTile + column % kLanes;
    for (size_t i = first; i < std::min(size, first + kTile); i += kLanes)
      if (x[i] >= least) out[found++] = {static_cast<int32_t>(i), x[i], 0.0f};
  }
  std::sort(out, out + found, [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  const auto by_logit = [](const Candidate& a, const Candidate& b) { return a.logit < b.logit; };
  return {std::max_element(out, out + found, by_logit)->id, found};
}

struct CandidateArray {  // llama_token_data_array in llama.h
  Candidate* data;
  size_t size;
  int64_t selected;
  bool sorted;
};
using Apply = void (*)(void* sampler, CandidateArray* candidates);  // llama_sampler_apply

// Adds the tokens of `recent` that are not among the `found` candidates, which stay in order; their number then.
int64_t add_recent(const Logits& logits, const Ids& recent, Candidate* data, int64_t found) {
  const auto by_id = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
  std::vector<int32_t> ids(recent.data(), recent.data() + recent.size());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  Candidate* const end = data + found;
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    const Candidate candidate{id, logits.data()[id], 0.0f};
    if (!std::binary_search(data, end, candidate, by_id)) data[found++] = candidate;
  }
  std::inplace_merge(data, end, data + found, by_id);
  return found;
}

int64_t sample_best(Logits logits, int64_t count, Bytes records, uintptr_t apply, uintptr_t sampler,
                    uintptr_t penalties, std::optional<Ids> recent) {
  auto* const data = reinterpret_cast<Candidate*>(records.data());
  // Where none but the recent tokens change, the best others are among as many more.
  if (recent) count += static_cast<int64_t>(recent->size());
  auto [best, found] = best_logits(logits, count, std::move(records));
  if (!std::isfinite(logits.data()[best])) return -1;
  if (recent) found = add_recent(logits, *recent, data, found);
  CandidateArray candidates{data, static_cast<size_t>(found), -1, false};
  if (penalties != 0) reinterpret_cast<Apply>(apply)(reinterpret_cast<void*>(penalties), &candidates);
  reinterpret_cast<Apply>(apply)(reinterpret_cast<void*>(sampler), &candidates);
  if (candidates.selected < 0 || candidates.selected >= static_cast<int64_t>(candidates.size)) return best;
  const Candidate& chosen = candidates.data[candidates.selected];
  return logits.data()[chosen.id] == -std::numeric_limits<float>::infinity() ? best : chosen.id;
}

}  // namespace

void bind_logits(nb::module_& m) {
  m.def(
      "best_logits", &best_logits, nb::arg("logits"), nb::arg("count"), nb::arg("records").noconvert(),
      "The first largest of float32 `logits` (or the first NaN) and how many candidates were written to `records`, 12 "
      "bytes each as llama_token_data: at least the best `count`, by rising index; none where there is a NaN.");
  m.def("sample_best", &sample_best, nb::arg("logits"), nb::arg("count"), nb::arg("records").noconvert(),
        nb::arg("apply"), nb::arg("sampler"), nb::arg("penalties") = 0, nb::arg("recent") = nb::none(),
        "The token that a llama.cpp sampler takes of the best `count` or a few more: `apply` is the address of "
        "llama_sampler_apply, `sampler` its first argument. The best of all where it takes none, or one of -inf; -1 "
        "where the best is no finite number. `penalties` is a sampler that comes before, and changes only tokens of "
        "`recent` (int32, in any order; those outside the vocabulary are passed over).");
}

}  // namespace tessera
