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
#include <string>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

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

// Two operations that vector extensions spell as several instructions. The larger one is `b` where `a` is NaN.
#if defined(__SSE2__)
inline Floats larger(Floats a, Floats b) { return _mm_max_ps(a, b); }
inline Flags is_nan(Floats a, Floats b) { return reinterpret_cast<Flags>(_mm_cmpunord_ps(a, b)); }  // one of them
#else
inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }
inline Flags is_nan(Floats a, Floats b) { return (a != a) | (b != b); }
#endif

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
  Flags nan = {};
  std::memcpy(most, maxima, sizeof most);
  for (size_t row = 0; row < kRows; ++row) {
    Floats values[kParts];
    std::memcpy(values, x + row * kLanes, sizeof values);
    for (size_t part = 0; part < kParts; ++part) most[part] = larger(values[part], most[part]);
    nan |= is_nan(values[0], values[1]) | is_nan(values[2], values[3]);
  }
  std::memcpy(maxima, most, sizeof most);
  has_nan = has_nan || (nan[0] | nan[1] | nan[2] | nan[3]) != 0;
}
static_assert(kParts == 4);

// The first largest of `size` logits, or the first NaN; at least the best `count` by rising index, none where there is
// a NaN. The candidates stay good until the next call of the same thread.
struct Best {
  int64_t first;
  std::vector<Candidate>& candidates;
};

Best find_best(const float* x, size_t size, size_t count) {
  thread_local std::vector<float> maxima, few;  // kept: what is allocated anew is in no cache
  thread_local std::vector<Candidate> found;
  maxima.resize((size + kTile - 1) / kTile * kLanes);
  found.clear();
  bool has_nan = false;
  for (size_t tile = 0; tile * kTile < size; ++tile)
    column_maxima(x + tile * kTile, std::min(kTile, size - tile * kTile), &maxima[tile * kLanes], has_nan);
  if (has_nan) return {std::find_if(x, x + size, [](float value) { return std::isnan(value); }) - x, found};
  // The count-th largest maximum of groups of logits cannot exceed the count-th largest logit. With four groups for
  // each candidate few others come along, and little is left to be sorted.
  float least = -std::numeric_limits<float>::infinity();
  few.assign(std::min(maxima.size(), (4 * std::min(count, size) + kLanes - 1) / kLanes * kLanes), least);
  for (size_t column = 0; column < maxima.size(); ++column) {
    float& most = few[column % few.size()];
    most = std::max(most, maxima[column]);
  }
  if (few.size() > count) {
    const auto last = few.begin() + static_cast<ptrdiff_t>(count - 1);
    std::nth_element(few.begin(), last, few.end(), std::greater<>());
    least = *last;
  }
  for (size_t column = 0; column < maxima.size(); ++column) {
    if (maxima[column] < least) continue;
    const size_t first = column / kLanes * kTile + column % kLanes;
    for (size_t i = first; i < std::min(size, first + kTile); i += kLanes)
      if (x[i] >= least) found.push_back({static_cast<int32_t>(i), x[i], 0.0f});
  }
  std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  const auto by_logit = [](const Candidate& a, const Candidate& b) { return a.logit < b.logit; };
  return {std::max_element(found.begin(), found.end(), by_logit)->id, found};
}

void check_sizes(size_t size, int64_t count) {
  if (size == 0 || size > std::numeric_limits<int32_t>::max() || count < 1)
    throw std::invalid_argument("at least one logit and one candidate are needed");
}

std::pair<int64_t, int64_t> best_logits(Logits logits, int64_t count, Bytes records) {
  check_sizes(logits.size(), count);
  if (records.size() / sizeof(Candidate) < logits.size())
    throw std::invalid_argument("there must be a record per logit");
  const Best best = find_best(logits.data(), logits.size(), static_cast<size_t>(count));
  if (!best.candidates.empty())
    std::memcpy(records.data(), best.candidates.data(), sizeof(Candidate) * best.candidates.size());
  return {best.first, static_cast<int64_t>(best.candidates.size())};
}

struct CandidateArray {  // llama_token_data_array in llama.h
  Candidate* data;
  size_t size;
  int64_t selected;
  bool sorted;
};
using Apply = void (*)(void* sampler, CandidateArray* candidates);  // llama_sampler_apply

// Adds the tokens of `recent` that are not among the candidates, which stay in order.
void add_recent(const float* logits, size_t size, const Ids& recent, std::vector<Candidate>& candidates) {
  const auto by_id = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
  std::vector<int32_t> ids(recent.data(), recent.data() + recent.size());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto found = static_cast<ptrdiff_t>(candidates.size());
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= size) continue;
    const Candidate candidate{id, logits[id], 0.0f};
    if (!std::binary_search(candidates.begin(), candidates.begin() + found, candidate, by_id))
      candidates.push_back(candidate);
  }
  std::inplace_merge(candidates.begin(), candidates.begin() + found, candidates.end(), by_id);
}

// Of a buffer's elements; arrays over ctypes' memory name the order of bytes as well.
bool is_float32(const char* format) { return std::strcmp(format, "f") == 0 || std::strcmp(format, "<f") == 0; }

