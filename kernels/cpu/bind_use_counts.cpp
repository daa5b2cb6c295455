// Decayed counts of what is used of several rows of things, few of which have a place: counted, and compared for who
// should have one, between any two tokens.
//
// NumPy takes some thirty calls for this. After a decode step, which leaves nothing in the caches, they cost tens of
// microseconds each: see tests/bench/scheduler_overhead.py.
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera {
namespace {

using Ints = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Uses = nb::ndarray<const int32_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Swap = std::tuple<int, int, int>;

class UseCounts {
 public:
  // A row for each of `counts`, which says how many things it has.
  explicit UseCounts(std::vector<int> counts) : counts_(std::move(counts)), capacities_(counts_.size(), 0) {
    for (const int count : counts_) {
      if (count < 0 || count > (1 << 20)) throw std::invalid_argument("a row has 0..1048576 things");
      width_ = std::max(width_, static_cast<size_t>(count));
    }
    values_.assign(counts_.size() * width_, 0.0f);
    pins_ = recorded_ = values_;
    places_.assign(values_.size(), -1);
  }

  // Of a row: each thing's place or -1, of `capacity` places.
  void set_places(size_t row, const Ints& places, int capacity) {
    if (capacity < 0 || capacity > (1 << 20) || places.size() != static_cast<size_t>(counts_.at(row)))
      throw std::invalid_argument("a place for each thing");
    for (size_t i = 0; i < places.size(); ++i)
      if (places.data()[i] < -1 || places.data()[i] >= capacity) throw std::invalid_argument("there is no such place");
    std::copy_n(places.data(), places.size(), &places_[row * width_]);
    capacities_[row] = capacity;
  }

  // What is used, [rows, …]; everything before counts `decay` times. How many have a place.
  int note(const Ints& rows, const Uses& used, float decay) {
    if (used.shape(0) != rows.size()) throw std::invalid_argument("uses for each row");
    const size_t each = used.shape(1) * used.shape(2);
    for (size_t i = 0; i < used.size(); ++i) {
      const int count = counts_[checked(rows.data()[i / each])], thing = used.data()[i];
      if (thing < 0 || thing >= count)
        throw std::out_of_range(std::to_string(thing) + " is none of " + std::to_string(count) + " things");
    }
    if (decay != 1.0f)
      for (float& value : values_) value *= decay;
    int placed = 0;
    for (size_t i = 0; i < used.size(); ++i) {
      const size_t at = static_cast<size_t>(rows.data()[i / each]) * width_ + static_cast<size_t>(used.data()[i]);
      values_[at] += 1.0f;
      recorded_[at] += 1.0f;
      placed += places_[at] >= 0;
    }
    return placed;
  }

  // Up to `limit` exchanges that pay, the best first, one per row at most: index into `rows`, the most used thing
  // without a place, and the place that it should have: an empty one, or that of the least used. It pays to have been
  // used by `margin` more than `advantage` times as much.
  std::vector<Swap> swaps(const Ints& rows, int limit, double advantage, double margin) const {
    std::vector<std::tuple<double, int, int>> wanted;  // -value, index, thing
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t row = checked(rows.data()[i]);
      int best = -1;
      for (int c = 0; c < counts_[row]; ++c)
        if (places_[row * width_ + static_cast<size_t>(c)] < 0 && (best < 0 || value(row, c) > value(row, best)))
          best = c;
      if (best >= 0 && value(row, best) > margin && capacities_[row] > 0)
        wanted.emplace_back(-value(row, best), static_cast<int>(i), best);
    }
    const auto end = wanted.begin() + std::min<std::ptrdiff_t>(std::max(limit, 0), std::ssize(wanted));
    std::partial_sort(wanted.begin(), end, wanted.end());
    std::vector<std::pair<double, Swap>> found;
    for (auto it = wanted.begin(); it != end; ++it) {
      const auto [negative, index, thing] = *it;
      const auto [place, least] = least_used(static_cast<size_t>(rows.data()[index]));
      if (-negative > least * advantage + margin) found.push_back({-negative - least, {index, thing, place}});
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<Swap> swaps;
    for (const auto& pair : found) swaps.push_back(pair.second);
    return swaps;
  }

  template <class Scalar>
  static auto view(std::vector<Scalar> UseCounts::* member) {
    return [member](nb::handle_t<UseCounts> self) {
      auto& counts = nb::cast<UseCounts&>(self);
      const size_t shape[2] = {counts.counts_.size(), counts.width_};
      return nb::cast(nb::ndarray<nb::numpy, Scalar>((counts.*member).data(), 2, shape, self));
    };
  }

  std::vector<int> counts_, capacities_;
  size_t width_ = 0;
  std::vector<float> values_, pins_, recorded_;
  std::vector<int32_t> places_;

 private:
  double value(size_t row, int thing) const {
    const size_t at = row * width_ + static_cast<size_t>(thing);
    return values_[at] + pins_[at];
  }

  size_t checked(int row) const {
    if (row < 0 || static_cast<size_t>(row) >= counts_.size()) throw std::out_of_range("there is no such row");
    return static_cast<size_t>(row);
  }

  // The place to give up, the lowest of those alike, and how much what is there was used.
  std::pair<int, double> least_used(size_t row) const {
    std::vector<int> things(static_cast<size_t>(capacities_[row]), -1);
    for (int c = 0; c < counts_[row]; ++c) {
      const int place = places_[row * width_ + static_cast<size_t>(c)];
      if (place >= 0) things[static_cast<size_t>(place)] = c;
    }
    int coldest = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int place = 0; place < capacities_[row]; ++place) {
      const int thing = things[static_cast<size_t>(place)];
      if (thing < 0) return {place, 0.0};
      if (value(row, thing) < least) coldest = place, least = value(row, thing);
    }
    return {coldest, std::max(0.0, least)};
  }
};

}  // namespace

void bind_use_counts(nb::module_& m) {
  nb::class_<UseCounts>(m, "UseCounts")
      .def(nb::init<std::vector<int>>(), "counts"_a)
      .def("set_places", &UseCounts::set_places, "row"_a, "places"_a, "capacity"_a)
      .def("note", &UseCounts::note, "rows"_a, "used"_a, "decay"_a)
      .def("swaps", &UseCounts::swaps, "rows"_a, "limit"_a, "advantage"_a, "margin"_a)
      .def_prop_ro("values", UseCounts::view(&UseCounts::values_))
      .def_prop_ro("pins", UseCounts::view(&UseCounts::pins_))
      .def_prop_ro("recorded", UseCounts::view(&UseCounts::recorded_))
      .def_prop_ro("places", UseCounts::view(&UseCounts::places_));
}

}  // namespace tessera
