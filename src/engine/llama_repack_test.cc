// LlamaEngine with --repack auto: mapped first, repacked when nobody waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/llama_engine.h"
#include "engine/test_synth.h"

namespace rouse::engine {
namespace {

using testing::HasSubstr;

class LlamaRepackTest : public testing::Test {
 protected:
  void SetUp() override { path_ = WriteSmallModel(SmallShapes()[0]); }
  void TearDown() override { unlink(path_.c_str()); }

  std::unique_ptr<Engine> Loaded(RepackMode mode) const {
    EngineOptions options;
    options.model_path = path_;
    options.threads = 1;
    options.repack = mode;
    auto engine = MakeLlamaEngine(options).value();
    EXPECT_TRUE(engine->Load({}, {}).ok());
    return engine;
  }

  static std::string Ask(Engine& engine) {
    GenerateRequest request;
    for (int i = 0; i < 60; ++i) request.prompt.push_back(static_cast<Token>(300 + i * 11));
    request.sampling.temperature = 0;
    request.max_tokens = 16;
    request.ignore_end = true;
    std::string text;
    const auto report = engine.Generate(request,
                                        [&](const Piece& piece) {
                                          text += piece.text;
                                          return true;
                                        },
                                        {});
    EXPECT_TRUE(report.ok());
    return text;
  }

  std::string path_;
};

TEST_F(LlamaRepackTest, AnswersFromTheFileFirstAndFromTheRepackedLayoutLater) {
  const std::string mapped = Ask(*Loaded(RepackMode::kOff));
  const std::string repacked = Ask(*Loaded(RepackMode::kOn));
  const auto engine = Loaded(RepackMode::kAuto);
  EXPECT_FALSE(engine->Facts()->repacked);
  EXPECT_EQ(Ask(*engine), mapped);
  const Result<std::string> told = engine->Improve({});
  ASSERT_TRUE(told.ok()) << told.error().message();
  EXPECT_EQ(engine->Improve({}).value(), "") << "once";
  if (!engine->Facts()->repacked) {
    // So small a model may compute no faster; then it says so and nothing changes.
    EXPECT_THAT(*told, HasSubstr("no faster"));
    EXPECT_EQ(Ask(*engine), mapped);
    return;
  }
  EXPECT_THAT(*told, HasSubstr("computed the prefix again"));
  EXPECT_GT(engine->Facts()->repack_break_even_tokens.value(), 0);
  EXPECT_GT(engine->Facts()->prefix_tokens, 0);
  EXPECT_EQ(Ask(*engine), repacked);
  EXPECT_FALSE(engine->Sleep().ok()) << "private memory can only be unloaded";
  engine->Unload();
  EXPECT_TRUE(engine->Load({}, {}).ok());
  EXPECT_FALSE(engine->Facts()->repacked) << "nobody waits with a long prompt";
  EXPECT_EQ(Ask(*engine), mapped);
  const int64_t break_even = engine->Facts()->repack_break_even_tokens.value();
  for (const bool pays : {true, false}) {
    engine->Unload();
    engine->StartLoad({.stop = {},
                       .observer = {},
                       .done = {},
                       .prompt_tokens = pays ? break_even : break_even - 1});
    ASSERT_TRUE(engine->FinishLoad().ok());
    EXPECT_EQ(engine->Facts()->repacked, pays);
    EXPECT_EQ(Ask(*engine), pays ? repacked : mapped);
  }
}

TEST_F(LlamaRepackTest, IsStoppedAndTriesAgain) {
  const auto engine = Loaded(RepackMode::kAuto);
  std::stop_source stop;
  stop.request_stop();
  const Result<std::string> stopped = engine->Improve(stop.get_token());
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code(), ErrorCode::kInterrupted);
  EXPECT_NE(engine->Improve({}).value(), "");
}

TEST_F(LlamaRepackTest, DoesNothingWhereItIsOff) {
  EXPECT_EQ(Loaded(RepackMode::kOff)->Improve({}).value(), "");
}

TEST(RepackBreakEven, IsWhatBuildingTakesOverWhatATokenSaves) {
  EXPECT_EQ(RepackBreakEven(700, 320, 100, 10), 32);  // 22 saved a token
  EXPECT_EQ(RepackBreakEven(700, 100, 100, 10), std::nullopt);
  EXPECT_EQ(RepackBreakEven(700, 100, 200, 10), std::nullopt);
  EXPECT_EQ(RepackBreakEven(0, 200, 100, 10), std::nullopt);
}

}  // namespace
}  // namespace rouse::engine
