// Handing a step to the processor and back without host functions: flags in memory that both sides see.
#include "language.cuh"

namespace {

inline uint32_t read_flag(const uint32_t* flag) {
#ifdef __CUDACC__
  return *(const volatile uint32_t*)flag;
#else
  return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
#endif
}

inline void write_flag(uint32_t* flag, uint32_t value) {
#ifdef __CUDACC__
  __threadfence_system();
  *(volatile uint32_t*)flag = value;
  __threadfence_system();
#else
  __atomic_store_n(flag, value, __ATOMIC_RELEASE);
#endif
}

}  // namespace

// What stands before it on its stream is done. grid 1, one thread.
KERNEL(raise_flag, 32, (uint32_t* flag)) {
  if (threadIdx.x == 0) write_flag(flag, 1);
}

// Ends when somebody has raised the flag, and takes it down. grid 1, one thread.
KERNEL(await_flag, 32, (uint32_t* flag)) {
  if (threadIdx.x) return;
  while (read_flag(flag) == 0) {
  }
  write_flag(flag, 0);
}
