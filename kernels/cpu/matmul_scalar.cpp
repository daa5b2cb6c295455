// Scalar tier: the reference every other tier is tested against, and the fallback on unknown processors.
//
// A row is unpacked to small integers and scales (UnpackedRow), then multiplied with every token. All sums inside a
// block are exact int32; only scales are float. See README.md for formulas and bounds.
#include <cmath>
#include <cstring>

#include "half.h"
#include "matmul.h"
#include "unpack_codebook.h"

namespace tessera {
namespace {

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

float bfloat_to_float(uint16_t half) { return float_of(static_cast<uint32_t>(half) << 16); }

size_t padded(size_t bytes) { return (bytes + 63) & ~static_cast<size_t>(63); }

// ---- activations -------------------------------------------------------------------------------------------------

struct Packed32 {
  float scale, sum;  // sum of scale * q
  int8_t q[32];
};
struct Packed256 {
  float scale;
  int16_t sums[16];  // of q, per 16 values
  int8_t q[256];
};

// Quantises `count` floats with one scale: q = round(x / scale), |q| <= 127. Blocks that are not finite become NaN.
float quantize(const float* x, int count, float scale, int8_t* q) {
  const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  for (int i = 0; i < count; ++i) q[i] = static_cast<int8_t>(std::lrintf(x[i] * inverse));
  return scale;
}

float largest_magnitude(const float* x, int count) {
  uint32_t largest = 0;  // as bits, so that NaN counts as larger than anything
  for (int i = 0; i < count; ++i) {
    const uint32_t magnitude = bits_of(x[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return float_of(largest);
}

float scale_for(float largest) { return largest < 0x1p-100f ? 0.0f : largest / 127.0f; }

void pack_block(const float* x, Packed32& out) {
  const float largest = largest_magnitude(x, 32);
  if (!std::isfinite(largest)) {
    out = {NAN, NAN, {}};
    return;
  }
  out.scale = quantize(x, 32, scale_for(largest), out.q);
  int sum = 0;
  for (int8_t q : out.q) sum += q;
  out.sum = out.scale * static_cast<float>(sum);
}

void pack_block(const float* x, Packed256& out) {
  const float largest = largest_magnitude(x, 256);
  if (!std::isfinite(largest)) {
    out = {};
    out.scale = NAN;
    return;
  }
  out.scale = quantize(x, 256, scale_for(largest), out.q);
  int heaviest = 0;
  for (int j = 0; j < 16; ++j) {
    int magnitude = 0;
    for (int i = 0; i < 16; ++i) magnitude += std::abs(out.q[16 * j + i]);
    heaviest = magnitude > heaviest ? magnitude : heaviest;
  }
  // 16-bit accumulators of the vector tiers need sum |q| <= 1023 per 16 values: flat blocks get a coarser scale.
  if (heaviest > 1023) quantize(x, 256, out.scale *= static_cast<float>(heaviest) / 1006.0f, out.q);
  for (int j = 0; j < 16; ++j) {
    int sum = 0;
    for (int i = 0; i < 16; ++i) sum += out.q[16 * j + i];
    out.sums[j] = static_cast<int16_t>(sum);
  }
}

template <class Block, int kValues>
size_t packed_bytes(int tokens, int cols) {
  return padded(static_cast<size_t>(tokens) * (cols / kValues) * sizeof(Block));
}

template <class Block, int kValues>
void pack(const float* x, ptrdiff_t x_stride, const int32_t* index, int, int first, int last, int cols, uint8_t* out) {
  const int blocks = cols / kValues;
  Block* packed = reinterpret_cast<Block*>(out);
  for (int t = first; t < last; ++t) {
    const float* row = x + (index ? index[t] : t) * x_stride;
    for (int b = 0; b < blocks; ++b) pack_block(row + b * kValues, packed[static_cast<size_t>(t) * blocks + b]);
  }
}

template <class Block, int kValues>
void unpack(const uint8_t* packed, int, int t, int cols, float* out) {
  const int blocks = cols / kValues;
  const Block* block = reinterpret_cast<const Block*>(packed) + static_cast<size_t>(t) * blocks;
  for (int i = 0; i < cols; ++i)
    out[i] = block[i / kValues].scale * static_cast<float>(block[i / kValues].q[i % kValues]);
}

size_t packed_bytes_f32(int tokens, int cols) { return padded(static_cast<size_t>(tokens) * cols * sizeof(float)); }

void pack_f32(const float* x, ptrdiff_t x_stride, const int32_t* index, int, int first, int last, int cols,
              uint8_t* out) {
  for (int t = first; t < last; ++t)
    std::memcpy(out + static_cast<size_t>(t) * cols * sizeof(float), x + (index ? index[t] : t) * x_stride,
                cols * sizeof(float));
}

void unpack_f32(const uint8_t* packed, int, int t, int cols, float* out) {
  std::memcpy(out, packed + static_cast<size_t>(t) * cols * sizeof(float), cols * sizeof(float));
}

// ---- weights of the 32-value types: w = d * q + m ----------------------------------------------------------------

uint32_t load32(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

// Value i < 16 is the low nibble of byte i, value i + 16 its high nibble; `high` holds bit 4 of value i at bit i.
void nibbles(const uint8_t* qs, uint32_t high, int offset, int8_t* q) {
  for (int i = 0; i < 16; ++i) {
    q[i] = static_cast<int8_t>(((qs[i] & 15) | ((high >> i) & 1) << 4) - offset);
    q[i + 16] = static_cast<int8_t>(((qs[i] >> 4) | ((high >> (i + 16)) & 1) << 4) - offset);
  }
}

void unpack(const BlockQ4_0& b, Unpacked32& out) {
  out.d = half_to_float(b.d), out.m = 0.0f;
  nibbles(b.qs, 0, 8, out.q);
}
void unpack(const BlockQ4_1& b, Unpacked32& out) {
  out.d = half_to_float(b.d), out.m = half_to_float(b.m);
  nibbles(b.qs, 0, 0, out.q);
}
void unpack(const BlockQ5_0& b, Unpacked32& out) {
  out.d = half_to_float(b.d), out.m = 0.0f;
  nibbles(b.qs, load32(b.qh), 16, out.q);
}
void unpack(const BlockQ5_1& b, Unpacked32& out) {
  out.d = half_to_float(b.d), out.m = half_to_float(b.m);
  nibbles(b.qs, load32(b.qh), 0, out.q);
}
void unpack(const BlockQ8_0& b, Unpacked32& out) {
  out.d = half_to_float(b.d), out.m = 0.0f;
  std::memcpy(out.q, b.qs, 32);
}

// ---- weights of the K types: w = d * scale[i / 16] * q[i] - dmin * min[i / 16] -----------------------------------

// Eight 6-bit scales and mins in 12 bytes, shared by Q4_K and Q5_K; each counts for 32 values.
void scales_and_mins(const uint8_t* s, Unpacked256& out) {
  for (int j = 0; j < 8; ++j) {
    const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    const int min = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    out.scales[2 * j] = out.scales[2 * j + 1] = static_cast<int16_t>(scale);
    out.mins[2 * j] = out.mins[2 * j + 1] = static_cast<int16_t>(min);
  }
}

void unpack(const BlockQ2_K& b, Unpacked256& out) {
  out.d = half_to_float(b.d), out.dmin = half_to_float(b.dmin);
  for (int j = 0; j < 16; ++j) {
    out.scales[j] = b.scales[j] & 15;
    out.mins[j] = b.scales[j] >> 4;
  }
  for (int i = 0; i < 256; ++i) out.q[i] = (b.qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
}

void unpack(const BlockQ3_K& b, Unpacked256& out) {
  out.d = half_to_float(b.d), out.dmin = 0.0f;
  for (int j = 0; j < 16; ++j) {  // low 4 bits: nibbles of bytes 0..7; high 2 bits: bytes 8..11
    const int low = j < 8 ? b.scales[j] & 15 : b.scales[j - 8] >> 4;
    const int high = (b.scales[8 + j % 4] >> (j / 4 * 2)) & 3;
    out.scales[j] = static_cast<int16_t>((low | high << 4) - 32);
    out.mins[j] = 0;
  }
  for (int i = 0; i < 256; ++i) {
    const int low = (b.qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
    const int high = (b.hmask[i % 32] >> (i / 32)) & 1;
    out.q[i] = static_cast<int8_t>(low + 4 * high - 4);
  }
}

void unpack(const BlockQ4_K& b, Unpacked256& out) {
  out.d = half_to_float(b.d), out.dmin = half_to_float(b.dmin);
  scales_and_mins(b.scales, out);
  for (int i = 0; i < 256; ++i) out.q[i] = (b.qs[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 15;
}

void unpack(const BlockQ5_K& b, Unpacked256& out) {
  out.d = half_to_float(b.d), out.dmin = half_to_float(b.dmin);
  scales_and_mins(b.scales, out);
  for (int i = 0; i < 256; ++i) {
    const int low = (b.qs[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 15;
    out.q[i] = static_cast<int8_t>(low | ((b.qh[i % 32] >> (i / 32)) & 1) << 4);
  }
}

void unpack(const BlockQ6_K& b, Unpacked256& out) {
  out.d = half_to_float(b.d), out.dmin = 0.0f;
  for (int j = 0; j < 16; ++j) out.scales[j] = b.scales[j], out.mins[j] = 0;
  for (int i = 0; i < 256; ++i) {
    const int low = (b.ql[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4)) & 15;
    const int high = (b.qh[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
    out.q[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

// ---- products ----------------------------------------------------------------------------------------------------

int dot(const int8_t* a, const int8_t* b, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

float product(const Unpacked32& w, const Packed32& x) {
  return w.d * x.scale * static_cast<float>(dot(w.q, x.q, 32)) + w.m * x.sum;
}

float product(const Unpacked256& w, const Packed256& x) {
  int scaled = 0, mins = 0;
  for (int j = 0; j < 16; ++j) {
    scaled += w.scales[j] * dot(w.q + 16 * j, x.q + 16 * j, 16);
    mins += w.mins[j] * x.sums[j];
  }
  return x.scale * (w.d * static_cast<float>(scaled) - w.dmin * static_cast<float>(mins));
}

template <class Unpacked, int kValues>
size_t scratch_bytes(int cols) {
  return padded(cols / kValues * sizeof(Unpacked));
}

template <class Block, class Unpacked, class Packed, int kValues>
void multiply(const MatmulTask& task) {
  const int blocks = task.cols / kValues;
  Unpacked* row = reinterpret_cast<Unpacked*>(task.scratch);
  for (int r = 0; r < task.rows; ++r) {
    const uint8_t* weights = task.weights + r * task.row_bytes;
    for (int b = 0; b < blocks; ++b) {
      Block block;  // a copy, because blocks in a file may be unaligned
      std::memcpy(&block, weights + b * sizeof(Block), sizeof block);
      unpack(block, row[b]);
    }
    for (int t = 0; t < task.tokens; ++t) {
      const Packed* x = reinterpret_cast<const Packed*>(task.packed) + static_cast<size_t>(t) * blocks;
      float sum = 0.0f;
      for (int b = 0; b < blocks; ++b) sum += product(row[b], x[b]);
      task.out[t * task.out_stride + r] = sum;
    }
  }
}

void emit(const Unpacked32& w, float* out) {
  for (int i = 0; i < 32; ++i) out[i] = w.d * static_cast<float>(w.q[i]) + w.m;
}
void emit(const Unpacked256& w, float* out) {
  for (int i = 0; i < 256; ++i) {
    const float scale = w.d * static_cast<float>(w.scales[i / 16]), min = w.dmin * static_cast<float>(w.mins[i / 16]);
    out[i] = scale * static_cast<float>(w.q[i]) - min;
  }
}

template <class Block, class Unpacked, int kValues>
void dequantize(const uint8_t* weights, float* out, int cols) {
  for (int b = 0; b < cols / kValues; ++b) {
    Block block;
    std::memcpy(&block, weights + b * sizeof(Block), sizeof block);
    Unpacked unpacked;
    unpack(block, unpacked);
    emit(unpacked, out + b * kValues);
  }
}

// ---- float weights -----------------------------------------------------------------------------------------------

struct LoadF32 {
  static constexpr int kBytes = 4;
  static float at(const uint8_t* p) { return float_of(load32(p)); }
};
template <float (*kConvert)(uint16_t)>
struct Load16 {
  static constexpr int kBytes = 2;
  static float at(const uint8_t* p) { return kConvert(static_cast<uint16_t>(p[0] | p[1] << 8)); }
};

template <class Load>
void dequantize_float(const uint8_t* weights, float* out, int cols) {
  for (int i = 0; i < cols; ++i) out[i] = Load::at(weights + static_cast<size_t>(i) * Load::kBytes);
}

size_t scratch_bytes_float(int cols) { return padded(cols * sizeof(float)); }

template <class Load>
void multiply_float(const MatmulTask& task) {
  float* row = reinterpret_cast<float*>(task.scratch);
  for (int r = 0; r < task.rows; ++r) {
    dequantize_float<Load>(task.weights + r * task.row_bytes, row, task.cols);
    for (int t = 0; t < task.tokens; ++t) {
      const float* x = reinterpret_cast<const float*>(task.packed) + static_cast<size_t>(t) * task.cols;
      double sum = 0.0;
      for (int i = 0; i < task.cols; ++i) sum += static_cast<double>(row[i]) * x[i];
      task.out[t * task.out_stride + r] = static_cast<float>(sum);
    }
  }
}

int64_t int8_peak(int64_t iterations) {
  volatile int8_t source = 3;
  int8_t a[256], b[256];
  for (int i = 0; i < 256; ++i) a[i] = b[i] = source;
  int sum = 0;
  for (int64_t i = 0; i < iterations; ++i) {
    a[i & 255] ^= 1;
    sum += dot(a, b, 256);
  }
  volatile int sink = sum;
  (void)sink;
  return 256 * iterations;
}

template <class Block>
MatmulKernels kernels32() {
  return {"scalar",
          ActivationFormat::Q8_32,
          1,
          scratch_bytes<Unpacked32, 32>,
          multiply<Block, Unpacked32, Packed32, 32>,
          dequantize<Block, Unpacked32, 32>};
}
template <class Block>
MatmulKernels kernels256() {
  return {"scalar",
          ActivationFormat::Q8_256,
          1,
          scratch_bytes<Unpacked256, 256>,
          multiply<Block, Unpacked256, Packed256, 256>,
          dequantize<Block, Unpacked256, 256>};
}
template <class Load>
MatmulKernels kernels_float() {
  return {"scalar", ActivationFormat::F32, 1, scratch_bytes_float, multiply_float<Load>, dequantize_float<Load>};
}

}  // namespace

void fill_matmul_scalar(MatmulTable& table) {
  table.activations[static_cast<int>(ActivationFormat::F32)] = {1, packed_bytes_f32, pack_f32, unpack_f32};
  table.activations[static_cast<int>(ActivationFormat::Q8_32)] = {1, packed_bytes<Packed32, 32>, pack<Packed32, 32>,
                                                                  unpack<Packed32, 32>};
  table.activations[static_cast<int>(ActivationFormat::Q8_256)] = {1, packed_bytes<Packed256, 256>,
                                                                   pack<Packed256, 256>, unpack<Packed256, 256>};
  const auto row = [&](QuantType type) -> MatmulKernels& { return table.types[static_cast<int>(type)]; };
  row(QuantType::F32) = kernels_float<LoadF32>();
  row(QuantType::F16) = kernels_float<Load16<half_to_float>>();
  row(QuantType::BF16) = kernels_float<Load16<bfloat_to_float>>();
  row(QuantType::Q4_0) = kernels32<BlockQ4_0>();
  row(QuantType::Q4_1) = kernels32<BlockQ4_1>();
  row(QuantType::Q5_0) = kernels32<BlockQ5_0>();
  row(QuantType::Q5_1) = kernels32<BlockQ5_1>();
  row(QuantType::Q8_0) = kernels32<BlockQ8_0>();
  row(QuantType::Q2_K) = kernels256<BlockQ2_K>();
  row(QuantType::Q3_K) = kernels256<BlockQ3_K>();
  row(QuantType::Q4_K) = kernels256<BlockQ4_K>();
  row(QuantType::Q5_K) = kernels256<BlockQ5_K>();
  row(QuantType::Q6_K) = kernels256<BlockQ6_K>();
  row(QuantType::IQ4_NL) = kernels32<BlockIQ4_NL>();
  row(QuantType::IQ4_XS) = kernels256<BlockIQ4_XS>();
  row(QuantType::IQ2_XXS) = kernels256<BlockIQ2_XXS>();
  row(QuantType::IQ2_XS) = kernels256<BlockIQ2_XS>();
  row(QuantType::IQ2_S) = kernels256<BlockIQ2_S>();
  row(QuantType::IQ3_XXS) = kernels256<BlockIQ3_XXS>();
  row(QuantType::IQ3_S) = kernels256<BlockIQ3_S>();
  row(QuantType::IQ1_S) = kernels256<BlockIQ1_S>();
  row(QuantType::IQ1_M) = kernels256<BlockIQ1_M>();
  row(QuantType::TQ1_0) = kernels256<BlockTQ1_0>();
  row(QuantType::TQ2_0) = kernels256<BlockTQ2_0>();
  row(QuantType::MXFP4) = kernels32<BlockMXFP4>();
  table.int8_peak = int8_peak;
}

}  // namespace tessera
