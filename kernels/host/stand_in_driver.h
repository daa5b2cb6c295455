// What the two halves of the stand-in driver share: stand_in_driver.cpp (work) and stand_in_memory.cpp (memory).
#pragma once
#include <cstdint>

enum Status {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidContext = 201,
  kNotReady = 600,
  kNotFound = 500,
  kLaunchFailed = 719,
  kCaptureUnsupported = 900,
  kCaptureUnjoined = 904
};

#define API extern "C" __attribute__((visibility("default"))) int
#define NEEDS_CONTEXT \
  if (!has_context()) return kInvalidContext
#define COUNTED  \
  NEEDS_CONTEXT; \
  count_call(__func__)

bool has_context();  // is one current in this thread?
void count_call(const char* function);
int status();  // the error that poisoned the context, or kSuccess
