#include "arena.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tessera {
namespace {

constexpr size_t kHugePage = size_t{2} << 20, kPage = size_t{64} << 10;  // kPage: of any system, or several
constexpr size_t kMapped = size_t{128} << 10;  // from here on a mapping, which goes back to the system when it is freed

#if defined(__linux__)
// Zero pages that exist only once touched. Where huge pages fit, one more than asked for, to start at a multiple of
// their size.
uint8_t* map_pages(size_t bytes, size_t used) {
  const size_t spare = bytes >= kHugePage ? kHugePage : 0;
  void* const memory = mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (spare == 0) return static_cast<uint8_t*>(memory);
  const auto base = reinterpret_cast<uintptr_t>(memory), start = (base + kHugePage - 1) / kHugePage * kHugePage;
  if (start > base) munmap(memory, start - base);
  if (base + kHugePage > start) munmap(reinterpret_cast<void*>(start + bytes), base + kHugePage - start);
  // Only advice: a refusal changes nothing. Not for the end of what is used, where a huge page would hold more than
  // that.
  madvise(reinterpret_cast<void*>(start), std::min(used, bytes) / kHugePage * kHugePage, MADV_HUGEPAGE);
  return reinterpret_cast<uint8_t*>(start);
}
#endif

}  // namespace

Arena::Arena(size_t bytes, [[maybe_unused]] size_t used) {
  if (bytes == 0) return;
  if (bytes > std::numeric_limits<size_t>::max() / 4) throw std::bad_alloc();
  size_ = aligned_size(bytes);
#if defined(__linux__)
  if (size_ >= kMapped) {
    size_ = (bytes + kPage - 1) / kPage * kPage;
    data_ = map_pages(size_, used);
    return;
  }
#endif
#if defined(_WIN32)
  data_ = static_cast<uint8_t*>(_aligned_malloc(size_, 64));
#else
  data_ = static_cast<uint8_t*>(std::aligned_alloc(64, size_));
#endif
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_, 0, size_);
}

Arena::~Arena() {
#if defined(_WIN32)
  _aligned_free(data_);
#else
#if defined(__linux__)
  if (size_ >= kMapped) {
    munmap(data_, size_);
    return;
  }
#endif
  std::free(data_);
#endif
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, size_t{0})) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void Arena::reserve(size_t bytes) {
  if (bytes > size_) *this = Arena(bytes);
}

}  // namespace tessera
