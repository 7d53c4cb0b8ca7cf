#include "lab/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

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

}  // namespace
}  // namespace rouse::lab
