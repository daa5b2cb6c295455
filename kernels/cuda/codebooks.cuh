// Codebooks of GGUF's table types, as plain data that the CPU's compilers and the CUDA kernels' read alike.
// Source: ggml's ggml-common.h.
#pragma once

namespace tessera {

// IQ4_NL and IQ4_XS: what a nibble stands for.
constexpr signed char kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// MXFP4: twice the value of an E2M1 number.
constexpr signed char kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace tessera
