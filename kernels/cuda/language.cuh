// The vocabulary of every kernel in this folder. Three compilers read it: NVRTC on the owner's machine, NVRTC for all
// architectures in the tests, and through host_cuda.h a host compiler. It needs no CUDA header. Functions without
// __global__ are device functions (NVRTC's -default-device); everything but kernels lies in an unnamed namespace.
#pragma once
#ifdef __CUDACC__
// One block per processor is allowed: the compiler must not spill registers for a higher occupancy.
#define KERNEL(name, max_threads, params) extern "C" __global__ void __launch_bounds__(max_threads, 1) name params
#define DYNAMIC_SHARED(T, name)                               \
  extern __shared__ __align__(16) unsigned char dynamic_shared[]; \
  T* const name = (T*)dynamic_shared
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
#else
#include "host_cuda.h"
#endif

// A kernel of a file that is compiled once per weight type: its name ends in the type's.
#define JOIN_WITH_TYPE_(name, type) name##_##type
#define JOIN_WITH_TYPE(name, type) JOIN_WITH_TYPE_(name, type)
#define KERNEL_NAMED(name, max_threads, params) KERNEL(name, max_threads, params)
#define TYPED_KERNEL(name, max_threads, params) KERNEL_NAMED(JOIN_WITH_TYPE(name, TYPE), max_threads, params)

namespace {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

// 16-bit floats are storage: kernels load, compute in float, store.
inline float half_to_float(uint16_t bits) {
#ifdef __CUDACC__
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
  return f;
#else
  const unsigned sign = unsigned(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) return __uint_as_float(sign | __float_as_uint(float(fraction) * 0x1p-24f));
  return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
#endif
}

// To the nearest, ties to even.
inline uint16_t float_to_half(float f) {
#ifdef __CUDACC__
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f));
  return bits;
#else
  const unsigned x = __float_as_uint(f), sign = x >> 16 & 0x8000, a = x & 0x7fffffff;
  if (a > 0x7f800000) return 0x7fff;
  if (a >= 0x477ff000) return uint16_t(sign | 0x7c00);
  if (a < 0x38800000)  // a subnormal half: let the FPU round
    return uint16_t(sign | (__float_as_uint(__uint_as_float(a) + 0.5f) - 0x3f000000));
  return uint16_t(sign | (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13);
#endif
}

inline uint32_t pack_halves(float low, float high) { return float_to_half(low) | uint32_t(float_to_half(high)) << 16; }
inline float bfloat_to_float(uint16_t bits) { return __uint_as_float(unsigned(bits) << 16); }

inline float infinity() { return __int_as_float(0x7f800000); }
inline float not_a_number() { return __int_as_float(0x7fc00000); }

inline float warp_sum(float v) {
#pragma unroll
  for (int bits = 16; bits; bits >>= 1) v += __shfl_xor_sync(kAllLanes, v, bits);
  return v;
}
inline float warp_max(float v) {
#pragma unroll
  for (int bits = 16; bits; bits >>= 1) v = fmaxf(v, __shfl_xor_sync(kAllLanes, v, bits));
  return v;
}

enum Activation { kSilu = 0, kGelu = 1, kSigmoid = 2, kSwigluOai = 3, kLinear = 4 };  // gelu: the tanh form

// activation(gate) * up. All are x / (1 + e^-y): y = x for silu, y = 2 sqrt(2 / pi) (x + 0.044715 x^3) for gelu; for a
// sigmoid the x above the line is 1; swiglu_oai: y = 1.702 x, with x at most 7, times up within -7 and 7, plus 1;
// linear: the gate itself. Comparisons keep NaN.
inline float gated(float gate, float up, int activation) {
  if (activation == kSwigluOai) {
    const float x = gate > 7.0f ? 7.0f : gate, bounded = up > 7.0f ? 7.0f : up < -7.0f ? -7.0f : up;
    return x / (1.0f + expf(-1.702f * x)) * (bounded + 1.0f);
  }
  if (activation == kLinear) return gate * up;
  const float y = activation == kGelu ? 1.5957691216057308f * (gate + 0.044715f * gate * gate * gate) : gate;
  return (activation == kSigmoid ? 1.0f : gate) / (1.0f + expf(-y)) * up;
}

// cap tanh(x / cap), or x where the cap is 0.
inline float capped(float x, float cap) { return cap > 0.0f ? cap * tanhf(x / cap) : x; }

}  // namespace
