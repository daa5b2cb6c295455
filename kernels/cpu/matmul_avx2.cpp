// AVX2 tier (AVX2, FMA, F16C): the activations' formats and the peak loop.
#include "matmul_avx2.h"

#include "matmul_pack.h"

namespace tessera {
namespace {

// vpmaddubsw + vpaddw on twelve accumulators: what the panel kernels do, without loads.
int64_t int8_peak(int64_t iterations) {
#define STEP(i) "vpmaddubsw %%ymm14, %%ymm15, %%ymm13\n vpaddw %%ymm13, %%ymm" #i ", %%ymm" #i "\n"
  for (int64_t i = 0; i < iterations; ++i)
    __asm__ volatile(STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8) STEP(9) STEP(10) STEP(11)::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                           "xmm11", "xmm13");
#undef STEP
  return iterations * 12 * 32;
}

}  // namespace

void fill_matmul_avx2(MatmulTable& table) {
  table.activations[static_cast<int>(ActivationFormat::F32)] = {1, packed_bytes_float, pack_float, unpack_float};
  table.activations[static_cast<int>(ActivationFormat::Q8_32)] = {1, packed_bytes32, pack32, unpack32};
  table.activations[static_cast<int>(ActivationFormat::Q8_256)] = {1, packed_bytes256<Order::pairs>,
                                                                   pack256<Order::pairs>, unpack256<Order::pairs>};
  fill_avx2_k(table);
  fill_avx2_32(table);
  fill_avx2_codebook(table);
  fill_avx2_float(table);
  table.int8_peak = int8_peak;
}

}  // namespace tessera
