// Python's view of host segments: made and filled in here, run by a CUDA driver through `function` and `data`.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "host_segment.h"
#include "step_streams.h"

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
      .def_prop_ro("times", [](const HeldStep& self) { return self.times; })
      .def_prop_ro("seconds", [](const HeldStep& self) { return self.seconds(); });

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
      .def(
          "look_up",
          [](HostSegment& self, Handle value, uintptr_t table, int count, uintptr_t noted, int rows, int width) {
            self.look_up(value, reinterpret_cast<const int32_t*>(table), count, reinterpret_cast<int32_t*>(noted), rows,
                         width);
          },
          "value"_a, "table"_a, "count"_a, "noted"_a, "rows"_a, "width"_a)
      .def_prop_ro("function", [](const HostSegment&) { return reinterpret_cast<uintptr_t>(&HostSegment::run); })
      .def_prop_ro("data", [](const HostSegment& self) { return reinterpret_cast<uintptr_t>(&self); });

  nb::class_<FlagWorker>(m, "FlagWorker")
      .def(nb::init<>())
      .def(
          "add",
          [](FlagWorker& self, uintptr_t function, uintptr_t data, uintptr_t flags) {
            self.add(reinterpret_cast<FlagWorker::Function>(function), reinterpret_cast<void*>(data),
                     reinterpret_cast<uint32_t*>(flags));
          },
          "function"_a, "data"_a, "flags"_a)
      .def("begin", &FlagWorker::begin)
      .def("cancel", &FlagWorker::cancel, nb::call_guard<nb::gil_scoped_release>())
      .def("close", &FlagWorker::close, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("is_idle", &FlagWorker::is_idle);

  nb::class_<HostCopy>(m, "HostCopy")
      .def(nb::init<>())
      .def(
          "add",
          [](HostCopy& self, uintptr_t to, uintptr_t from, size_t size) {
            self.add(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), size);
          },
          "to"_a, "source"_a, "size"_a)
      .def_prop_ro("function", [](const HostCopy&) { return reinterpret_cast<uintptr_t>(&HostCopy::run); })
      .def_prop_ro("data", [](const HostCopy& self) { return reinterpret_cast<uintptr_t>(&self); });

  nb::class_<StepStreams>(m, "StepStreams")
      .def(nb::init<int>(), "streams"_a)
      .def("event", &StepStreams::event)
      .def(
          "add",
          [](StepStreams& self, int stream, uintptr_t function, uintptr_t data, double seconds, std::vector<int> waits,
             std::vector<int> signals) {
            return self.add(stream, reinterpret_cast<StepStreams::Function>(function), reinterpret_cast<void*>(data),
                            seconds, std::move(waits), std::move(signals));
          },
          "stream"_a, "function"_a, "data"_a, "seconds"_a, "waits"_a, "signals"_a)
      .def("run", &StepStreams::run, nb::call_guard<nb::gil_scoped_release>())
      .def("busy_seconds", &StepStreams::busy_seconds, "stream"_a)
      .def_prop_ro("times", [](const StepStreams& self) {
        std::vector<std::pair<double, double>> seconds;
        for (const StepStreams::Times& t : self.times())
          seconds.emplace_back(static_cast<double>(t.begin) / 1e9, static_cast<double>(t.end) / 1e9);
        return seconds;
      });
}

}  // namespace tessera
