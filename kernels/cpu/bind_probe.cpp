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
// What the choice looks at: more than caches keep until the next look, for it goes through the memory piece by piece.
constexpr size_t kLookBytes = size_t{32} << 20;
constexpr int kComparisons = 3;  // of all ways, by turns, so that all see the memory in the same states

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

// As many parts of a chunk side by side, 64 bytes of each in turn, prefetched so far ahead.
template <int streams>
uint64_t read_streams(const uint8_t* chunk, size_t distance) {
  constexpr size_t part = kChunkBytes / streams;
  uint64_t folded[8] = {};
  for (size_t at = 0; at < part; at += 64) {
    const size_t ahead = std::min(at + distance, part - 1);
    for (size_t stream = 0; stream < kChunkBytes; stream += part) {
      __builtin_prefetch(chunk + stream + ahead);
      uint64_t line[8];
      std::memcpy(line, chunk + stream + at, sizeof line);
      for (int i = 0; i < 8; ++i) folded[i] ^= line[i];
    }
  }
  uint64_t all = 0;
  for (uint64_t part_of_all : folded) all ^= part_of_all;
  return all;
}

struct Way {
  uint64_t (*read)(const uint8_t* chunk, size_t distance);
  size_t distance;
};

// Ways to read that one core or another is fastest with. On Zen 3 one thread reads 9 to 10 GB/s in one stream, 12 in
// two, 13 in four; two threads 17, 19 and 21. Zen 4 likes two DRAM latencies of distance at 20 GB/s, 2304 bytes.
constexpr Way kWays[] = {
    {read_streams<1>, 0},    {read_streams<1>, 512},  {read_streams<1>, 1024}, {read_streams<1>, 2304},
    {read_streams<1>, 8192}, {read_streams<2>, 0},    {read_streams<2>, 512},  {read_streams<2>, 1024},
    {read_streams<2>, 2304}, {read_streams<2>, 8192}, {read_streams<4>, 0},    {read_streams<4>, 512},
    {read_streams<4>, 1024}, {read_streams<4>, 2304}, {read_streams<4>, 8192},
};

// Bytes per second of all threads, which share out `chunks` chunks as they do a product's rows.
double read_once(ThreadPool& pool, const uint8_t* data, size_t chunks, const Way& way) {
  struct Region {
    ThreadPool& pool;
    const uint8_t* data;
    size_t chunks;
    const Way& way;
    std::atomic<uint64_t> sink{0};
  } region{pool, data, chunks, way};
  const auto start = std::chrono::steady_clock::now();
  pool.run(
      [](void* context, int) noexcept {
        Region& at = *static_cast<Region*>(context);
        for (size_t i; (i = static_cast<size_t>(at.pool.next())) < at.chunks;)
          at.sink ^= at.way.read(at.data + i * kChunkBytes, at.way.distance);
      },
      &region);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return static_cast<double>(chunks * kChunkBytes) / elapsed.count();
}

double median(std::vector<double>& found) {
  std::nth_element(found.begin(), found.begin() + found.size() / 2, found.end());
  return found[found.size() / 2];
}

// The way in which so many threads read fastest, found once: were the fastest of all counted each time, memory whose
// speed varies by a tenth from pass to pass would seem nearly a tenth faster than it is on average.
const Way& best_way(ThreadPool& pool, const uint8_t* data, size_t chunks) {
  static std::mutex mutex;
  static std::map<int, const Way*> known;
  const std::lock_guard<std::mutex> lock(mutex);
  if (const auto found = known.find(pool.threads()); found != known.end()) return *found->second;
  constexpr size_t ways = std::size(kWays);
  const size_t some = std::min(chunks, kLookBytes / kChunkBytes), pieces = chunks / some;
  std::vector<double> speeds[ways];
  size_t look = 0;
  for (int turn = 0; turn < kComparisons; ++turn)
    for (size_t way = 0; way < ways; ++way, ++look)
      speeds[way].push_back(read_once(pool, data + look % pieces * some * kChunkBytes, some, kWays[way]));
  size_t best = 0;
  for (size_t way = 1; way < ways; ++way)
    if (median(speeds[way]) > median(speeds[best])) best = way;
  return *(known[pool.threads()] = &kWays[best]);
}

void check(size_t bytes) {
  if (bytes < (size_t{1} << 20)) throw std::invalid_argument("bytes must be at least 1 MiB");
}

class MemoryReader {
 public:
  MemoryReader(ThreadPool& pool, const uint8_t* data, size_t bytes)
      : pool_(pool), data_(data), chunks_((check(bytes), bytes / kChunkBytes)), way_(best_way(pool, data, chunks_)) {
    read();  // what was written goes back to memory, and every page is mapped
  }
  double read() { return read_once(pool_, data_, chunks_, way_); }

 private:
  ThreadPool& pool_;
  const uint8_t* const data_;
  const size_t chunks_;
  const Way& way_;
};

using Memory = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Bytes per second that `threads` threads read together from a buffer of `bytes`: the median of `repeats` passes.
double read_bandwidth(int threads, size_t bytes, int repeats) {
  check(bytes);
  if (repeats < 1) throw std::invalid_argument("repeats must be at least 1");
  const Pages pages(bytes);
  ThreadPool pool(threads, kSpinMicroseconds, false);
  MemoryReader reader(pool, pages.data(), bytes);
  std::vector<double> speeds;
  for (int repeat = 0; repeat < repeats; ++repeat) speeds.push_back(reader.read());
  return median(speeds);
}

}  // namespace

void bind_probe(nanobind::module_& m) {
  m.def("read_bandwidth", &read_bandwidth, nb::arg("threads"), nb::arg("bytes") = size_t{256} << 20,
        nb::arg("repeats") = 5, nb::call_guard<nb::gil_scoped_release>(),
        "Bytes per second that `threads` threads read together from memory in 4 KiB pages: the median of `repeats`, "
        "in as many streams, prefetched as far ahead, as is fastest here.");
  nb::class_<MemoryReader>(m, "MemoryReader", "Reads `memory` with the pool's threads, which share it out.")
      .def(
          "__init__",
          [](MemoryReader* self, ThreadPool& pool, const Memory& memory) {
            new (self) MemoryReader(pool, memory.data(), memory.size());
          },
          nb::arg("pool"), nb::arg("memory").noconvert(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(),
          nb::call_guard<nb::gil_scoped_release>())
      .def("read", &MemoryReader::read, nb::call_guard<nb::gil_scoped_release>(), "Bytes per second of one pass.");
}

}  // namespace tessera
