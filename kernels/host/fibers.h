// The scheduler behind host_cuda.h: every CUDA thread of a block is a fiber, and all fibers of a launch share one
// operating-system thread. A fiber runs until it meets a barrier or a warp collective, then hands over to the next one
// that can run. The last lane to arrive carries a collective out for all, so shuffles, votes and tensor-core products
// have exact warp semantics under any schedule. Blocks run one after the other; one launch runs at a time.
//
// What it finds besides wrong numbers: barriers that some threads never reach, shuffles from inactive lanes, lanes that
// meet in different collectives, and reads of shared memory before it was written (filled with 0xff: NaN as float).
#pragma once
#include <cstddef>
#include <cstdint>

namespace host_cuda {

struct Index3 {
  unsigned x, y, z;
};

struct Fiber {
  void* stack_pointer = nullptr;
  char* stack = nullptr;
  Index3 thread{};
  int warp = 0, lane = 0;
  bool done = true;
  const unsigned* waits_for = nullptr;  // runnable unless waits_for && *waits_for == ticket
  unsigned ticket = 0;
  void* address_sanitizer = nullptr;
  void* thread_sanitizer = nullptr;
};

struct Position {  // read by threadIdx and its kin
  Fiber* fiber;
  Index3 block, block_size, grid_size;
  char* dynamic_shared;
};
extern Position here;

inline constexpr int kMaxThreads = 1024, kWarp = 32;

// Static shared memory of one source file: the linker's section of that name.
struct SharedSection {
  char *begin, *end;
};

// One kernel with its arguments unpacked from cuLaunchKernel's array.
struct Kernel {
  const char* name;
  void (*body)(void** arguments);
  int max_threads;
  SharedSection shared;
};

// order: 0 threads and blocks in rising order, 1 in falling order, else pseudo-random from this seed.
// Returns null, or what went wrong and where (good until the next launch).
const char* launch(const Kernel& kernel, Index3 grid, Index3 block, size_t dynamic_shared, unsigned order,
                   void** arguments);

// The calling lane leaves `record` and waits until all of `mask` that have not exited have; then the last to arrive
// calls `collective` (if any) with everyone's records and the lanes that are left.
using Collective = void (*)(void** lanes, unsigned mask);
void meet(unsigned mask, void* record, Collective collective);
void note_error(const char* why);  // ends the launch when the caller's meeting closes

int sync_block(int vote);  // returns how many threads voted with non-zero
void sync_warp(unsigned mask);
uint64_t shuffle(unsigned mask, uint64_t value, int source_lane);
unsigned ballot(unsigned mask, int predicate);

// d[16][8] += a[16][k] * b[k][8] over a whole warp, fragments as PTX lays them out.
void mma_s8(int* d, const int* a, const int* b, int k);        // k 16 or 32
void mma_f16(float* d, const uint32_t* a, const uint32_t* b);  // m16n8k16, float accumulators

}  // namespace host_cuda
