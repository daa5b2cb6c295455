// Bounds-checked scan of length-prefixed strings (uint64 little-endian length, then the bytes) in a byte buffer.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bindings.h"

namespace tessera {
namespace {

namespace nb = nanobind;
using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Offsets = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;

uint64_t load_length(const uint8_t* p) {
  static_assert(std::endian::native == std::endian::little);
  uint64_t length;
  std::memcpy(&length, p, sizeof length);
  return length;
}

// The first byte after the string at `position`, or -1 where it does not fit in [0, size).
int64_t string_end(const uint8_t* data, int64_t size, int64_t position) {
  if (size - position < 8) return -1;
  const uint64_t length = load_length(data + position);
  if (length > static_cast<uint64_t>(size - position - 8)) return -1;
  return position + 8 + static_cast<int64_t>(length);
}

void check_position(const Bytes& buffer, int64_t position, int64_t count) {
  if (position < 0 || static_cast<uint64_t>(position) > buffer.size() || count < 0)
    throw std::out_of_range("position or count outside the buffer");
}

// Skips up to `count` strings from `position`; gives how many were whole and where the next one begins.
std::pair<int64_t, int64_t> skip_strings(Bytes buffer, int64_t position, int64_t count) {
  check_position(buffer, position, count);
  nb::gil_scoped_release unlocked;
  const uint8_t* data = buffer.data();
  const auto size = static_cast<int64_t>(buffer.size());
  int64_t done = 0;
  for (; done < count; ++done) {
    const int64_t end = string_end(data, size, position);
    if (end < 0) break;
    position = end;
  }
  return {done, position};
}

// offsets[i] is the first byte of string i's text; the text ends at offsets[i + 1] - 8.
Offsets string_offsets(Bytes buffer, int64_t position, int64_t count) {
  check_position(buffer, position, count);
  const auto size = static_cast<int64_t>(buffer.size());
  if (count > (size - position) / 8) throw std::out_of_range("more strings than the buffer can hold");
  auto offsets = std::make_unique<int64_t[]>(static_cast<size_t>(count) + 1);
  for (int64_t i = 0; i < count; ++i) {
    offsets[i] = position + 8;
    position = string_end(buffer.data(), size, position);
    if (position < 0) throw std::out_of_range("a string ends outside the buffer");
  }
  offsets[count] = position + 8;
  int64_t* raw = offsets.release();
  nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<int64_t*>(p); });
  return Offsets(raw, {static_cast<size_t>(count) + 1}, owner);
}

// A text that is searched for many short strings.
class Searched {
 public:
  explicit Searched(const Bytes& text)
      : text_(reinterpret_cast<const char*>(text.data()), text.size()), before_(text.size(), -1) {
    last_.fill(-1);
    for (size_t at = 0; at + 4 <= text_.size(); ++at) {
      int64_t& last = last_[bucket(text_.data() + at)];
      before_[at] = last;
      last = static_cast<int64_t>(at);
    }
  }

  bool holds(std::string_view wanted) const {
    if (wanted.size() < 4) return text_.find(wanted) != std::string_view::npos;
    for (int64_t at = last_[bucket(wanted.data())]; at >= 0; at = before_[static_cast<size_t>(at)])
      if (text_.substr(static_cast<size_t>(at), wanted.size()) == wanted) return true;
    return false;
  }

 private:
  static constexpr int kBits = 16;

  // Of four bytes, since two would be the same ones in every token that begins a word.
  static size_t bucket(const char* bytes) {
    uint32_t four;
    std::memcpy(&four, bytes, sizeof four);
    return four * 2654435761u >> (32 - kBits);  // Knuth's multiplicative hash
  }

  std::string_view text_;
  std::vector<int64_t> before_;  // of each place, the one before it in the same bucket
  std::array<int64_t, 1 << kBits> last_;
};

// Which strings of two bytes or more occur in `text`; of `pairs`, those whose words do without the space between them.
Offsets strings_within(Bytes buffer, int64_t position, int64_t count, Bytes text, bool pairs) {
  check_position(buffer, position, count);
  std::vector<int64_t> found;
  {
    nb::gil_scoped_release unlocked;
    const auto searched = std::make_unique<const Searched>(text);
    const uint8_t* data = buffer.data();
    std::string joined;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t end = string_end(data, static_cast<int64_t>(buffer.size()), position);
      if (end < 0) throw std::out_of_range("a string ends outside the buffer");
      std::string_view wanted(reinterpret_cast<const char*>(data) + position + 8,
                              static_cast<size_t>(end - position - 8));
      position = end;
      if (wanted.size() > text.size() + (pairs ? 1 : 0)) continue;
      if (pairs) {
        const size_t space = wanted.find(' ', 1);
        if (space == std::string_view::npos) continue;
        joined.assign(wanted.substr(0, space)).append(wanted.substr(space + 1));
        wanted = joined;
      }
      if (wanted.size() >= 2 && searched->holds(wanted)) found.push_back(i);
    }
  }
  auto indices = std::make_unique<int64_t[]>(found.size() + 1);
  std::copy(found.begin(), found.end(), indices.get());
  int64_t* raw = indices.release();
  nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<int64_t*>(p); });
  return Offsets(raw, {found.size()}, owner);
}

}  // namespace

void bind_scan(nb::module_& m) {
  m.def("skip_strings", &skip_strings, nb::arg("buffer"), nb::arg("position"), nb::arg("count"),
        "Skip up to `count` length-prefixed strings: (how many were whole, position of the next).");
  m.def("string_offsets", &string_offsets, nb::arg("buffer"), nb::arg("position"), nb::arg("count"),
        "int64 [count + 1]: text i is buffer[o[i] : o[i + 1] - 8]. IndexError where the buffer is too short.");
  m.def("strings_within", &strings_within, nb::arg("buffer"), nb::arg("position"), nb::arg("count"), nb::arg("text"),
        nb::arg("pairs"),
        "int64: which of the strings, of two bytes or more, occur in `text`; of `pairs`, those whose words do without "
        "the first space after their first byte. IndexError where the buffer is too short.");
}

}  // namespace tessera
