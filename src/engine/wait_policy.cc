// Sets libgomp's spin limit by way of exec.
#include "engine/wait_policy.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

namespace rouse::engine {

#if ROUSE_ENGINE_EDITS
void RestartWithShortSpins(const char* const* /*argv*/) {}
#else
void RestartWithShortSpins(const char* const* argv) {
  if (std::getenv(kSpinVariable) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv(kSpinVariable, kSpinCount, 1) != 0) return;
  // By its real path, so that the process keeps its name in /proc; through the link where the file
  // is gone meanwhile.
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  auto* const arguments = const_cast<char* const*>(argv);
  if (length > 0) execv(path.data(), arguments);
  execv("/proc/self/exe", arguments);
}
#endif

}  // namespace rouse::engine
