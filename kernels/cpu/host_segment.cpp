#include "host_segment.h"

#include <chrono>
#include <cstring>
#include <exception>
#include <stdexcept>

namespace tessera {
namespace {

int64_t now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

}  // namespace

void HostSegment::run(void* self) noexcept {
  HostSegment& segment = *static_cast<HostSegment*>(self);
  HostStep& step = segment.step_;
  if (!step.error.empty()) return;
  try {
    const int64_t began = now();
    segment.run_step();
    step.times.push_back(began);
    step.times.push_back(now());
  } catch (const std::exception& error) {
    try {
      step.error = error.what()[0] ? error.what() : "unknown";
    } catch (...) {
      step.error.assign(1, '?');  // fits without an allocation
    }
  }
}

void HostSegment::run_step() {
  if (step_.batch == nullptr) throw std::runtime_error("no batch was set");
  for (const Input& input : inputs_) program_.write(input.value, input.memory, input.rows, input.width, input.is_ids);
  {
    const Program::Claim claim(program_);
    program_.run(pool_, *step_.batch, begin_, end_);
  }
  for (const Output& output : outputs_) {
    const Program::Rows rows = program_.read(output.value);
    if (rows.rows != output.rows || rows.width != output.width)
      throw std::runtime_error("a value has " + std::to_string(rows.rows) + " rows, not " +
                               std::to_string(output.rows));
    std::memcpy(output.memory, rows.data,
                sizeof(float) * static_cast<size_t>(rows.rows) * static_cast<size_t>(rows.width));
  }
}

}  // namespace tessera
