#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace rouse::internal {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "rouse: internal error at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace rouse::internal
