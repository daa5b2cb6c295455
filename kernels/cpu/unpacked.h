// Private to the scalar tier: a block of weights as small integers and scales.
#pragma once
#include <cstdint>

namespace tessera {
namespace {

struct Unpacked32 {  // w = d * q + m
  float d, m;
  int8_t q[32];
};

struct Unpacked256 {  // w = d * scale[i / 16] * q[i] - dmin * min[i / 16]
  float d, dmin;
  int16_t scales[16], mins[16];
  int8_t q[256];
};

}  // namespace
}  // namespace tessera
