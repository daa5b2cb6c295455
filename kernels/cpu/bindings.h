#pragma once
#include <nanobind/nanobind.h>

namespace tessera {

void bind_matmul(nanobind::module_& m);        // quantised products and dequantisation, for tests and probes
void bind_program(nanobind::module_& m);       // thread pool and program interpreter
void bind_guard(nanobind::module_& m);         // memory whose backing may vanish
void bind_scan(nanobind::module_& m);          // bounds-checked scan of length-prefixed string arrays
void bind_logits(nanobind::module_& m);        // the best of a vocabulary's logits, for samplers
void bind_use_counts(nanobind::module_& m);    // decayed counts of uses, and who should have a place
void bind_probe(nanobind::module_& m);         // speed limits of this machine, measured
void bind_host_segment(nanobind::module_& m);  // parts of programs that a CUDA driver calls

}  // namespace tessera
