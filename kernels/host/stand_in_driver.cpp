// The part of the CUDA driver API that kernels/cuda/driver.py calls, and what an engine needs around it, over the
// host's kernels: so that this layer is tested without a GPU. Each stream is a thread: work is asynchronous, host
// functions run off the caller's thread, and a capture records instead of running. A graph runs its nodes one by one,
// of those whose dependencies are done the last captured, or a random one: an order that was only accidental shows.
// Images are not read: functions are found by name in this library. "Device" memory is host memory. A failed kernel
// poisons the context, as on a GPU. Calls need a current context, memory is limited and counted, fresh memory is 0xff
// and what is not mapped cannot be touched. stand_in_* are for tests: limits, failures, counts.
#include "stand_in_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using Task = std::function<void()>;
using Entry = const char* (*)(unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void**);

std::mutex& failure_mutex = *new std::mutex;
std::string& failure = *new std::string;
int sticky = kSuccess;
std::atomic<unsigned> graph_order{0};

}  // namespace

int status() {
  const std::lock_guard<std::mutex> lock(failure_mutex);
  return sticky;
}
namespace {

void note_failure(const char* text) {
  const std::lock_guard<std::mutex> lock(failure_mutex);
  if (sticky) return;
  failure = text;
  sticky = kLaunchFailed;
}

using Frontier = std::vector<size_t>;  // the nodes that a next one depends on
struct Node {
  Task task;
  Frontier after;
};
struct Graph {
  std::vector<Node> nodes;

  void run() const {
    std::vector<bool> done(nodes.size(), false);
    unsigned random = graph_order;
    for (size_t left = nodes.size(); left > 0; --left) {
      std::vector<size_t> ready;
      for (size_t i = 0; i < nodes.size(); ++i) {
        const Frontier& after = nodes[i].after;
        if (!done[i] && std::all_of(after.begin(), after.end(), [&](size_t n) { return done[n]; })) ready.push_back(i);
      }
      random ^= random << 13, random ^= random >> 17, random ^= random << 5;
      const size_t i = random ? ready[random % ready.size()] : ready.back();
      nodes[i].task();
      done[i] = true;
    }
  }
  bool all_lead_to(const Frontier& end) const {
    std::vector<bool> leads(nodes.size(), false);
    for (const size_t n : end) leads[n] = true;
    for (size_t i = nodes.size(); i-- > 0;)
      if (leads[i])
        for (const size_t n : nodes[i].after) leads[n] = true;
    return std::find(leads.begin(), leads.end(), false) == leads.end();
  }
};
struct Function {
  Entry entry;
  const unsigned* sizes;
};

// A point in the order of a stream, or of the graph that was captured when it was recorded.
struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0, reached = 0;
  std::chrono::steady_clock::time_point at;  // when it was reached last
  Graph* graph = nullptr;
  Frontier frontier;

  void reach(uint64_t ticket) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (ticket > reached) reached = ticket;
    at = std::chrono::steady_clock::now();
    changed.notify_all();
  }
  void wait(uint64_t ticket) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return reached >= ticket; });
  }
};

class Stream {
 public:
  Graph* capture = nullptr;
  Frontier frontier;
  bool is_origin = false;  // where the capture began, and must end

  Stream() : worker_([this] { run(); }) { all().push_back(this); }
  ~Stream() {
    std::erase(all(), this);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      quit_ = true;
      changed_.notify_all();
    }
    worker_.join();
  }
  int add(Task task) {
    if (capture) {
      capture->nodes.push_back({std::move(task), frontier});
      frontier = {capture->nodes.size() - 1};
    } else {
      const std::lock_guard<std::mutex> lock(mutex_);
      queue_.push_back(std::move(task));
      changed_.notify_all();
    }
    return status();
  }
  int synchronize() {
    if (capture) return kCaptureUnsupported;
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
    return status();
  }

  static std::vector<Stream*>& all() {  // created, captured and destroyed by one thread
    static auto& streams = *new std::vector<Stream*>;
    return streams;
  }

 private:
  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return quit_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const Task task = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      task();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  bool busy_ = false, quit_ = false;
  std::thread worker_;
};

Stream& stream_of(Stream* stream) {
  static Stream& legacy = *new Stream;
  return stream ? *stream : legacy;
}

void* this_library() {
  static void* const handle = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&stream_of), &info);
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  return handle;
}

std::vector<uint64_t> copy_arguments(const unsigned* sizes, void** params) {
  std::vector<uint64_t> values;
  for (; *sizes; ++sizes) {
    values.push_back(0);
    std::memcpy(&values.back(), *params++, *sizes);
  }
  return values;
}

}  // namespace

// 0: of a graph's nodes that may run, the last captured; else any, seeded so.
API stand_in_set_graph_order(unsigned order) { return graph_order = order, kSuccess; }

