// Private to the AVX2 tier: its parts.
#pragma once
#include "matmul.h"

namespace tessera {

void fill_avx2_k(MatmulTable& table);
void fill_avx2_32(MatmulTable& table);
void fill_avx2_codebook(MatmulTable& table);
void fill_avx2_float(MatmulTable& table);

}  // namespace tessera
