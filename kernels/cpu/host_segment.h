// A part of a program as a host function: what cuLaunchHostFunc calls on a thread of the driver's, without Python.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "program.h"

namespace tessera {

// What changes from step to step, for all host segments of one graph. Set while none runs.
struct HostStep {
  const Batch* batch = nullptr;
  std::string error;           // of the first segment that failed; those after it do nothing
  std::vector<int64_t> times;  // begin and end of each segment that ran, nanoseconds of the steady clock

  double seconds() const;  // that the segments took
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
  // Before the run, expert numbers become their entries of `table`, which has `count`, or -1; as they were, they are
  // left in `noted`.
  void look_up(Handle value, const int32_t* table, int count, int32_t* noted, int rows, int width) {
    lookups_.push_back({value, table, count, noted, rows, width});
  }

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

  struct Lookup {
    Handle value;
    const int32_t* table;
    int count;
    int32_t* noted;
    int rows, width;
  };

  void run_step();
  void run_lookup(const Lookup& lookup);

  HostStep& step_;
  Program& program_;
  ThreadPool& pool_;
  const int begin_, end_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<Lookup> lookups_;
  std::vector<int32_t> places_;
};

// Host segments for drivers whose host functions are slow: a thread of our own watches flags in memory that a GPU
// writes to. When one is raised, it takes it down, runs what belongs to it and raises the answer. In order, once per
// step.
class FlagWorker {
 public:
  using Function = void (*)(void*);

  FlagWorker() : thread_([this] { serve(); }) {}
  ~FlagWorker() { close(); }
  FlagWorker(const FlagWorker&) = delete;
  FlagWorker& operator=(const FlagWorker&) = delete;

  // While no step runs. `flags`: the one that is watched, and behind it the answer.
  void add(Function function, void* data, uint32_t* flags) { tasks_.push_back({function, data, flags}); }
  void begin();   // a step is launched next
  void cancel();  // it was not: nobody will raise the flags. Returns when the thread waits again
  void close();   // ends the thread; afterwards nobody looks at the flags
  bool is_idle() const { return done_.load() == begun_.load(); }

 private:
  struct Task {
    Function function;
    void* data;
    uint32_t* flags;
  };

  void serve();
  bool watch(uint32_t* flag) const;  // false: the step was given up

  std::vector<Task> tasks_;
  std::atomic<uint32_t> begun_{0}, done_{0};  // steps
  std::atomic<bool> cancelled_{false}, quits_{false};
  std::thread thread_;  // last: it uses the others
};

// Copies between two memories of the host, as a host function.
class HostCopy {
 public:
  void add(void* to, const void* from, size_t size) { parts_.push_back({to, from, size}); }
  static void run(void* self) noexcept;

 private:
  struct Part {
    void* to;
    const void* from;
    size_t size;
  };
  std::vector<Part> parts_;
};

}  // namespace tessera
