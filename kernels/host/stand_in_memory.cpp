// The stand-in driver's contexts and memory; see stand_in_driver.cpp.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "stand_in_driver.h"

namespace {

constexpr size_t kChunk = 2 << 20;  // what physical memory comes in
struct Context {};
struct Card {
  std::mutex mutex;
  size_t total = size_t{8} << 30, used = 0, context_bytes = 96 << 20, pinned = 0, pinned_limit = ~size_t{0};
  size_t fail_at = 0, allocations = 0;  // the allocation of that number fails, once
  Context primary;
  int primary_users = 0;
  std::map<std::string, uint64_t> calls;

  int take(size_t size) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (++allocations == fail_at || size > total - used) return kOutOfMemory;
    used += size;
    return kSuccess;
  }
  void give_back(size_t size) {
    const std::lock_guard<std::mutex> lock(mutex);
    used -= size;
  }
};
Card& card = *new Card;
thread_local Context* current = nullptr;

struct Allocation {
  size_t size;
};
std::map<void*, size_t>& allocated = *new std::map<void*, size_t>;  // by cuMemAlloc and cuMemHostAlloc

int forget(void* address, size_t* size) {
  const std::lock_guard<std::mutex> lock(card.mutex);
  const auto found = allocated.find(address);
  if (found == allocated.end()) return kInvalidValue;
  *size = found->second;
  allocated.erase(found);
  return kSuccess;
}
void remember(void* address, size_t size) {
  const std::lock_guard<std::mutex> lock(card.mutex);
  allocated[address] = size;
}

}  // namespace

bool has_context() { return current && (current != &card.primary || card.primary_users > 0); }
void count_call(const char* function) {
  const std::lock_guard<std::mutex> lock(card.mutex);
  ++card.calls[function];
}

API stand_in_set_memory(size_t total, size_t context_bytes, size_t pinned_limit) {
  const std::lock_guard<std::mutex> lock(card.mutex);
  card.total = total, card.context_bytes = context_bytes, card.pinned_limit = pinned_limit;
  return kSuccess;
}
// Of the allocations from now on, the one of that number fails; 0: none.
API stand_in_fail_allocation(size_t number) {
  const std::lock_guard<std::mutex> lock(card.mutex);
  card.fail_at = number ? card.allocations + number : 0;
  return kSuccess;
}
extern "C" __attribute__((visibility("default"))) size_t stand_in_used() { return card.used; }
extern "C" __attribute__((visibility("default"))) uint64_t stand_in_calls(const char* function) {
  const std::lock_guard<std::mutex> lock(card.mutex);
  return card.calls[function];
}

API cuDriverGetVersion(int* version) { return *version = 13000, kSuccess; }
API cuDeviceGetCount(int* count) { return *count = 1, kSuccess; }
API cuDeviceGet(int* device, int) { return *device = 0, kSuccess; }
API cuDeviceGetName(char* name, int size, int) { return std::snprintf(name, size, "Stand-in"), kSuccess; }
API cuDeviceTotalMem_v2(size_t* size, int) { return *size = card.total, kSuccess; }
API cuDevicePrimaryCtxRetain(Context** context, int) {
  if (card.primary_users == 0)
    if (const int code = card.take(card.context_bytes)) return code;
  ++card.primary_users;
  return *context = &card.primary, kSuccess;
}
API cuDevicePrimaryCtxRelease_v2(int) {
  if (card.primary_users == 0) return kInvalidContext;
  if (--card.primary_users == 0) card.give_back(card.context_bytes);
  return kSuccess;
}
API cuCtxCreate_v2(Context** context, unsigned, int) {
  if (const int code = card.take(card.context_bytes)) return code;
  return *context = current = new Context, kSuccess;
}
API cuCtxDestroy_v2(Context* context) {
  if (current == context) current = nullptr;
  card.give_back(card.context_bytes);
  return delete context, kSuccess;
}
API cuCtxSetCurrent(Context* context) { return current = context, kSuccess; }
API cuDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 13:
      return *value = 1500000, kSuccess;  // clock in kHz
    case 16:
      return *value = 20, kSuccess;  // processors
    case 17:
      return *value = 0, kSuccess;  // no time limit, so no display
    case 35:
      return *value = 0, kSuccess;  // WDDM's kind of driver, where there is a choice
    case 36:
      return *value = 7000000, kSuccess;  // memory's clock in kHz
    case 37:
      return *value = 192, kSuccess;  // memory's bus in bits
    case 75:
      return *value = 7, kSuccess;
    case 76:
      return *value = 5, kSuccess;
    case 102:
      return *value = 1, kSuccess;  // virtual memory management
    default:
      return kInvalidValue;
  }
}
API cuMemGetInfo_v2(size_t* free, size_t* total) {
  NEEDS_CONTEXT;
  return *free = card.total - card.used, *total = card.total, kSuccess;
}
API cuMemAlloc_v2(void** address, size_t size) {
  COUNTED;
  if (const int code = card.take(size)) return code;
  *address = std::aligned_alloc(256, (size + 255) / 256 * 256);
  return remember(*address, size), kSuccess;
}
API cuMemFree_v2(void* address) {
  NEEDS_CONTEXT;
  size_t size = 0;
  if (const int code = forget(address, &size)) return code;
  return std::free(address), card.give_back(size), kSuccess;
}
API cuMemHostAlloc(void** address, size_t size, unsigned) {
  COUNTED;
  {
    const std::lock_guard<std::mutex> lock(card.mutex);
    if (card.pinned + size > card.pinned_limit) return kOutOfMemory;
    card.pinned += size;
  }
  *address = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  return remember(*address, size), kSuccess;
}
API cuMemFreeHost(void* address) {
  NEEDS_CONTEXT;
  size_t size = 0;
  if (const int code = forget(address, &size)) return code;
  const std::lock_guard<std::mutex> lock(card.mutex);
  card.pinned -= size;
  return std::free(address), kSuccess;
}

API cuMemGetAllocationGranularity(size_t* size, const void*, int) { return *size = kChunk, kSuccess; }
API cuMemAddressReserve(char** address, size_t size, size_t, void*, unsigned long long) {
  NEEDS_CONTEXT;
  if (size % kChunk) return kInvalidValue;
  void* const found = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return found == MAP_FAILED ? kOutOfMemory : (*address = static_cast<char*>(found), kSuccess);
}
API cuMemAddressFree(void* address, size_t size) { return munmap(address, size) ? kInvalidValue : kSuccess; }
API cuMemCreate(Allocation** handle, size_t size, const void*, unsigned long long) {
  COUNTED;
  if (size % kChunk) return kInvalidValue;
  if (const int code = card.take(size)) return code;
  return *handle = new Allocation{size}, kSuccess;
}
API cuMemRelease(Allocation* handle) {
  NEEDS_CONTEXT;
  return card.give_back(handle->size), delete handle, kSuccess;
}
API cuMemMap(void*, size_t size, size_t, Allocation* handle, unsigned long long) {
  NEEDS_CONTEXT;
  return size == handle->size ? kSuccess : kInvalidValue;
}
API cuMemSetAccess(void* address, size_t size, const void*, size_t) {
  NEEDS_CONTEXT;
  if (mprotect(address, size, PROT_READ | PROT_WRITE)) return kInvalidValue;
  return std::memset(address, 0xff, size), kSuccess;
}
API cuMemUnmap(void* address, size_t size) {  // waits for nothing: who still reads there, ends the process
  NEEDS_CONTEXT;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return mmap(address, size, PROT_NONE, flags, -1, 0) == address ? kSuccess : kInvalidValue;
}
