// Compiled without instrumentation also in sanitizer builds: it reads other fibers' stacks on their behalf. There,
// TESSERA_ASAN or TESSERA_TSAN tells it to announce every switch.
#include "fibers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#ifdef TESSERA_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TESSERA_TSAN
#include <sanitizer/tsan_interface.h>
#define TSAN(x) x
#else
#define TSAN(x)
#endif

namespace host_cuda {

Position here;

namespace {

constexpr size_t kStack = 256 << 10;
struct Meeting {  // lanes of one warp meeting for a collective
  unsigned generation, arrived, mask;
  Collective collective;
  void* records[kWarp];
};
struct Warp {
  unsigned alive, open;  // lanes not yet exited; meetings now waiting, by the lowest lane of their mask
  Meeting meetings[kWarp];
};

struct Scheduler {
  Fiber fibers[kMaxThreads], main;
  Warp warps[kMaxThreads / kWarp];
  int threads, alive;
  unsigned barrier_generation, barrier_arrived;
  int barrier_votes, barrier_result;
  unsigned order, random;
  const Kernel* kernel;
  void** arguments;
  const void* main_stack;
  size_t main_stack_size;
  bool failed;
  char error[512];
};
Scheduler& s = *new Scheduler();  // never destroyed: threads may outlive main
std::mutex& one_launch = *new std::mutex;

// ---- switching ---------------------------------------------------------------------------------------------------

extern "C" void tessera_switch_fiber(void** save, void* load);
#if defined(__x86_64__)
__asm__(
    ".text\n.p2align 4\n.type tessera_switch_fiber,@function\ntessera_switch_fiber:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size tessera_switch_fiber,.-tessera_switch_fiber\n");
void* first_frame(char* top, void (*entry)()) {
  void** p = reinterpret_cast<void**>(top);  // at entry the stack pointer is 8 mod 16, as after a call
  *--p = nullptr;
  *--p = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--p = nullptr;
  return p;
}
#elif defined(__aarch64__)
__asm__(
    ".text\n.p2align 4\n.type tessera_switch_fiber,%function\ntessera_switch_fiber:\n"
    "sub sp,sp,#160\nstp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
    "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\n"
    "stp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\nmov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
    "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
    "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\n"
    "ldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\nadd sp,sp,#160\nret\n"
    ".size tessera_switch_fiber,.-tessera_switch_fiber\n");
void* first_frame(char* top, void (*entry)()) {
  void** p = reinterpret_cast<void**>(top - 160);
  p[10] = nullptr;                         // x29
  p[11] = reinterpret_cast<void*>(entry);  // x30
  return p;
}
#else
#error "fibers.cpp: write tessera_switch_fiber for this processor"
#endif

void switch_to(Fiber* to) {
  Fiber* const from = here.fiber;
  here.fiber = to;
#ifdef TESSERA_ASAN
  const bool to_main = to == &s.main;
  __sanitizer_start_switch_fiber(&from->address_sanitizer, to_main ? s.main_stack : to->stack,
                                 to_main ? s.main_stack_size : kStack);
#endif
  TSAN(__tsan_switch_to_fiber(to->thread_sanitizer, __tsan_switch_to_fiber_no_sync);)
  tessera_switch_fiber(&from->stack_pointer, to->stack_pointer);
#ifdef TESSERA_ASAN
  __sanitizer_finish_switch_fiber(from->address_sanitizer, nullptr, nullptr);
#endif
}

unsigned random_number() {
  s.random ^= s.random << 13, s.random ^= s.random >> 17, s.random ^= s.random << 5;
  return s.random;
}

}  // namespace

void note_error(const char* why) {
  if (s.failed) return;
  s.failed = true;
  const Index3 b = here.block, t = here.fiber->thread;
  std::snprintf(s.error, sizeof s.error, "%s, block (%u, %u, %u), thread (%u, %u, %u): %s", s.kernel->name, b.x, b.y,
                b.z, t.x, t.y, t.z, why);
}

namespace {

[[noreturn]] void fail(const char* why) {
  note_error(why);
  switch_to(&s.main);
  std::abort();
}

void run_next() {  // hands over to the next fiber that can run, or back to main
  const int n = s.threads, step = s.order == 1 ? -1 : 1;
  int at;
  if (s.order > 1)
    at = static_cast<int>(random_number() % static_cast<unsigned>(n));
  else if (here.fiber == &s.main)
    at = step == 1 ? 0 : n - 1;
  else
    at = static_cast<int>(here.fiber - s.fibers) + step;
  for (int i = 0; i < n; ++i, at += step) {
    if (at == n) at = 0;
    if (at < 0) at = n - 1;
    Fiber* const f = &s.fibers[at];
    if (f->done || (f->waits_for && *f->waits_for == f->ticket)) continue;
    if (f != here.fiber) switch_to(f);
    return;
  }
  if (s.alive) note_error("deadlock: not every thread reached the barrier or collective");
  switch_to(&s.main);
}

void wait_for(const unsigned& generation) {
  here.fiber->waits_for = &generation;
  here.fiber->ticket = generation;
  run_next();
  here.fiber->waits_for = nullptr;
}

// ---- meetings ----------------------------------------------------------------------------------------------------

void close_if_full(Warp& warp, int leader) {
  Meeting& m = warp.meetings[leader];
  const unsigned mask = m.mask & warp.alive;
  if (m.arrived != static_cast<unsigned>(__builtin_popcount(mask))) return;
  if (m.collective) m.collective(m.records, mask);
  m.arrived = 0;
  ++m.generation;
  warp.open &= ~(1u << leader);
}

}  // namespace

void meet(unsigned mask, void* record, Collective collective) {
  Fiber* const f = here.fiber;
  if (!(mask >> f->lane & 1)) fail("a lane is not in the mask it passed");
  Warp& warp = s.warps[f->warp];
  const int leader = __builtin_ctz(mask);
  Meeting& m = warp.meetings[leader];
  if (!m.arrived)
    m.mask = mask, m.collective = collective, warp.open |= 1u << leader;
  else if (m.mask != mask || m.collective != collective)
    fail("lanes of a warp met in different collectives");
  m.records[f->lane] = record;
  ++m.arrived;
  const unsigned before = m.generation;
  close_if_full(warp, leader);
  if (m.generation == before) wait_for(m.generation);
  if (s.failed) fail("");
}

namespace {

void close_barrier_if_full() {
  if (!s.barrier_arrived || s.barrier_arrived != static_cast<unsigned>(s.alive)) return;
  s.barrier_result = s.barrier_votes;
  s.barrier_votes = 0;
  s.barrier_arrived = 0;
  ++s.barrier_generation;
}

// ---- blocks ------------------------------------------------------------------------------------------------------

void fiber_main() {
#ifdef TESSERA_ASAN
  const bool first = s.main_stack == nullptr;
  __sanitizer_finish_switch_fiber(nullptr, first ? &s.main_stack : nullptr, first ? &s.main_stack_size : nullptr);
#endif
  for (;;) {  // one turn per block
    TSAN(__tsan_acquire(&s.kernel);)
    s.kernel->body(s.arguments);
    TSAN(__tsan_release(&s.kernel);)
    Fiber* const f = here.fiber;
    f->done = true;
    --s.alive;
    Warp& warp = s.warps[f->warp];
    warp.alive &= ~(1u << f->lane);
    for (unsigned open = warp.open; open; open &= open - 1) close_if_full(warp, __builtin_ctz(open));
    close_barrier_if_full();
    run_next();
  }
}

// Staggered, or the hot ends of all stacks would fall into the same cache sets.
char* stack_top(int i) { return s.fibers[i].stack + kStack - i % 64 * 448; }

void prepare_fibers() {
  for (int i = 0; i < s.threads; ++i) {
    Fiber& f = s.fibers[i];
    if (!f.stack) {
      f.stack = static_cast<char*>(
          mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
      if (f.stack == MAP_FAILED) std::abort();
      mprotect(f.stack, static_cast<size_t>(getpagesize()), PROT_NONE);  // an overflow stops at once
      TSAN(f.thread_sanitizer = __tsan_create_fiber(0);)
    }
    const unsigned x = here.block_size.x, y = here.block_size.y, index = static_cast<unsigned>(i);
    f.stack_pointer = first_frame(stack_top(i), fiber_main);
    f.address_sanitizer = nullptr;
    f.thread = {index % x, index / x % y, index / (x * y)};
    f.warp = i / kWarp;
    f.lane = i % kWarp;
  }
}

void fill_with_ones(volatile char* p, volatile char* end) {  // volatile: sanitizers replace memset by their own
  for (; p < end && reinterpret_cast<uintptr_t>(p) % 8; ++p) *p = static_cast<char>(0xff);
  for (; end - p >= 8; p += 8) *reinterpret_cast<volatile uint64_t*>(p) = ~uint64_t{0};
  for (; p < end; ++p) *p = static_cast<char>(0xff);
}

void run_block(size_t dynamic_shared) {
  s.alive = s.threads;
  s.barrier_arrived = 0;
  s.barrier_votes = 0;
  fill_with_ones(s.kernel->shared.begin, s.kernel->shared.end);
  fill_with_ones(here.dynamic_shared, here.dynamic_shared + dynamic_shared);
  for (int i = 0; i < s.threads; ++i) s.fibers[i].done = false, s.fibers[i].waits_for = nullptr;
  for (int w = 0; w * kWarp < s.threads; ++w) {
    const int lanes = s.threads - w * kWarp;
    s.warps[w].alive = lanes >= kWarp ? ~0u : (1u << lanes) - 1;
    s.warps[w].open = 0;
    for (Meeting& m : s.warps[w].meetings) m.arrived = 0;
  }
  TSAN(__tsan_release(&s.kernel);)
  run_next();
  TSAN(__tsan_acquire(&s.kernel);)
}

bool is_valid(const Kernel& kernel, Index3 grid, Index3 block, size_t dynamic_shared) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  return threads >= 1 && threads <= static_cast<uint64_t>(kernel.max_threads) && block.z <= 64 && grid.x >= 1 &&
         grid.y >= 1 && grid.z >= 1 && grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535 &&
         dynamic_shared <= (227u << 10);
}

}  // namespace

const char* launch(const Kernel& kernel, Index3 grid, Index3 block, size_t dynamic_shared, unsigned order,
                   void** arguments) {
  const std::lock_guard<std::mutex> lock(one_launch);
  if (!is_valid(kernel, grid, block, dynamic_shared)) {
    std::snprintf(s.error, sizeof s.error, "%s: invalid launch: grid (%u, %u, %u), block (%u, %u, %u), %zu bytes",
                  kernel.name, grid.x, grid.y, grid.z, block.x, block.y, block.z, dynamic_shared);
    return s.error;
  }
  s.kernel = &kernel;
  s.arguments = arguments;
  s.failed = false;
  s.order = order;
  s.random = order | 1;
  s.threads = static_cast<int>(block.x * block.y * block.z);
  s.main_stack = nullptr;
  here.fiber = &s.main;
  here.block_size = block;
  here.grid_size = grid;
  TSAN(s.main.thread_sanitizer = __tsan_get_current_fiber();)
  prepare_fibers();
  // Its own allocation, so that AddressSanitizer guards its end.
  here.dynamic_shared =
      dynamic_shared ? static_cast<char*>(std::aligned_alloc(16, (dynamic_shared + 15) / 16 * 16)) : nullptr;
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  for (uint64_t i = 0; i < blocks && !s.failed; ++i) {
    const uint64_t at = order == 0 ? i : order == 1 ? blocks - 1 - i : (i + order) % blocks;
    here.block = {static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                  static_cast<unsigned>(at / grid.x / grid.y)};
    run_block(dynamic_shared);
  }
  std::free(here.dynamic_shared);
  return s.failed ? s.error : nullptr;
}

int sync_block(int vote) {
  TSAN(__tsan_release(&s.barrier_generation);)
  const unsigned before = s.barrier_generation;
  ++s.barrier_arrived;
  s.barrier_votes += vote != 0;
  close_barrier_if_full();
  if (s.barrier_generation == before) wait_for(s.barrier_generation);
  TSAN(__tsan_acquire(&s.barrier_generation);)
  return s.barrier_result;
}

void sync_warp(unsigned mask) {
  TSAN(__tsan_release(&s.warps[here.fiber->warp]);)
  meet(mask, nullptr, nullptr);
  TSAN(__tsan_acquire(&s.warps[here.fiber->warp]);)
}

}  // namespace host_cuda
