// AVX2 tier, types with blocks of 32 values and one scale each: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4.
#include "lanes256.h"
#include "matmul_avx2.h"
#include "matmul_fill.h"
#include "matmul_maddubs_32.h"
#include "matmul_rows_nibbles.h"

namespace tessera {
namespace {

struct Stride {
  static size_t stride(int cols) { return Record32(cols).stride; }
};

template <class Kernel, class Row>
void fill(MatmulTable& table, QuantType type) {
  fill_row<Kernel, RowsOf32<Row>, Stride>(table, type, "avx2");
}

}  // namespace

void fill_avx2_32(MatmulTable& table) {
  fill<Maddubs32<Q4_0>, Q4_0Row>(table, QuantType::Q4_0);
  fill<Maddubs32<Q4_1>, Q4_1Row>(table, QuantType::Q4_1);
  fill<Maddubs32<Q5_0>, Q5_0Row>(table, QuantType::Q5_0);
  fill<Maddubs32<Q5_1>, Q5_1Row>(table, QuantType::Q5_1);
  fill<MaddubsBytes<Q8_0>, Q8_0Row>(table, QuantType::Q8_0);
  fill<MaddubsBytes<IQ4_NL>, IQ4_NLRow>(table, QuantType::IQ4_NL);
  fill<Maddubs32<MXFP4>, MXFP4Row>(table, QuantType::MXFP4);
}

}  // namespace tessera