API cuInit(unsigned) { return kSuccess; }
API cuGetErrorString(int code, const char** text) {
  static thread_local std::string copy;
  const std::lock_guard<std::mutex> lock(failure_mutex);
  copy = code == kLaunchFailed         ? failure
         : code == kCaptureUnsupported ? "operation not permitted when stream is capturing"
         : code == kCaptureUnjoined    ? "capture was not joined to the original stream"
         : code == kNotFound           ? "named symbol not found"
         : code == kOutOfMemory        ? "out of memory"
         : code == kInvalidContext     ? "invalid device context"
                                       : "invalid argument";
  *text = copy.c_str();
  return kSuccess;
}
API cuModuleLoadData(void** module, const void* image) {
  COUNTED;
  return *module = this_library(), image ? kSuccess : kInvalidValue;
}
API cuModuleUnload(void*) { return kSuccess; }
API cuModuleGetFunction(Function** function, void* module, const char* name) {
  const auto find = [&](const char* end) { return dlsym(module, (name + std::string(end)).c_str()); };
  void* const entry = find("_host");
  if (!entry) return kNotFound;
  *function = new Function{reinterpret_cast<Entry>(entry), reinterpret_cast<const unsigned* (*)()>(find("_sizes"))()};
  return kSuccess;
}
API cuFuncSetAttribute(Function*, int, int value) { return value <= 64 << 10 ? kSuccess : kInvalidValue; }  // Turing's
API cuLaunchKernel(Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, Stream* stream, void** params, void**) {
  COUNTED;
  return stream_of(stream).add([=, values = copy_arguments(f->sizes, params)] {
    auto mine = values;  // a kernel may write to its parameters, and a graph runs again
    std::vector<void*> args;
    for (uint64_t& value : mine) args.push_back(&value);
    if (status()) return;
    if (const char* error = f->entry(gx, gy, gz, bx, by, bz, shared, 0, args.data())) note_failure(error);
  });
}
API cuLaunchHostFunc(Stream* stream, void (*function)(void*), void* data) {
  COUNTED;
  return stream_of(stream).add([=] { function(data); });
}

API cuMemcpyAsync(void* to, const void* from, size_t size, Stream* stream) {
  COUNTED;
  return stream_of(stream).add([=] { std::memcpy(to, from, size); });
}
API cuMemcpyHtoD_v2(void* to, const void* from, size_t size) {
  COUNTED;
  return std::memcpy(to, from, size), status();
}
API cuMemcpyDtoH_v2(void* to, const void* from, size_t size) {
  COUNTED;
  const int code = stream_of(nullptr).synchronize();
  return std::memcpy(to, from, size), code;
}

API cuStreamCreate(Stream** stream, unsigned) {
  NEEDS_CONTEXT;
  return *stream = new Stream, kSuccess;
}
API cuStreamDestroy_v2(Stream* stream) { return delete stream, kSuccess; }
API cuStreamSynchronize(Stream* stream) {
  COUNTED;
  return stream_of(stream).synchronize();
}
API cuEventCreate(Event** event, unsigned) { return *event = new Event, kSuccess; }
API cuEventDestroy_v2(Event* event) { return delete event, kSuccess; }
API cuEventRecord(Event* event, Stream* stream) {
  event->graph = stream_of(stream).capture;
  event->frontier = stream_of(stream).frontier;
  if (event->graph) return kSuccess;
  const uint64_t ticket = ++event->recorded;
  return stream_of(stream).add([=] { event->reach(ticket); });
}
// In a capture, a node that records anew with every launch; outside, the driver refuses the flag.
API cuEventRecordWithFlags(Event* event, Stream* stream, unsigned flags) {
  constexpr unsigned kExternal = 1;
  if (flags != kExternal || !stream_of(stream).capture) return kInvalidValue;
  event->graph = nullptr;
  event->recorded = 1;
  return stream_of(stream).add([=] { event->reach(1); });
}
API cuEventElapsedTime(float* milliseconds, Event* first, Event* second) {
  COUNTED;
  if (!first->reached || !second->reached) return kNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(second->at - first->at).count();
  return kSuccess;
}
API cuEventQuery(Event* event) {
  const std::lock_guard<std::mutex> lock(event->mutex);
  return event->reached >= event->recorded ? status() : static_cast<int>(kNotReady);
}
API cuEventSynchronize(Event* event) { return event->wait(event->recorded), status(); }
API cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
  if (event->graph) {  // the stream joins the capture
    Stream& joined = stream_of(stream);
    joined.capture = event->graph;
    joined.frontier.insert(joined.frontier.end(), event->frontier.begin(), event->frontier.end());
    return kSuccess;
  }
  return stream_of(stream).add([event, ticket = event->recorded] { event->wait(ticket); });
}

API cuStreamBeginCapture_v2(Stream* stream, int) {
  if (!stream || stream->capture) return kCaptureUnsupported;
  stream->capture = new Graph;
  stream->is_origin = true;
  return kSuccess;
}
API cuStreamEndCapture(Stream* stream, Graph** graph) {
  *graph = nullptr;
  if (!stream || !stream->capture) return kInvalidValue;
  if (!stream->is_origin) return kCaptureUnjoined;
  *graph = stream->capture;
  const bool is_joined = (*graph)->all_lead_to(stream->frontier);
  for (Stream* const member : Stream::all())
    if (member->capture == *graph) member->capture = nullptr, member->frontier.clear(), member->is_origin = false;
  if (is_joined) return kSuccess;
  delete *graph;
  *graph = nullptr;
  return kCaptureUnjoined;
}
API cuGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long) {
  return *executable = new Graph(*graph), kSuccess;
}
API cuGraphLaunch(Graph* executable, Stream* stream) {
  COUNTED;
  return stream_of(stream).add([executable] { executable->run(); });
}
API cuGraphExecDestroy(Graph* graph) { return delete graph, kSuccess; }
API cuGraphDestroy(Graph* graph) { return delete graph, kSuccess; }
