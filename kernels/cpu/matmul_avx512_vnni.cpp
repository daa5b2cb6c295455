// AVX-512 VNNI tier: all quantised types through vpdpbusd. Float weights are the AVX-512 tier's.
//
// K types have a format of activations of their own (natural order, int32 sums); the 32-value types keep the AVX2 one.
#include <type_traits>

#include "lanes512.h"
#include "matmul_dpbusd.h"
#include "matmul_dpbusd_codebook.h"
#include "matmul_fill.h"
#include "matmul_pack.h"
#include "matmul_rows_dpbusd.h"

namespace tessera {
namespace {

struct StrideK {
  static size_t stride(int cols) { return Record256(cols).stride_with_negative_sums; }
};
struct Stride32 {
  static size_t stride(int cols) { return Record32(cols).stride; }
};

template <class Type, class Rows>
void fill_k(MatmulTable& table) {
  fill_row<DotK<Type>, Rows, StrideK>(table, Type::kType, "avx512_vnni");
}
template <class Kernel, class Rows>
void fill_32(MatmulTable& table, QuantType type) {
  fill_row<Kernel, Rows, Stride32>(table, type, "avx512_vnni");
}

#ifndef TESSERA_EMULATE_AVX512
int64_t int8_peak(int64_t iterations) {
#define STEP(i) "vpdpbusd %%zmm14, %%zmm15, %%zmm" #i "\n"
  for (int64_t i = 0; i < iterations; ++i)
    __asm__ volatile(STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8) STEP(9) STEP(10) STEP(11)::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
                           "xmm11");
#undef STEP
  return iterations * 12 * 64;
}
#endif

}  // namespace

void fill_matmul_avx512_vnni(MatmulTable& table) {
  constexpr Order kOrder = Order::natural_panels;
  table.activations[static_cast<int>(ActivationFormat::Q8_256)] = {1, packed_bytes256<kOrder>, pack256<kOrder>,
                                                                   unpack256<kOrder>};
  fill_k<Q2_K, RowsK<Q2_KRow>>(table);
  fill_k<Q3_K, RowsK<Q3_KRow>>(table);
  fill_k<Q4_K, DotRowsK<Q4_KDot>>(table);
  fill_k<Q5_K, DotRowsK<Q5_KDot>>(table);
  fill_k<Q6_K, DotRowsK<Q6_KDot>>(table);
  fill_32<Dot32<Q4_0>, DotRows32<Q4_0Row>>(table, QuantType::Q4_0);
  fill_32<Dot32<Q4_1>, DotRows32<Q4_1Row>>(table, QuantType::Q4_1);
  fill_32<Dot32<Q5_0>, DotRows32<Q5_0Row>>(table, QuantType::Q5_0);
  fill_32<Dot32<Q5_1>, DotRows32<Q5_1Row>>(table, QuantType::Q5_1);
  fill_32<Dot32<DotBytes<Q8_0>>, DotRows32<Q8_0Row>>(table, QuantType::Q8_0);
  fill_32<Dot32<DotBytes<IQ4_NL>>, DotRows32<IQ4_NLRow>>(table, QuantType::IQ4_NL);
  fill_32<Dot32<MXFP4>, DotRows32<MXFP4Row>>(table, QuantType::MXFP4);
  each_codebook_row([&]<class Row>() {
    using Kernel = std::conditional_t<Row::kWide, DotWide<Row>, DotK<NarrowCodebook<Row>>>;
    fill_row<Kernel, typename Row::Product, StrideK>(table, Row::kType, "avx512_vnni");
  });
#ifndef TESSERA_EMULATE_AVX512
  table.int8_peak = int8_peak;
#endif
}

}  // namespace tessera
