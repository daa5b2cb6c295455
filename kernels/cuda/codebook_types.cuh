// GGUF block types whose quants stand in a codebook, as slices of 32 weights (see quant_types.cuh).
#pragma once
#include "codebooks.cuh"
#include "quant_types.cuh"

namespace {

// A codebook of 16 values as four words, of which __byte_perm selects bytes.
struct Codebook {
  uint32_t words[4];
  constexpr explicit Codebook(const signed char (&values)[16]) : words{} {
    for (int i = 0; i < 16; ++i) words[i / 4] |= uint32_t(uint8_t(values[i])) << i % 4 * 8;
  }
};

// What four nibbles (bits 0 .. 15) stand for: by their low three bits in either half, then by the fourth bit.
inline uint32_t look_up_four(const Codebook& book, uint32_t nibbles) {
  const uint32_t select = nibbles & 0x7777;
  const uint32_t low = __byte_perm(book.words[0], book.words[1], select);
  const uint32_t high = __byte_perm(book.words[2], book.words[3], select);
  return __byte_perm(low, high, 0x3210 | (nibbles & 0x8888) >> 1);
}

// 16 bytes of nibbles, the low ones first.
inline void look_up(const Codebook& book, const uint32_t (&v)[4], Slice& s) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t a = look_up_four(book, v[i]), b = look_up_four(book, v[i] >> 16);
    s.q[i] = int(__byte_perm(a, b, 0x6420)), s.q[i + 4] = int(__byte_perm(a, b, 0x7531));
  }
}

struct iq4_nl {
  static constexpr int kValues = 32, kBytes = 18, kScales = 1;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int, Slice& s) {
    uint32_t v[4];
    load_words<2>(block + 2, v);
    s.scale[0] = load_half(block);
    look_up(Codebook(tessera::kIq4Values), v, s);
  }
};

struct iq4_xs {  // d, high bits of scales [2] (2 bits), low nibbles of scales [4], quants [128] (nibbles)
  static constexpr int kValues = 256, kBytes = 136, kScales = 1;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int slice, Slice& s) {
    uint32_t v[4];
    load_words<4>(block + 8 + 16 * slice, v);
    const uint32_t head = load_word<4>(block), low = load_word<4>(block + 4) >> 4 * slice & 15;
    s.scale[0] = half_to_float(uint16_t(head)) * float(int(low | (head >> (16 + 2 * slice) & 3) << 4) - 32);
    look_up(Codebook(tessera::kIq4Values), v, s);
  }
};

// 16 bytes from any address, by the aligned words in which they begin and the single bytes of one more.
inline void load_16_unaligned(const uint8_t* p, uint32_t (&v)[4]) {
  const uint32_t skew = uint32_t((unsigned long long)p & 3);
  const uint32_t* const words = (const uint32_t*)(p - skew);
  uint32_t last = 0;
#pragma unroll
  for (int k = 0; k < 3; ++k)
    if (k < int(skew)) last |= uint32_t(p[16 - skew + k]) << 8 * k;
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = __byte_perm(words[i], i < 3 ? words[i + 1] : last, 0x3210 + skew * 0x1111);
}

struct mxfp4 {  // exponent, quants [16] (nibbles); blocks are not aligned
  static constexpr int kValues = 32, kBytes = 17, kScales = 1;
  static constexpr bool kHasMin = false;
  static void unpack(const uint8_t* block, int, Slice& s) {
    uint32_t v[4];
    load_16_unaligned(block + 1, v);
    const uint32_t e = block[0];
    s.scale[0] = __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);  // 2^(e - 128)
    look_up(Codebook(tessera::kMxfp4Values), v, s);
  }
};

}  // namespace
