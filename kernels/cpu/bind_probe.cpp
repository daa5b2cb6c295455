// Speed limits of this machine, measured: the read bandwidth that bounds decode.
#if defined(_WIN32)
#define NOMINMAX
#include <windows.h>
#else
#include <sys/mman.h>
#endif

#include <nanobind/ndarray.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "bindings.h"
#include "thread_pool.h"

namespace tessera {
namespace {

namespace nb = nanobind;

// Threads take so much at a time, as the kernels share out a matrix: one that is held up does not hold up the others.
constexpr size_t kChunkBytes = size_t{256} << 10;
// Bytes ahead of the read position that may be prefetched. By core: about two DRAM latencies at 20
// GB/s were best on Zen 4; on Zen 3 that is a fifth slower than two pages, or than leaving it to the hardware (6.9
// : 8.7 GB/s).
constexpr size_t kPrefetchDistances[] = {0, 2304, 8192};

constexpr int kComparisons = 5;  // of all distances, by turns, so that all see the memory in the same states

constexpr int kSpinMicroseconds = 50;  // as the engine's threads do

// Anonymous memory in 4 KiB pages, as a mapped model file has them, every page touched.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
#if defined(_WIN32)
    data_ = VirtualAlloc(nullptr, bytes, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
    if (data_ == nullptr) throw std::bad_alloc();
#else
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_NOHUGEPAGE
    madvise(data_, bytes, MADV_NOHUGEPAGE);
#endif
#endif
    std::memset(data_, 1, bytes);
  }
  ~Pages() {
#if defined(_WIN32)
    VirtualFree(data_, 0, MEM_RELEASE);
#else
    munmap(data_, bytes_);
#endif
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  const uint8_t* data() const { return static_cast<const uint8_t*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

uint64_t read_all(const uint8_t* data, size_t bytes, size_t distance) {
  uint64_t folded[8] = {};
  for (size_t at = 0; at + 64 <= bytes; at += 64) {
    __builtin_prefetch(data + std::min(at + distance, bytes - 1));
    uint64_t line[8];
    std::memcpy(line, data + at, sizeof line);
    for (int i = 0; i < 8; ++i) folded[i] ^= line[i];
  }
  uint64_t all = 0;
  for (uint64_t part : folded) all ^= part;
  return all;
}

// Bytes per second of all threads, which share out `chunks` chunks as they do a product's rows.
double read_once(ThreadPool& pool, const uint8_t* data, size_t chunks, size_t distance) {
  struct Region {
    ThreadPool& pool;
    const uint8_t* data;
    size_t chunks, distance;
    std::atomic<uint64_t> sink{0};
  } region{pool, data, chunks, distance};
  const auto start = std::chrono::steady_clock::now();
  pool.run(
      [](void* context, int) noexcept {
        Region& at = *static_cast<Region*>(context);
        for (size_t i; (i = static_cast<size_t>(at.pool.next())) < at.chunks;)
          at.sink ^= read_all(at.data + i * kChunkBytes, kChunkBytes, at.distance);
      },
      &region);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return static_cast<double>(chunks * kChunkBytes) / elapsed.count();
}

double median(std::vector<double>& found) {
  std::nth_element(found.begin(), found.begin() + found.size() / 2, found.end());
  return found[found.size() / 2];
}

// The distance with which so many threads read fastest, found once: were the fastest of all counted each time, memory
// whose speed varies by a tenth from pass to pass would seem nearly a tenth faster than it is on average.
size_t best_distance(ThreadPool& pool, int threads, const uint8_t* data, size_t chunks) {
  static std::mutex mutex;
  static std::map<int, size_t> known;
  const std::lock_guard<std::mutex> lock(mutex);
  if (const auto found = known.find(threads); found != known.end()) return found->second;
  constexpr size_t kinds = std::size(kPrefetchDistances);
  std::vector<double> speeds[kinds];
  for (int turn = 0; turn < kComparisons; ++turn)
    for (size_t kind = 0; kind < kinds; ++kind)
      speeds[kind].push_back(read_once(pool, data, chunks, kPrefetchDistances[kind]));
  size_t best = 0;
  for (size_t kind = 1; kind < kinds; ++kind)
    if (median(speeds[kind]) > median(speeds[best])) best = kind;
  return known[threads] = kPrefetchDistances[best];
}

void check(int threads, size_t bytes) {
  if (threads < 1 || threads > 1024) throw std::invalid_argument("threads must be between 1 and 1024");
  if (bytes < (size_t{1} << 20)) throw std::invalid_argument("bytes must be at least 1 MiB");
}

// Keeps its threads, so that a look costs no more than what it reads.
class MemoryReader {
 public:
  MemoryReader(int threads, const uint8_t* data, size_t bytes)
      : data_(data), chunks_((check(threads, bytes), bytes / kChunkBytes)), pool_(threads, kSpinMicroseconds, false) {
    distance_ = best_distance(pool_, threads, data_, chunks_);
    read();  // what was written goes back to memory, and every page is mapped
  }
  double read() { return read_once(pool_, data_, chunks_, distance_); }

 private:
  const uint8_t* const data_;
  const size_t chunks_;
  ThreadPool pool_;
  size_t distance_;
};

using Memory = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Bytes per second that `threads` threads read together from a buffer of `bytes`: the median of `repeats` passes.
double read_bandwidth(int threads, size_t bytes, int repeats) {
  check(threads, bytes);
  if (repeats < 1) throw std::invalid_argument("repeats must be at least 1");
  const Pages pages(bytes);
  MemoryReader reader(threads, pages.data(), bytes);
  std::vector<double> speeds;
  for (int repeat = 0; repeat < repeats; ++repeat) speeds.push_back(reader.read());
  return median(speeds);
}

}  // namespace

void bind_probe(nanobind::module_& m) {
  m.def("read_bandwidth", &read_bandwidth, nb::arg("threads"), nb::arg("bytes") = size_t{256} << 20,
        nb::arg("repeats") = 5, nb::call_guard<nb::gil_scoped_release>(),
        "Bytes per second that `threads` threads read together from memory in 4 KiB pages: the median of `repeats`, "
        "with the prefetching that is fastest here.");
  nb::class_<MemoryReader>(m, "MemoryReader", "Reads `memory` with `threads` threads, which share it out.")
      .def(
          "__init__",
          [](MemoryReader* self, int threads, const Memory& memory) {
            new (self) MemoryReader(threads, memory.data(), memory.size());
          },
          nb::arg("threads"), nb::arg("memory"), nb::keep_alive<1, 3>())
      .def("read", &MemoryReader::read, nb::call_guard<nb::gil_scoped_release>(), "Bytes per second of one pass.");
}

}  // namespace tessera
