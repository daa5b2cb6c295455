#include "host_segment.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <stdexcept>

namespace tessera {
namespace {

constexpr int kSpinsBeforeYielding = 10000;  // some 10 µs

int64_t now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

}  // namespace

double HostStep::seconds() const {
  int64_t total = 0;
  for (size_t i = 1; i < times.size(); i += 2) total += times[i] - times[i - 1];
  return static_cast<double>(total) / 1e9;
}

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
  for (const Lookup& lookup : lookups_) run_lookup(lookup);
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

void HostSegment::run_lookup(const Lookup& lookup) {
  const auto count = static_cast<size_t>(lookup.rows) * static_cast<size_t>(lookup.width);
  const auto came =
      std::find_if(inputs_.begin(), inputs_.end(), [&](const Input& i) { return i.value == lookup.value; });
  if (came != inputs_.end()) {
    std::memcpy(lookup.noted, came->memory, sizeof(int32_t) * count);
  } else {
    const Program::Rows rows = program_.read(lookup.value);
    if (rows.rows != lookup.rows || rows.width != lookup.width)
      throw std::runtime_error("expert numbers have " + std::to_string(rows.rows) + " rows, not " +
                               std::to_string(lookup.rows));
    std::memcpy(lookup.noted, rows.data, sizeof(int32_t) * count);
  }
  places_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const int32_t expert = lookup.noted[i];
    places_[i] = expert >= 0 && expert < lookup.count ? lookup.table[expert] : -1;
  }
  program_.write(lookup.value, places_.data(), lookup.rows, lookup.width, true);
}

void FlagWorker::close() {
  if (!thread_.joinable()) return;
  cancel();
  quits_.store(true);
  begun_.fetch_add(1);
  begun_.notify_all();
  thread_.join();
}

void FlagWorker::begin() {
  cancelled_.store(false);
  begun_.fetch_add(1);
  begun_.notify_all();
}

void FlagWorker::cancel() {
  if (!thread_.joinable()) return;
  cancelled_.store(true);
  for (uint32_t done = done_.load(); done != begun_.load(); done = done_.load()) done_.wait(done);
  for (const Task& task : tasks_)
    for (int i = 0; i < 2; ++i) std::atomic_ref<uint32_t>(task.flags[i]).store(0);
}

void FlagWorker::serve() {
  for (uint32_t step = 0;; done_.store(++step), done_.notify_all()) {
    begun_.wait(step);
    if (quits_.load()) return;
    for (const Task& task : tasks_) {
      if (!watch(task.flags)) break;
      std::atomic_ref<uint32_t>(task.flags[0]).store(0, std::memory_order_relaxed);
      task.function(task.data);
      std::atomic_ref<uint32_t>(task.flags[1]).store(1, std::memory_order_release);
    }
  }
}

bool FlagWorker::watch(uint32_t* flag) const {
  const std::atomic_ref<uint32_t> watched(*flag);
  for (int spins = 0; watched.load(std::memory_order_acquire) == 0; ++spins) {
    if (cancelled_.load(std::memory_order_relaxed)) return false;
    if (spins > kSpinsBeforeYielding) std::this_thread::yield();
  }
  return true;
}

void HostCopy::run(void* self) noexcept {
  for (const Part& part : static_cast<HostCopy*>(self)->parts_) std::memcpy(part.to, part.from, part.size);
}

}  // namespace tessera
