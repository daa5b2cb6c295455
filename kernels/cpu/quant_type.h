// Tensor types of GGUF files: ids, block sizes and block layouts as they stand in the file (all little-endian).
// Source of the layouts: the GGUF specification and the ggml type table.
#pragma once
#include <cstdint>

namespace tessera {

enum class QuantType : int32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  IQ2_XXS = 16,
  IQ2_XS = 17,
  IQ3_XXS = 18,
  IQ1_S = 19,
  IQ4_NL = 20,
  IQ3_S = 21,
  IQ2_S = 22,
  IQ4_XS = 23,
  IQ1_M = 29,
  BF16 = 30,
  TQ1_0 = 34,
  TQ2_0 = 35,
  MXFP4 = 39,
};
inline constexpr int kQuantTypeCount = 40;  // size of tables indexed by the id; gaps are empty rows

struct BlockQ4_0 {
  uint16_t d;
  uint8_t qs[16];
};
struct BlockQ4_1 {
  uint16_t d, m;
  uint8_t qs[16];
};
struct BlockQ5_0 {
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct BlockQ5_1 {
  uint16_t d, m;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct BlockQ8_0 {
  uint16_t d;
  int8_t qs[32];
};
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d, dmin;
};
struct BlockQ3_K {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
};
struct BlockQ4_K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};
struct BlockQ5_K {
  uint16_t d, dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
struct BlockQ6_K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};
struct BlockIQ4_NL {
  uint16_t d;
  uint8_t qs[16];
};
struct BlockIQ4_XS {
  uint16_t d, scales_h;
  uint8_t scales_l[4], qs[128];
};
struct BlockIQ2_XXS {
  uint16_t d;
  uint8_t qs[64];  // per 32 values: four places, and a word of four times seven signs and a scale
};
struct BlockIQ2_XS {
  uint16_t d;
  uint8_t qs[64], scales[8];  // words of a place (9 bits) and seven signs
};
struct BlockIQ2_S {
  uint16_t d;
  uint8_t qs[32], signs[32], qh[8], scales[8];
};
struct BlockIQ3_XXS {
  uint16_t d;
  uint8_t qs[64], scales_and_signs[32];
};
struct BlockIQ3_S {
  uint16_t d;
  uint8_t qs[64], qh[8], signs[32], scales[4];
};
struct BlockIQ1_S {
  uint16_t d;
  uint8_t qs[32];
  uint16_t qh[8];  // four times three bits of places, a scale, the shift's sign
};
struct BlockIQ1_M {
  uint8_t qs[32], qh[16];  // a nibble of qh: three bits of a place, the shift's sign
  uint16_t scales[4];      // four times three bits, and four of d
};
struct BlockTQ1_0 {
  uint8_t qs[48], qh[4];
  uint16_t d;
};
struct BlockTQ2_0 {
  uint8_t qs[64];
  uint16_t d;
};
struct BlockMXFP4 {
  uint8_t e;  // exponent: the scale of twice the values is 2^(e - 128)
  uint8_t qs[16];
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ2_K) == 84);
static_assert(sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144 && sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210);
static_assert(sizeof(BlockIQ4_NL) == 18 && sizeof(BlockIQ4_XS) == 136 && sizeof(BlockMXFP4) == 17);
static_assert(sizeof(BlockIQ2_XXS) == 66 && sizeof(BlockIQ2_XS) == 74 && sizeof(BlockIQ2_S) == 82);
static_assert(sizeof(BlockIQ3_XXS) == 98 && sizeof(BlockIQ3_S) == 110 && sizeof(BlockIQ1_S) == 50);
static_assert(sizeof(BlockIQ1_M) == 56 && sizeof(BlockTQ1_0) == 54 && sizeof(BlockTQ2_0) == 66);

struct QuantTypeInfo {
  QuantType type;
  const char* name;
  int block_elements, block_bytes;
};

inline constexpr QuantTypeInfo kQuantTypes[] = {
    {QuantType::F32, "F32", 1, 4},
    {QuantType::F16, "F16", 1, 2},
    {QuantType::BF16, "BF16", 1, 2},
    {QuantType::Q4_0, "Q4_0", 32, 18},
    {QuantType::Q4_1, "Q4_1", 32, 20},
    {QuantType::Q5_0, "Q5_0", 32, 22},
    {QuantType::Q5_1, "Q5_1", 32, 24},
    {QuantType::Q8_0, "Q8_0", 32, 34},
    {QuantType::Q2_K, "Q2_K", 256, 84},
    {QuantType::Q3_K, "Q3_K", 256, 110},
    {QuantType::Q4_K, "Q4_K", 256, 144},
    {QuantType::Q5_K, "Q5_K", 256, 176},
    {QuantType::Q6_K, "Q6_K", 256, 210},
    {QuantType::IQ4_NL, "IQ4_NL", 32, 18},
    {QuantType::IQ4_XS, "IQ4_XS", 256, 136},
    {QuantType::MXFP4, "MXFP4", 32, 17},
    {QuantType::IQ2_XXS, "IQ2_XXS", 256, 66},
    {QuantType::IQ2_XS, "IQ2_XS", 256, 74},
    {QuantType::IQ2_S, "IQ2_S", 256, 82},
    {QuantType::IQ3_XXS, "IQ3_XXS", 256, 98},
    {QuantType::IQ3_S, "IQ3_S", 256, 110},
    {QuantType::IQ1_S, "IQ1_S", 256, 50},
    {QuantType::IQ1_M, "IQ1_M", 256, 56},
    {QuantType::TQ1_0, "TQ1_0", 256, 54},
    {QuantType::TQ2_0, "TQ2_0", 256, 66},
};

}  // namespace tessera
