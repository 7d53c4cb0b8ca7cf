#include "lab/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rouse::lab {
namespace {

using ::testing::ElementsAre;

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

}  // namespace
}  // namespace rouse::lab
