// CHECK(condition): a programmer's mistake ends the process, in release builds too, with the place
// and the condition on stderr. Never for what a user, a file or the kernel can cause.
#pragma once

namespace rouse::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace rouse::internal

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) [[unlikely]] {                                  \
      ::rouse::internal::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                                 \
  } while (false)
