// AVX2 tier, types of 256 values that stand in a codebook.
#include <type_traits>

#include "lanes256.h"
#include "matmul_avx2.h"
#include "matmul_fill.h"
#include "matmul_maddubs_codebook.h"

namespace tessera {
namespace {

struct Stride {
  static size_t stride(int cols) { return Record256(cols).stride; }
};

}  // namespace

void fill_avx2_codebook(MatmulTable& table) {
  each_codebook_row([&]<class Row>() {
    using Kernel = std::conditional_t<Row::kWide, MaddubsWide<Row>, MaddubsK<NarrowCodebook<Row>>>;
    fill_row<Kernel, typename Row::Product, Stride>(table, Row::kType, "avx2");
  });
}

}  // namespace tessera
