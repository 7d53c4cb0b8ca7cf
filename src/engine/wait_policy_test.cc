#include "engine/wait_policy.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/fd.h"

namespace rouse::engine {
namespace {

// What the restarted program does: tells its environment instead of running tests.
constexpr char kProbeVariable[] = "ROUSE_WAIT_POLICY_PROBE";
[[maybe_unused]] const bool kProbed = [] {
  if (std::getenv(kProbeVariable) == nullptr) return false;
  const char* spins = std::getenv(kSpinVariable);
  std::printf("pid=%d parent=%d spins=%s\n", getpid(), getppid(), spins ? spins : "none");
  std::fflush(stdout);
  _exit(0);
}();

std::string OutputOfRestart(const char* name, const char* value) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    unsetenv(kSpinVariable);
    unsetenv("OMP_WAIT_POLICY");
    if (name != nullptr) setenv(name, value, 1);
    setenv(kProbeVariable, "1", 1);
    const char* argv[] = {"probe", nullptr};
    RestartWithShortSpins(argv);
    std::printf("returned\n");
    std::fflush(stdout);
    _exit(0);
  }
  close(ends[1]);
  std::string output;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = read(ends[0], buffer, sizeof buffer)) > 0) {
    output.append(buffer, static_cast<size_t>(n));
  }
  close(ends[0]);
  waitpid(pid, nullptr, 0);
  const std::string same = "pid=" + std::to_string(pid) + " parent=" + std::to_string(getpid());
  return output.find(same) == std::string::npos ? output : output + " same process";
}

#if ROUSE_ENGINE_EDITS
TEST(RestartWithShortSpins, IsNotNeededWithTheEditedEngine) {
  EXPECT_EQ(OutputOfRestart(nullptr, nullptr), "returned\n");
}
#else
TEST(RestartWithShortSpins, KeepsTheProcessAndSetsTheLimit) {
  const std::string output = OutputOfRestart(nullptr, nullptr);
  EXPECT_NE(output.find(std::string("spins=") + kSpinCount), std::string::npos) << output;
  EXPECT_NE(output.find("same process"), std::string::npos) << output;
}
#endif

TEST(RestartWithShortSpins, LeavesTheUsersChoiceAlone) {
  EXPECT_EQ(OutputOfRestart(kSpinVariable, "5"), "returned\n");
  EXPECT_EQ(OutputOfRestart("OMP_WAIT_POLICY", "active"), "returned\n");
}

}  // namespace
}  // namespace rouse::engine
