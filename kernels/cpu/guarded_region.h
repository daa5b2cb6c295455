// Memory that may vanish: pages of a mapping whose backing store was cut off, or cannot be read.
//
// Touching such a page raises SIGBUS, which would end the process. Inside a guarded region the handler puts zero pages
// in its place, from the page touched to the region's end, and marks the region as lost; whoever read from it asks
// `lost` afterwards and throws the results away. Until then the guard costs nothing.
// On Windows a mapped file cannot be shortened, and the guard does nothing.
#pragma once
#include <cstddef>

namespace tessera {

class GuardedRegion {
 public:
  // [data, data + size): `data` on a page boundary. Throws std::runtime_error where all places are taken.
  GuardedRegion(const void* data, size_t size);
  ~GuardedRegion();
  GuardedRegion(const GuardedRegion&) = delete;
  GuardedRegion& operator=(const GuardedRegion&) = delete;

  bool lost() const;

 private:
  int place_ = -1;
};

// Reads a part of a file's mapping into memory and maps its pages all at once, which costs less than a fault each. What
// cannot be read is left for whoever touches it; so is everything where the system has no such call.
void populate_pages(const void* data, size_t size);

}  // namespace tessera
