// AVX2 tier, float weights: F32, F16, BF16.
#include "lanes256.h"
#include "matmul_avx2.h"
#include "matmul_float.h"

namespace tessera {

void fill_avx2_float(MatmulTable& table) {
  fill_float<LoadF32>(table, QuantType::F32, "avx2");
  fill_float<LoadF16>(table, QuantType::F16, "avx2");
  fill_float<LoadBF16>(table, QuantType::BF16, "avx2");
}

}  // namespace tessera
