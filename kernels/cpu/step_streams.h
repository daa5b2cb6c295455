// A step's tasks on streams, run without the interpreter: each stream is a thread, joined to the others by events. What
// a device without graphs of its own replays.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace tessera {

class StepStreams {
 public:
  using Function = void (*)(void*);
  struct Times {
    int64_t begin = 0, end = 0;  // nanoseconds of the steady clock
  };

  explicit StepStreams(int streams);
  ~StepStreams();
  StepStreams(const StepStreams&) = delete;
  StepStreams& operator=(const StepStreams&) = delete;

  // Appends function(data) to a stream, after the events `waits` and before `signals`; its number. Where a link would
  // take `seconds` for it, so does the task. Not while a step runs.
  int add(int stream, Function function, void* data, double seconds, std::vector<int> waits, std::vector<int> signals);
  int event();
  // Every task once, stream 0 in the calling thread; returns when all have ended. One call at a time.
  void run();

  const std::vector<Times>& times() const { return times_; }  // by task, of the last run
  double busy_seconds(int stream) const;

 private:
  struct Task {
    Function function;
    void* data;
    double seconds;
    std::vector<int> waits, signals;
    int number;
    double took = 0.0;  // the function alone, last time
  };
  struct Stream {
    std::vector<Task> tasks;
    double owed = 0.0;  // seconds that the link is behind: waits too short to sleep are saved up
    std::thread thread;
  };
  using Flag = std::atomic<uint32_t>;  // the number of the run in which it was last set

  void serve(Stream& stream);
  void replay(Stream& stream, uint32_t run);
  static void hold(Stream& stream, const Task& task);
  static void wait(const Flag& flag, uint32_t run);

  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Flag>> events_;
  std::vector<Times> times_;
  Flag run_{0}, ended_{0};  // ended_: streams that are done with the present run
  std::atomic<bool> quits_{false};
};

}  // namespace tessera
