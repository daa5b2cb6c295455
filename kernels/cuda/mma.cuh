// Tensor-core tiles of one warp; fragments as PTX lays them out. g = lane / 4, t = lane % 4 below.
#pragma once
#include "language.cuh"

namespace {

// d[16][8] += a[16][32] * b[32][8] in int8 with int32 sums. a: rows g, g + 8 at 4t, then the same at 16 + 4t;
// b: column g at 4t, 16 + 4t; d: row g at 2t, 2t + 1, row g + 8 likewise.
inline void mma_s8_k32(int (&d)[4], const int (&a)[4], const int (&b)[2]) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else  // Turing: four m8n8k16
#pragma unroll
  for (int i = 0; i < 4; ++i)
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+r"(d[i % 2 * 2]), "+r"(d[i % 2 * 2 + 1]) : "r"(a[i]), "r"(b[i / 2]));
#endif
#else
  host_cuda::mma_s8(d, a, b, 32);
#endif
}

// The same over 16 values: the first two registers of a and the first of b.
inline void mma_s8_k16(int (&d)[4], int a0, int a1, int b) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a0), "r"(a1), "r"(b));
#else
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+r"(d[0]), "+r"(d[1]) : "r"(a0), "r"(b));
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+r"(d[2]), "+r"(d[3]) : "r"(a1), "r"(b));
#endif
#else
  const int a[2] = {a0, a1};
  host_cuda::mma_s8(d, a, &b, 16);
#endif
}

// d[16][8] += a[16][16] * b[16][8] in half precision with float sums; two values per register. a: rows g, g + 8 at 2t,
// then the same at 8 + 2t; b: column g at 2t, 8 + 2t.
inline void mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else  // Turing: two m16n8k8
#pragma unroll
  for (int i = 0; i < 2; ++i)
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
#endif
#else
  host_cuda::mma_f16(d, a, b);
#endif
}

}  // namespace
