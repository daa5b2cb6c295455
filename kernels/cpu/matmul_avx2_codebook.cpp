// AVX2 tier, types of 256 values that stand in a codebook.
#include "lanes256.h"
#include "matmul_avx2.h"
#include "matmul_fill.h"
#include "matmul_maddubs_codebook.h"

namespace tessera {
namespace {

struct Stride {
  static size_t stride(int cols) { return Record256(cols).stride; }
};

template <class Row>
void fill_wide(MatmulTable& table) {
  fill_row<MaddubsWide<Row>, CodebookRows<Row>, Stride>(table, Row::kType, "avx2");
}

}  // namespace

void fill_avx2_codebook(MatmulTable& table) { fill_wide<IQ4_XSRow>(table); }

}  // namespace tessera