// One row of a float32 array. The buffer protocol itself: nanobind's arrays go through DLPack, three times the time.
class LogitRow {
 public:
  LogitRow(nb::handle array, int64_t row, size_t size) {
    if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) throw nb::python_error();
    const bool is_table = view_.ndim == 2;
    const int64_t rows = is_table ? view_.shape[0] : 1;
    const bool fits = (is_table || view_.ndim == 1) && is_float32(view_.format) && row >= 0 && row < rows &&
                      static_cast<size_t>(view_.shape[view_.ndim - 1]) >= size;
    if (!fits) {
      PyBuffer_Release(&view_);
      throw std::invalid_argument("row " + std::to_string(row) + " of the logits does not hold " +
                                  std::to_string(size) + " values of float32");
    }
    data_ = static_cast<const float*>(view_.buf) + row * view_.shape[view_.ndim - 1];
  }
  ~LogitRow() { PyBuffer_Release(&view_); }
  LogitRow(const LogitRow&) = delete;
  LogitRow& operator=(const LogitRow&) = delete;
  const float* data() const { return data_; }

 private:
  Py_buffer view_;
  const float* data_;
};

// What an answer's sampler does with every row of logits; all that stays the same is handed over once.
class BestSampler {
 public:
  BestSampler(int64_t size, int64_t count, uintptr_t apply, uintptr_t sampler, uintptr_t penalties)
      : size_(static_cast<size_t>(size)), count_(count), apply_(apply), sampler_(sampler), penalties_(penalties) {
    check_sizes(size < 0 ? 0 : size_, count);
  }

  int64_t sample(nb::handle logits, int64_t row, const std::optional<Ids>& recent) const {
    const LogitRow values(logits, row, size_);
    const float* const x = values.data();
    // Where none but the recent tokens change, the best others are among as many more.
    const size_t count = static_cast<size_t>(count_) + (recent ? recent->size() : 0);
    const Best best = find_best(x, size_, count);
    if (!std::isfinite(x[best.first])) return -1;
    if (sampler_ == 0) return best.first;
    if (recent) add_recent(x, size_, *recent, best.candidates);
    CandidateArray candidates{best.candidates.data(), best.candidates.size(), -1, false};
    if (recent && penalties_ != 0) apply(penalties_, candidates);
    apply(sampler_, candidates);
    if (candidates.selected < 0 || candidates.selected >= static_cast<int64_t>(candidates.size)) return best.first;
    const Candidate& chosen = candidates.data[candidates.selected];
    return x[chosen.id] == -std::numeric_limits<float>::infinity() ? best.first : chosen.id;
  }

 private:
  void apply(uintptr_t sampler, CandidateArray& candidates) const {
    reinterpret_cast<Apply>(apply_)(reinterpret_cast<void*>(sampler), &candidates);
  }

  size_t size_;
  int64_t count_;
  uintptr_t apply_, sampler_, penalties_;
};

// llama_vocab_is_eog and llama_token_to_piece
using IsEnd = bool (*)(const void* vocabulary, int32_t token);
using ToPiece = int32_t (*)(const void* vocabulary, int32_t token, char* buffer, int32_t length, int32_t strip,
                            bool special);

std::pair<bool, nb::bytes> token_piece(uintptr_t vocabulary, uintptr_t is_end, uintptr_t to_piece, int32_t token,
                                       bool special) {
  const auto* const of = reinterpret_cast<const void*>(vocabulary);
  const auto read = [&](char* buffer, size_t room) {
    return reinterpret_cast<ToPiece>(to_piece)(of, token, buffer, static_cast<int32_t>(room), 0, special);
  };
  char few[64];
  const int32_t length = read(few, sizeof few);  // below 0: what it takes
  const bool ends = reinterpret_cast<IsEnd>(is_end)(of, token);
  if (length >= 0) return {ends, nb::bytes(few, static_cast<size_t>(length))};
  std::vector<char> many(static_cast<size_t>(-static_cast<int64_t>(length)));
  const int32_t second = read(many.data(), many.size());
  return {ends, nb::bytes(many.data(), static_cast<size_t>(std::max(0, second)))};
}

}  // namespace

void bind_logits(nb::module_& m) {
  m.def(
      "best_logits", &best_logits, nb::arg("logits"), nb::arg("count"), nb::arg("records").noconvert(),
      "The first largest of float32 `logits` (or the first NaN) and how many candidates were written to `records`, 12 "
      "bytes each as llama_token_data: at least the best `count`, by rising index; none where there is a NaN.");
  nb::class_<BestSampler>(
      m, "BestSampler",
      "A llama.cpp sampler that sees the best `count` of `size` logits, or a few more. `apply` is the address of "
      "llama_sampler_apply, `sampler` its first argument, 0: the best is taken. `penalties` is a sampler that comes "
      "before it where there are recent tokens, and changes only these.")
      .def(nb::init<int64_t, int64_t, uintptr_t, uintptr_t, uintptr_t>(), nb::arg("size"), nb::arg("count"),
           nb::arg("apply"), nb::arg("sampler") = 0, nb::arg("penalties") = 0)
      .def("sample", &BestSampler::sample, nb::arg("logits"), nb::arg("row") = 0, nb::arg("recent") = nb::none(),
           "The token that it takes of the first `size` logits of a row. The best of all where it takes none, or one "
           "of -inf; -1 where the best is no finite number. `recent`: int32, in any order; those outside the "
           "vocabulary are passed over.");
  m.def("token_piece", &token_piece, nb::arg("vocabulary"), nb::arg("is_end"), nb::arg("to_piece"), nb::arg("token"),
        nb::arg("special") = false,
        "Whether a token, which must be one of the llama_vocab, ends an answer, and its bytes, in one call: addresses "
        "of llama_vocab_is_eog and llama_token_to_piece.");
}

}  // namespace tessera
