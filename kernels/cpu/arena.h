// Zeroed, 64-byte aligned memory for activations and scratch; large arenas ask for huge pages.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tessera {

class Arena {
 public:
  Arena() = default;
  explicit Arena(size_t bytes) : Arena(bytes, bytes) {}  // throws std::bad_alloc
  Arena(size_t bytes, size_t used);                      // what lies behind `used` is hardly ever touched
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Makes room for at least `bytes`; what was there is lost. Throws std::bad_alloc and then keeps the old memory.
  void reserve(size_t bytes);
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// Bytes rounded up so that what follows is 64-byte aligned.
[[maybe_unused]] static inline size_t aligned_size(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace tessera
