// A part of a program as a host function: what cuLaunchHostFunc calls on a thread of the driver's, without Python.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "program.h"

namespace tessera {

// What changes from step to step, for all host segments of one graph. Set while none runs.
struct HostStep {
  const Batch* batch = nullptr;
  std::string error;           // of the first segment that failed; those after it do nothing
  std::vector<int64_t> times;  // begin and end of each segment that ran, nanoseconds of the steady clock
};

class HostSegment {
 public:
  HostSegment(HostStep& step, Program& program, ThreadPool& pool, int begin, int end)
      : step_(step), program_(program), pool_(pool), begin_(begin), end_(end) {}

  // Before the run, `rows` rows of the value are taken from `memory`; after it, they are left there.
  void take(Handle value, const void* memory, int rows, int width, bool is_ids) {
    inputs_.push_back({value, memory, rows, width, is_ids});
  }
  void leave(Handle value, void* memory, int rows, int width) { outputs_.push_back({value, memory, rows, width}); }

  static void run(void* self) noexcept;

 private:
  struct Input {
    Handle value;
    const void* memory;
    int rows, width;
    bool is_ids;
  };
  struct Output {
    Handle value;
    void* memory;
    int rows, width;
  };

  void run_step();

  HostStep& step_;
  Program& program_;
  ThreadPool& pool_;
  const int begin_, end_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
};

}  // namespace tessera
