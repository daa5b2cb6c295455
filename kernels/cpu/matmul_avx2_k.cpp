// AVX2 tier, K types.
#include "lanes256.h"
#include "matmul_avx2.h"
#include "matmul_fill.h"
#include "matmul_maddubs_k.h"
#include "matmul_rows_k.h"

namespace tessera {
namespace {

struct Stride {
  static size_t stride(int cols) { return Record256(cols).stride; }
};

template <class Type, class Row>
void fill(MatmulTable& table) {
  fill_row<MaddubsK<Type>, RowsK<Row>, Stride>(table, Type::kType, "avx2");
}

}  // namespace

void fill_avx2_k(MatmulTable& table) {
  fill<Q2_K, Q2_KRow>(table);
  fill<Q3_K, Q3_KRow>(table);
  fill<Q4_K, Q4_KRow>(table);
  fill<Q5_K, Q5_KRow>(table);
  fill<Q6_K, Q6_KRow>(table);
}

}  // namespace tessera
