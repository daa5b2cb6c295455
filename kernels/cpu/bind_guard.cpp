// GuardedRegion for Python: wraps a read-only mapping, and gives a view of it that keeps mapping and guard alive.
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>

#include "bindings.h"
#include "guarded_region.h"

namespace tessera {
namespace {

namespace nb = nanobind;
using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using View = nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>, nb::c_contig>;

struct GuardedBuffer {
  explicit GuardedBuffer(Bytes buffer) : bytes(std::move(buffer)), region(bytes.data(), bytes.size()) {}
  Bytes bytes;  // declared first: the guard goes before the mapping does
  GuardedRegion region;
};

}  // namespace

void bind_guard(nb::module_& m) {
  nb::class_<GuardedBuffer>(m, "GuardedRegion",
                            "Guards a page-aligned buffer: pages that cannot be read turn into zeros, and `lost` into "
                            "True, instead of ending the process.")
      .def(nb::init<Bytes>(), nb::arg("buffer"))
      .def_prop_ro("lost", [](const GuardedBuffer& self) { return self.region.lost(); })
      .def(
          "populate",
          [](const GuardedBuffer& self, size_t begin, size_t count) {
            if (begin > self.bytes.size() || count > self.bytes.size() - begin)
              throw std::invalid_argument("populate: outside the region");
            const uint8_t* const data = self.bytes.data() + begin;
            const nb::gil_scoped_release unlocked;
            populate_pages(data, count);
          },
          nb::arg("begin"), nb::arg("count"),
          "Maps the pages of bytes [begin, begin + count) at once, read from the disk where need be.")
      .def(
          "view",
          [](nb::handle self) {
            const auto& guarded = nb::cast<const GuardedBuffer&>(self);
            return View(guarded.bytes.data(), {guarded.bytes.size()}, self);
          },
          "The buffer as read-only uint8 array that keeps the guard alive.");
}

}  // namespace tessera
