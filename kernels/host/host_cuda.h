// The part of CUDA C++ that the kernels use, for a host compiler; fibers.h runs it. Included by language.cuh only.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>
#include <utility>

#include "fibers.h"

#ifndef TESSERA_UNIT
#error "TESSERA_UNIT names the translation unit: its static shared memory lies in a section of that name"
#endif

// ---- language ----------------------------------------------------------------------------------------------------
#define TESSERA_TEXT_(x) #x
#define TESSERA_TEXT(x) TESSERA_TEXT_(x)
#define TESSERA_JOIN_(a, b) a##b
#define TESSERA_JOIN(a, b) TESSERA_JOIN_(a, b)
#define __shared__ static __attribute__((section("shared_" TESSERA_TEXT(TESSERA_UNIT))))
#define __align__(n) __attribute__((aligned(n)))

extern "C" __attribute__((weak, visibility("hidden"))) char TESSERA_JOIN(__start_shared_, TESSERA_UNIT)[],
    TESSERA_JOIN(__stop_shared_, TESSERA_UNIT)[];

#define TESSERA_VECTOR(T, name, alignment)                                           \
  struct alignas(alignment) name##2 { T x, y; };                                     \
  struct alignas(alignment * 2 > 16 ? 16 : alignment * 2) name##4 { T x, y, z, w; }; \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                         \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
TESSERA_VECTOR(float, float, 8)
TESSERA_VECTOR(int, int, 8)
TESSERA_VECTOR(unsigned, uint, 8)
#undef TESSERA_VECTOR

#define threadIdx (host_cuda::here.fiber->thread)
#define blockIdx (host_cuda::here.block)
#define blockDim (host_cuda::here.block_size)
#define gridDim (host_cuda::here.grid_size)

namespace host_cuda {
template <auto kernel>
struct Body;
template <class... A, void (*kernel)(A...)>
struct Body<kernel> {
  static constexpr unsigned sizes[] = {unsigned(sizeof(A))..., 0};  // for whoever must copy the arguments
  template <size_t... I>
  static void call(void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<std::decay_t<A>*>(arguments[I])...);
  }
  static void run(void** arguments) { call(arguments, std::index_sequence_for<A...>{}); }
};
}  // namespace host_cuda

// A kernel and the two functions that the Python side calls: NAME_host takes cuLaunchKernel's arguments and an order.
#define KERNEL(name, max_threads, params)                                                                            \
  extern "C" void name params;                                                                                       \
  extern "C" __attribute__((visibility("default"))) const unsigned* name##_sizes() {                                 \
    return host_cuda::Body<name>::sizes;                                                                             \
  }                                                                                                                  \
  extern "C" __attribute__((visibility("default"))) const char* name##_host(                                         \
      unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, unsigned order, \
      void** arguments) {                                                                                            \
    static const host_cuda::Kernel kernel{                                                                           \
        #name,                                                                                                       \
        host_cuda::Body<name>::run,                                                                                  \
        max_threads,                                                                                                 \
        {TESSERA_JOIN(__start_shared_, TESSERA_UNIT), TESSERA_JOIN(__stop_shared_, TESSERA_UNIT)}};                  \
    return host_cuda::launch(kernel, {gx, gy, gz}, {bx, by, bz}, shared, order, arguments);                          \
  }                                                                                                                  \
  extern "C" void name params
#define DYNAMIC_SHARED(T, name) T* const name = reinterpret_cast<T*>(host_cuda::here.dynamic_shared)

// ---- barriers and warp collectives -------------------------------------------------------------------------------
inline void __syncthreads() { host_cuda::sync_block(0); }
inline int __syncthreads_count(int predicate) { return host_cuda::sync_block(predicate); }
inline int __syncthreads_or(int predicate) { return host_cuda::sync_block(predicate) != 0; }
inline void __syncwarp(unsigned mask = ~0u) { host_cuda::sync_warp(mask); }

namespace host_cuda {
template <class T>
inline T shuffle_value(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = shuffle(mask, bits, source);
  memcpy(&value, &bits, sizeof value);
  return value;
}
}  // namespace host_cuda

template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  return host_cuda::shuffle_value(mask, value, (host_cuda::here.fiber->lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits) {
  return host_cuda::shuffle_value(mask, value, host_cuda::here.fiber->lane ^ bits);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) { return host_cuda::ballot(mask, predicate); }
inline int __any_sync(unsigned mask, int predicate) { return host_cuda::ballot(mask, predicate) != 0; }

// ---- atomics -----------------------------------------------------------------------------------------------------
inline int atomicAdd(int* p, int v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }

// ---- arithmetic --------------------------------------------------------------------------------------------------
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += int(int8_t(a >> i)) * int(int8_t(b >> i));
  return c;
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
// Byte i of the result: the byte of a (0 .. 3) or b (4 .. 7) that bits 4i .. 4i + 2 of `select` name; bit 4i + 3 would
// spread its sign.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned select) {
  const uint64_t bytes = uint64_t(b) << 32 | a;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned which = select >> 4 * i, byte = unsigned(bytes >> 8 * (which & 7)) & 255;
    out |= (which & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
  }
  return out;
}
namespace host_cuda {
template <class To, class From>
inline To bits_of(From v) {
  static_assert(sizeof(To) == sizeof(From));
  To r;
  memcpy(&r, &v, sizeof r);
  return r;
}
}  // namespace host_cuda
inline float __int_as_float(int v) { return host_cuda::bits_of<float>(v); }
inline float __uint_as_float(unsigned v) { return host_cuda::bits_of<float>(v); }
inline int __float_as_int(float v) { return host_cuda::bits_of<int>(v); }
inline unsigned __float_as_uint(float v) { return host_cuda::bits_of<unsigned>(v); }
inline int __float2int_rn(float v) { return int(nearbyintf(v)); }
inline float __expf(float v) { return expf(v); }
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
template <class T>
inline T __ldcs(const T* p) {
  return *p;
}
inline float cospif(float v) { return float(cos(double(v) * 3.14159265358979323846)); }
inline float sinpif(float v) { return float(sin(double(v) * 3.14159265358979323846)); }
