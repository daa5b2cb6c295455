#include "thread_pool.h"

#include <chrono>
#include <stdexcept>
#include <string>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif
#if defined(_WIN32)
#include <process.h>
#else
#include <unistd.h>
#endif
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace tessera {
namespace {

int current_process() {
#if defined(_WIN32)
  return _getpid();
#else
  return static_cast<int>(getpid());
#endif
}

inline void pause() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

int current_processor() {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

std::vector<int> allowed_processors() {
  std::vector<int> found;
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) found.push_back(i);
#endif
  return found;
}

}  // namespace

ThreadPool::ThreadPool(int threads, int spin_microseconds, bool pin)
    : threads_(threads), spin_microseconds_(spin_microseconds), pin_(pin), owner_process_(current_process()) {
  if (threads < 1 || threads > 1024)
    throw std::invalid_argument("threads must be 1..1024, not " + std::to_string(threads));
  if (spin_microseconds < 0 || spin_microseconds > 1000000)
    throw std::invalid_argument("spin_microseconds must be 0..1000000, not " + std::to_string(spin_microseconds));
  places_ = std::make_unique<Place[]>(static_cast<size_t>(threads));
  if (pin) processors_ = allowed_processors();
  workers_.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (...) {  // the system refused a thread: end those that started
    stopping_ = true;
    region_.fetch_add(1);
    region_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  if (current_process() != owner_process_) {  // a forked child has no workers to join
    for (std::thread& worker : workers_) worker.detach();
    return;
  }
  stopping_.store(true, std::memory_order_relaxed);
  region_.fetch_add(1, std::memory_order_release);
  region_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(Body body, void* context) {
  if (current_process() != owner_process_)
    throw std::runtime_error("this thread pool was made before a fork; make a new one in the child process");
  if (busy_.exchange(true, std::memory_order_acquire))
    throw std::runtime_error("this thread pool already runs something; it serves one caller at a time");
#if defined(__linux__)
  cpu_set_t before;
  const bool restore = pin_ && sched_getaffinity(0, sizeof before, &before) == 0;
#endif
  if (pin_) pin_current(0);
  body_ = body;
  context_ = context;
  if (threads_ > 1) {
    places_[0].processor.store(current_processor(), std::memory_order_relaxed);
    region_.fetch_add(1, std::memory_order_release);
    region_.notify_all();
  }
  body(context, 0);
  barrier(0);
#if defined(__linux__)
  if (restore) sched_setaffinity(0, sizeof before, &before);
#endif
  busy_.store(false, std::memory_order_release);
}

void ThreadPool::work(int thread) {
  if (pin_) pin_current(thread);
  for (int seen = 0;;) {
    wait_while(region_, seen, thread, [&] {
      const int here = current_processor();
      return here >= 0 && places_[0].processor.load(std::memory_order_relaxed) == here;
    });
    ++seen;  // the caller waits for every worker, so no region can be missed
    if (stopping_.load(std::memory_order_relaxed)) return;
    body_(context_, thread);
    barrier(thread);
  }
}

// A part that was last touched in another phase has not been begun in this one: no barrier has to reset all of them.
int64_t ThreadPool::next(int part) noexcept {
  const uint64_t phase = static_cast<uint64_t>(static_cast<uint32_t>(generation_.load(std::memory_order_relaxed)))
                         << 32;
  std::atomic<uint64_t>& taken = places_[part].taken;
  uint64_t found = taken.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t number = found >> 32 == phase >> 32 ? found & 0xffffffff : 0;
    if (taken.compare_exchange_weak(found, phase | (number + 1), std::memory_order_relaxed))
      return static_cast<int64_t>(number);
  }
}

void ThreadPool::barrier(int thread) noexcept {
  const int generation = generation_.load(std::memory_order_relaxed);
  if (threads_ > 1) {
    places_[thread].processor.store(current_processor(), std::memory_order_relaxed);
    places_[thread].arrival.store(generation + 1, std::memory_order_relaxed);
  }
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    counter_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    if (threads_ > 1) generation_.notify_all();
  } else {
    wait_while(generation_, generation, thread, [&] { return waits_for_own_processor(thread, generation + 1); });
  }
}

// Whether a thread that has not reached the barrier yet was last seen where this one runs.
bool ThreadPool::waits_for_own_processor(int thread, int arrival) const noexcept {
  const int here = current_processor();
  for (int i = 0; i < threads_; ++i)
    if (i != thread && places_[i].processor.load(std::memory_order_relaxed) == here &&
        places_[i].arrival.load(std::memory_order_relaxed) != arrival)
      return here >= 0;
  return false;
}

template <class Crowded>
void ThreadPool::wait_while(const std::atomic<int>& word, int old, int thread, Crowded&& crowded) noexcept {
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline;
  for (int turn = 1;; ++turn) {
    if (word.load(std::memory_order_acquire) != old) return;
    pause();
    if (turn % 32 != 0) continue;  // looking around costs as much as several turns
    if (crowded()) break;
    if (turn == 32) deadline = Clock::now() + std::chrono::microseconds(spin_microseconds_);
    if (Clock::now() >= deadline) break;
  }
  while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
  places_[thread].processor.store(current_processor(), std::memory_order_relaxed);
}

void ThreadPool::pin_current(int thread) const {
#if defined(__linux__)
  if (processors_.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processors_[static_cast<size_t>(thread) % processors_.size()], &set);
  sched_setaffinity(0, sizeof set, &set);
#else
  (void)thread;
#endif
}

}  // namespace tessera
