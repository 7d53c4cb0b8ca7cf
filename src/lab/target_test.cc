#include "lab/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "base/fd.h"
#include "gguf/test_bytes.h"

namespace rouse::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What is proved in /proc/PID/cmdline afterwards is compared with these.
TEST(CommandTarget, FillsPortAndModelIntoArgumentsTooAndLeavesOthersAlone) {
  TargetSpec spec;
  spec.kind = TargetKind::kCommand;
  spec.command = "env";
  const Result<std::unique_ptr<Target>> target = MakeTarget(spec);
  ASSERT_TRUE(target.ok()) << target.error().message();
  const std::string url = (*target)->url();
  const std::string port = url.substr(url.rfind(':') + 1);
  EXPECT_THAT((*target)->FilledIn({"--port", "{port}", "X={port}:1", "{other}"}),
              ElementsAre("--port", port, "X=" + port + ":1", "{other}"));
}

// The state of one file would be set and proved, and the server would load the other.
TEST(CommandTarget, RefusesAModelFileThatItsCommandDoesNotLoad) {
  const gguf::TestFolder folder;
  const std::string loaded = folder.Write("loaded.gguf", gguf::SoundFile().str());
  const std::string other = folder.Write("other.gguf", gguf::SoundFile().str());
  TargetSpec spec;
  spec.kind = TargetKind::kCommand;
  spec.command = "env {port} {model}";
  spec.model = loaded;
  spec.model_file = other;
  const Result<std::unique_ptr<Target>> refused = MakeTarget(spec);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kUsage);
  EXPECT_THAT(refused.error().message(), HasSubstr(other + " is not the file"));
  EXPECT_THAT(refused.error().message(), HasSubstr(loaded));
  const std::string link = folder.path() + "/link.gguf";
  std::filesystem::create_symlink(loaded, link);
  spec.model_file = link;
  EXPECT_TRUE(MakeTarget(spec).ok());
  spec.model_file = other;
  spec.command = "env {port}";  // which file it loads is not told
  EXPECT_TRUE(MakeTarget(spec).ok());
}

// What decides whether a start is tried again: not the server's words, but who has the port.
TEST(CommandTarget, SeesThatAnotherProgramHasItsPort) {
  TargetSpec spec;
  spec.kind = TargetKind::kCommand;
  spec.command = "sh -c 'echo 22 GiB in use; exit 1'";
  const Result<std::unique_ptr<Target>> target = MakeTarget(spec);
  ASSERT_TRUE(target.ok()) << target.error().message();
  EXPECT_FALSE((*target)->PortTaken()) << "nothing was started yet";
  const auto start_and_wait = [&target] {
    ASSERT_TRUE((*target)->Spawn({}).ok());
    EXPECT_EQ((*target)->WaitReady(MonoNow() + 20 * kNsPerSecond).error().code(),
              ErrorCode::kState);
  };
  start_and_wait();
  EXPECT_FALSE((*target)->PortTaken());
  const std::string url = (*target)->url();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
  const Fd other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(other.get(), 1), 0);
  // That it accepts connections makes nobody ready who has ended.
  ASSERT_TRUE((*target)->Spawn({}).ok());
  while ((*target)->Alive()) RealClock().SleepFor(kNsPerMs);
  EXPECT_TRUE((*target)->PortTaken());
}

TEST(CommandTarget, ThatNeverListensIsWaitedForUntilAnInterrupt) {
  TargetSpec spec;
  spec.kind = TargetKind::kCommand;
  spec.command = "sleep 600";
  const Result<std::unique_ptr<Target>> target = MakeTarget(spec);
  std::atomic<bool> interrupt = false;
  (*target)->StopWaitingWhen(&interrupt);
  ASSERT_TRUE((*target)->Spawn({}).ok());
  std::thread user([&interrupt] {
    RealClock().SleepFor(100 * kNsPerMs);
    interrupt = true;
  });
  EXPECT_EQ((*target)->WaitReady(MonoNow() + 600 * kNsPerSecond).error().code(),
            ErrorCode::kInterrupted);
  user.join();
  EXPECT_TRUE((*target)->Stop(MonoNow() + 20 * kNsPerSecond).ok()) << "ending it is not cut short";
  EXPECT_FALSE((*target)->Alive());
}

}  // namespace
}  // namespace rouse::lab
