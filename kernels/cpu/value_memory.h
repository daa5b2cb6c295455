// Where a program's values lie: those that are not needed at the same time share memory.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

#include "operations.h"

namespace tessera {

// What values need of memory, a bit per value and place in the program.
struct ValueUse {
  std::vector<int> widths;              // floats per row; 0: has memory elsewhere
  std::vector<bool> last;               // placed behind the others, because hardly anything touches it
  std::vector<std::vector<bool>> sets;  // values that are needed at the same time
  // Two values of one width that may be one memory where no set but these needs both: an operation reads a row of the
  // first and then writes that of the second.
  struct InPlace {
    size_t set;
    Handle x, out;
  };
  std::vector<InPlace> in_place;
};

// Floats that a row of a value takes.
size_t padded_width(int width);

// Begin of every value in floats per row, multiples of 16; how many floats a row of all takes.
std::pair<std::vector<size_t>, size_t> share_memory(const ValueUse& use);

}  // namespace tessera
