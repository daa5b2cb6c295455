// Bounds-checked scan of length-prefixed strings (uint64 little-endian length, then the bytes) in a byte buffer.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>

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

}  // namespace

void bind_scan(nb::module_& m) {
  m.def("skip_strings", &skip_strings, nb::arg("buffer"), nb::arg("position"), nb::arg("count"),
        "Skip up to `count` length-prefixed strings: (how many were whole, position of the next).");
  m.def("string_offsets", &string_offsets, nb::arg("buffer"), nb::arg("position"), nb::arg("count"),
        "int64 [count + 1]: text i is buffer[o[i] : o[i + 1] - 8]. IndexError where the buffer is too short.");
}

}  // namespace tessera
