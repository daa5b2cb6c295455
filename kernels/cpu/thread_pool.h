// A fixed team of threads that runs one parallel region at a time.
//
// The caller takes part as thread 0. Inside a region, work is handed out by one shared counter (`next`) and phases are
// separated by `barrier`, which also resets the counter. A waiting thread spins for a set time at most, then parks, so
// an idle pool costs nothing; it parks at once where a thread it waits for was last seen on its own processor, because
// on a busy machine two threads may share one, and spinning would only keep the other from running.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace tessera {

class ThreadPool {
 public:
  using Body = void (*)(void* context, int thread) noexcept;

  // threads in [1, 1024]; spin_microseconds in [0, 1000000]. `pin` ties thread i to the i-th processor this process
  // may use (the caller only while a region runs). Throws std::invalid_argument.
  ThreadPool(int threads, int spin_microseconds, bool pin);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Runs body(context, thread) on every thread and returns when all have returned. Throws std::runtime_error when
  // another region runs, or in a child process forked after construction (its workers do not exist there).
  void run(Body body, void* context);

  // For use inside a region: the next number 0, 1, 2, … of this phase.
  int64_t next() noexcept { return counter_.fetch_add(1, std::memory_order_relaxed); }
  // The same of one part of the phase's work: each thread has a part, and helps with others' when its own is done.
  int64_t next(int part) noexcept;
  // For use inside a region by `thread`: returns when all threads have arrived; all their writes are then visible.
  void barrier(int thread) noexcept;

 private:
  void work(int thread);
  template <class Crowded>
  void wait_while(const std::atomic<int>& word, int old, int thread, Crowded&& crowded) noexcept;
  bool waits_for_own_processor(int thread, int arrival) const noexcept;
  void pin_current(int thread) const;

  struct alignas(64) Place {
    std::atomic<int> processor{-1};  // where the thread was last seen
    std::atomic<int> arrival{0};     // the last barrier it has reached
    std::atomic<uint64_t> taken{0};  // of its part: the phase, and how much of it in the lower half
  };

  const int threads_;
  const int spin_microseconds_;
  const bool pin_;
  const int owner_process_;
  std::vector<int> processors_;
  std::unique_ptr<Place[]> places_;
  std::vector<std::thread> workers_;
  Body body_ = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> busy_{false};
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<int> region_{0};
  alignas(64) std::atomic<int64_t> counter_{0};
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<int> generation_{0};
};

}  // namespace tessera
