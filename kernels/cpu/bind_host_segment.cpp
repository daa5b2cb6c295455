// Python's view of host segments: made and filled in here, run by a CUDA driver through `function` and `data`.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "host_segment.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera {
namespace {

struct HeldStep : HostStep {
  nb::object held;  // the batch
};

}  // namespace

void bind_host_segment(nb::module_& m) {
  nb::class_<HeldStep>(m, "HostStep")
      .def(nb::init<>())
      .def(
          "begin",
          [](HeldStep& self, const nb::object& batch) {
            self.batch = nb::cast<const Batch*>(batch);
            self.held = batch;
            self.error.clear();
            self.times.clear();
          },
          "batch"_a)
      .def_prop_ro("error", [](const HeldStep& self) { return self.error; })
      .def_prop_ro("times", [](const HeldStep& self) { return self.times; });

  nb::class_<HostSegment>(m, "HostSegment")
      .def(
          "__init__",
          [](HostSegment* self, HeldStep& step, Program& program, ThreadPool& pool, int begin, int end) {
            new (self) HostSegment(step, program, pool, begin, end);
          },
          "step"_a, "program"_a, "pool"_a, "begin"_a, "end"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(),
          nb::keep_alive<1, 4>())
      .def(
          "take",
          [](HostSegment& self, Handle value, uintptr_t memory, int rows, int width, bool is_ids) {
            self.take(value, reinterpret_cast<const void*>(memory), rows, width, is_ids);
          },
          "value"_a, "memory"_a, "rows"_a, "width"_a, "is_ids"_a)
      .def(
          "leave",
          [](HostSegment& self, Handle value, uintptr_t memory, int rows, int width) {
            self.leave(value, reinterpret_cast<void*>(memory), rows, width);
          },
          "value"_a, "memory"_a, "rows"_a, "width"_a)
      .def_prop_ro("function", [](const HostSegment&) { return reinterpret_cast<uintptr_t>(&HostSegment::run); })
      .def_prop_ro("data", [](const HostSegment& self) { return reinterpret_cast<uintptr_t>(&self); });
}

}  // namespace tessera
