#include "step_streams.h"

#include <chrono>
#include <utility>

namespace tessera {
namespace {

constexpr int kSpins = 2000;  // some microseconds: what a crossing of a few kilobytes takes
constexpr double kShortestSleep = 1e-4;

int64_t now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

}  // namespace

StepStreams::StepStreams(int streams) {
  for (int i = 0; i < streams; ++i) streams_.push_back(std::make_unique<Stream>());
  for (size_t i = 1; i < streams_.size(); ++i) streams_[i]->thread = std::thread([this, i] { serve(*streams_[i]); });
}

StepStreams::~StepStreams() {
  quits_.store(true);
  run_.fetch_add(1);
  run_.notify_all();
  for (const auto& stream : streams_)
    if (stream->thread.joinable()) stream->thread.join();
}

int StepStreams::event() {
  events_.push_back(std::make_unique<Flag>(0));
  return static_cast<int>(events_.size()) - 1;
}

int StepStreams::add(int stream, Function function, void* data, double seconds, std::vector<int> waits,
                     std::vector<int> signals) {
  for (const auto* const list : {&waits, &signals})
    for (const int event : *list) events_.at(static_cast<size_t>(event));  // throws where there is none
  const auto number = static_cast<int>(times_.size());
  times_.emplace_back();
  streams_.at(static_cast<size_t>(stream))
      ->tasks.push_back({function, data, seconds, std::move(waits), std::move(signals), number});
  return number;
}

void StepStreams::run() {
  const uint32_t run = run_.load() + 1;
  ended_.store(0);
  run_.store(run);
  run_.notify_all();
  replay(*streams_[0], run);
  const auto others = static_cast<uint32_t>(streams_.size()) - 1;
  for (uint32_t ended = ended_.load(); ended != others; ended = ended_.load()) ended_.wait(ended);
}

void StepStreams::serve(Stream& stream) {
  for (uint32_t seen = 0;;) {
    run_.wait(seen);
    const uint32_t run = run_.load();
    if (quits_.load()) return;
    if (run == seen) continue;
    seen = run;
    replay(stream, run);
    ended_.fetch_add(1);
    ended_.notify_all();
  }
}

void StepStreams::replay(Stream& stream, uint32_t run) {
  for (Task& task : stream.tasks) {
    for (const int event : task.waits) wait(*events_[static_cast<size_t>(event)], run);
    const int64_t began = now();
    if (task.seconds > 0) hold(stream, task);
    const int64_t copied = now();
    task.function(task.data);
    const int64_t ended = now();
    task.took = static_cast<double>(ended - copied) / 1e9;
    times_[static_cast<size_t>(task.number)] = {began, ended};
    for (const int event : task.signals) {
      Flag& flag = *events_[static_cast<size_t>(event)];
      flag.store(run);
      flag.notify_all();
    }
  }
}

// Before the copy, as long as the link takes beyond it: what is on its way cannot be seen yet.
void StepStreams::hold(Stream& stream, const Task& task) {
  stream.owed += task.seconds - task.took;
  if (stream.owed > kShortestSleep) {
    const int64_t before = now();
    std::this_thread::sleep_for(std::chrono::duration<double>(stream.owed));
    stream.owed -= static_cast<double>(now() - before) / 1e9;
  }
  if (stream.owed < -kShortestSleep) stream.owed = -kShortestSleep;
}

void StepStreams::wait(const Flag& flag, uint32_t run) {
  for (int spin = 0; spin < kSpins; ++spin)
    if (flag.load() == run) return;
  for (uint32_t value = flag.load(); value != run; value = flag.load()) flag.wait(value);
}

double StepStreams::busy_seconds(int stream) const {
  int64_t total = 0;
  for (const Task& task : streams_.at(static_cast<size_t>(stream))->tasks) {
    const Times& times = times_[static_cast<size_t>(task.number)];
    total += times.end - times.begin;
  }
  return static_cast<double>(total) / 1e9;
}

}  // namespace tessera
