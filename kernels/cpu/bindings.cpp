// The module kernels._cpu: assembles the parts, each bound in a file of its own.
#include "bindings.h"

#include <cstdint>

#include "cpu_features.h"

namespace {

void ignore_log(int, const char*, void*) {}

}  // namespace

NB_MODULE(_cpu, m) {
  m.doc() = "CPU kernels on raw memory";
  m.def(
      "best_tier", [] { return tessera::tier_name(tessera::best_tier()); },
      "Name of the best ISA tier this processor and operating system can run.");
  // For libraries that would otherwise call back into Python and wait there for the interpreter's lock.
  m.attr("IGNORE_LOG") = reinterpret_cast<uintptr_t>(&ignore_log);
  tessera::bind_matmul(m);
  tessera::bind_program(m);
  tessera::bind_host_segment(m);
  tessera::bind_guard(m);
  tessera::bind_scan(m);
  tessera::bind_logits(m);
  tessera::bind_use_counts(m);
  tessera::bind_probe(m);
}
