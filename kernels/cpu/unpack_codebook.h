// Private to the scalar tier: blocks of the codebook types, unpacked.
#pragma once
#include <cstring>

#include "../cuda/codebooks.cuh"
#include "grids.h"
#include "half.h"
#include "quant_type.h"
#include "unpacked.h"

namespace tessera {
namespace {

template <class Word>
Word load(const uint8_t* p) {
  Word word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// A codebook's values of 16 bytes' low nibbles, then of their high ones.
inline void look_up(const signed char* values, const uint8_t* qs, int8_t* q) {
  for (int i = 0; i < 16; ++i) q[i] = values[qs[i] & 15], q[i + 16] = values[qs[i] >> 4];
}

inline void unpack(const BlockIQ4_NL& b, Unpacked32& out) {
  out.d = half_to_float(b.d), out.m = 0.0f;
  look_up(kIq4Values, b.qs, out.q);
}
inline void unpack(const BlockMXFP4& b, Unpacked32& out) {
  const uint32_t bits = b.e < 2 ? 0x00200000u << b.e : (b.e - 1u) << 23;
  std::memcpy(&out.d, &bits, 4);
  out.m = 0.0f;
  look_up(kMxfp4Values, b.qs, out.q);
}

// Codebook types of 256 values have no mins; scale(j) is that of values 16j … 16j + 15.
template <class Scale>
void set_scales(Unpacked256& out, float d, Scale&& scale) {
  out.d = d, out.dmin = 0.0f;
  for (int j = 0; j < 16; ++j) out.scales[j] = static_cast<int16_t>(scale(j)), out.mins[j] = 0;
}
inline int nibble(const uint8_t* bytes, int i) { return (bytes[i / 2] >> i % 2 * 4) & 15; }

inline void unpack(const BlockIQ4_XS& b, Unpacked256& out) {
  set_scales(out, half_to_float(b.d),
             [&](int j) { return (nibble(b.scales_l, j / 2) | ((b.scales_h >> j / 2 * 2) & 3) << 4) - 32; });
  for (int s = 0; s < 8; ++s) look_up(kIq4Values, b.qs + 16 * s, out.q + 32 * s);
}

// Values of a grid, negative where a bit of `signs` is set.
template <class Word>
void put(Word values, unsigned signs, int8_t* q) {
  for (unsigned k = 0; k < sizeof(Word); ++k) {
    const int value = static_cast<int8_t>(values >> 8 * k);
    q[k] = static_cast<int8_t>(signs >> k & 1 ? -value : value);
  }
}
// Seven signs as eight: the last makes the number of negative values even.
inline unsigned even_signs(unsigned seven) {
  unsigned bits = seven & 127, odd = 0;
  for (unsigned v = bits; v; v >>= 1) odd ^= v & 1;
  return bits | odd << 7;
}

inline void unpack(const BlockIQ2_XXS& b, Unpacked256& out) {
  const auto signs = [&](int s) { return load<uint32_t>(b.qs + 8 * s + 4); };
  set_scales(out, half_to_float(b.d) * 0.125f, [&](int j) { return 2 * (signs(j / 2) >> 28) + 1; });
  for (int i = 0; i < 32; ++i)
    put(kGridIq2Xxs.at[b.qs[i / 4 * 8 + i % 4]], even_signs(signs(i / 4) >> i % 4 * 7), out.q + 8 * i);
}
inline void unpack(const BlockIQ2_XS& b, Unpacked256& out) {
  set_scales(out, half_to_float(b.d) * 0.125f, [&](int j) { return 2 * nibble(b.scales, j) + 1; });
  for (int i = 0; i < 32; ++i) {
    const unsigned word = load<uint16_t>(b.qs + 2 * i);
    put(kGridIq2Xs.at[word & 511], even_signs(word >> 9), out.q + 8 * i);
  }
}
inline void unpack(const BlockIQ2_S& b, Unpacked256& out) {
  set_scales(out, half_to_float(b.d) * 0.125f, [&](int j) { return 2 * nibble(b.scales, j) + 1; });
  for (int i = 0; i < 32; ++i)
    put(kGridIq2S.at[b.qs[i] | ((b.qh[i / 4] >> i % 4 * 2) & 3) << 8], b.signs[i], out.q + 8 * i);
}
inline void unpack(const BlockIQ3_XXS& b, Unpacked256& out) {
  const auto signs = [&](int s) { return load<uint32_t>(b.scales_and_signs + 4 * s); };
  set_scales(out, half_to_float(b.d) * 0.25f, [&](int j) { return 2 * (signs(j / 2) >> 28) + 1; });
  for (int i = 0; i < 64; ++i)
    put(kGridIq3Xxs.at[b.qs[i]], even_signs(signs(i / 8) >> i / 2 % 4 * 7) >> i % 2 * 4, out.q + 4 * i);
}
inline void unpack(const BlockIQ3_S& b, Unpacked256& out) {
  set_scales(out, half_to_float(b.d), [&](int j) { return 2 * nibble(b.scales, j / 2) + 1; });
  for (int i = 0; i < 64; ++i)
    put(kGridIq3S.at[b.qs[i] | ((b.qh[i / 8] >> i % 8) & 1) << 8], b.signs[i / 2] >> i % 2 * 4, out.q + 4 * i);
}

// A grid of -8, 0, 8 and what is added to each value.
inline void put_thin(unsigned place, int shift, int8_t* q) {
  put(kGridIq1.at[place], 0, q);
  for (int k = 0; k < 8; ++k) q[k] = static_cast<int8_t>(q[k] + shift);
}
inline void unpack(const BlockIQ1_S& b, Unpacked256& out) {
  set_scales(out, half_to_float(b.d) * 0.125f, [&](int j) { return 2 * ((b.qh[j / 2] >> 12) & 7) + 1; });
  for (int i = 0; i < 32; ++i) {
    const unsigned head = b.qh[i / 4];
    put_thin(b.qs[i] | (head >> i % 4 * 3 & 7) << 8, head >> 15 ? -1 : 1, out.q + 8 * i);
  }
}
inline void unpack(const BlockIQ1_M& b, Unpacked256& out) {
  unsigned d = 0;
  for (int i = 0; i < 4; ++i) d |= static_cast<unsigned>(b.scales[i] >> 12) << 4 * i;
  set_scales(out, half_to_float(static_cast<uint16_t>(d)) * 0.125f,
             [&](int j) { return 2 * ((b.scales[j / 4] >> j % 4 * 3) & 7) + 1; });
  for (int i = 0; i < 32; ++i) {
    const unsigned high = static_cast<unsigned>(nibble(b.qh, i));
    put_thin(b.qs[i] | (high & 7) << 8, high & 8 ? -1 : 1, out.q + 8 * i);
  }
}

inline void unpack(const BlockTQ2_0& b, Unpacked256& out) {
  set_scales(out, half_to_float(b.d), [](int) { return 1; });
  for (int i = 0; i < 256; ++i)
    out.q[i] = static_cast<int8_t>(((b.qs[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2) & 3) - 1);
}
// A byte is a fraction in base three: times a power of three, modulo one, its next digit comes first.
inline int8_t digit(uint8_t byte, int power) {
  for (; power > 0; --power) byte = static_cast<uint8_t>(byte * 3);
  return static_cast<int8_t>((byte * 3 >> 8) - 1);
}
inline void unpack(const BlockTQ1_0& b, Unpacked256& out) {
  set_scales(out, half_to_float(b.d), [](int) { return 1; });
  for (int i = 0; i < 160; ++i) out.q[i] = digit(b.qs[i % 32], i / 32);
  for (int i = 0; i < 80; ++i) out.q[160 + i] = digit(b.qs[32 + i % 16], i / 16);
  for (int i = 0; i < 16; ++i) out.q[240 + i] = digit(b.qh[i % 4], i / 4);
}

}  // namespace
}  // namespace tessera
