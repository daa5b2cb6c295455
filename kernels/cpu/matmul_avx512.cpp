// AVX-512 tier (F, BW, VL, DQ; no VNNI): the AVX2 tier's scheme on 16 lanes, with its formats of activations.
//
// The way for few tokens is the AVX2 one, compiled for AVX-512 (it is bound by memory).
#include <type_traits>

#include "lanes512.h"
#include "matmul_fill.h"
#include "matmul_float.h"
#include "matmul_maddubs_32.h"
#include "matmul_maddubs_codebook.h"
#include "matmul_maddubs_k.h"
#include "matmul_rows_k.h"
#include "matmul_rows_nibbles.h"

namespace tessera {
namespace {

struct StrideK {
  static size_t stride(int cols) { return Record256(cols).stride; }
};
struct Stride32 {
  static size_t stride(int cols) { return Record32(cols).stride; }
};

template <class Type, class Row>
void fill_k(MatmulTable& table) {
  fill_row<MaddubsK<Type>, RowsK<Row>, StrideK>(table, Type::kType, "avx512");
}
template <class Kernel, class Row>
void fill_32(MatmulTable& table, QuantType type) {
  fill_row<Kernel, RowsOf32<Row>, Stride32>(table, type, "avx512");
}

#ifndef TESSERA_EMULATE_AVX512
int64_t int8_peak(int64_t iterations) {
#define STEP(i) "vpmaddubsw %%zmm14, %%zmm15, %%zmm13\n vpaddw %%zmm13, %%zmm" #i ", %%zmm" #i "\n"
  for (int64_t i = 0; i < iterations; ++i)
    __asm__ volatile(STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8) STEP(9) STEP(10) STEP(11)::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                           "xmm11", "xmm13");
#undef STEP
  return iterations * 12 * 64;
}
#endif

}  // namespace

void fill_matmul_avx512(MatmulTable& table) {
  fill_k<Q2_K, Q2_KRow>(table);
  fill_k<Q3_K, Q3_KRow>(table);
  fill_k<Q4_K, Q4_KRow>(table);
  fill_k<Q5_K, Q5_KRow>(table);
  fill_k<Q6_K, Q6_KRow>(table);
  fill_32<Maddubs32<Q4_0>, Q4_0Row>(table, QuantType::Q4_0);
  fill_32<Maddubs32<Q4_1>, Q4_1Row>(table, QuantType::Q4_1);
  fill_32<Maddubs32<Q5_0>, Q5_0Row>(table, QuantType::Q5_0);
  fill_32<Maddubs32<Q5_1>, Q5_1Row>(table, QuantType::Q5_1);
  fill_32<MaddubsBytes<Q8_0>, Q8_0Row>(table, QuantType::Q8_0);
  fill_32<MaddubsBytes<IQ4_NL>, IQ4_NLRow>(table, QuantType::IQ4_NL);
  fill_32<Maddubs32<MXFP4>, MXFP4Row>(table, QuantType::MXFP4);
  each_codebook_row([&]<class Row>() {
    using Kernel = std::conditional_t<Row::kWide, MaddubsWide<Row>, MaddubsK<NarrowCodebook<Row>>>;
    fill_row<Kernel, typename Row::Product, StrideK>(table, Row::kType, "avx512");
  });
  fill_float<LoadF32>(table, QuantType::F32, "avx512");
  fill_float<LoadF16>(table, QuantType::F16, "avx512");
  fill_float<LoadBF16>(table, QuantType::BF16, "avx512");
#ifndef TESSERA_EMULATE_AVX512
  table.int8_peak = int8_peak;
#endif
}

}  // namespace tessera
