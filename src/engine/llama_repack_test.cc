// LlamaEngine with --repack auto: mapped first, repacked when nobody waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/llama_engine.h"
#include "engine/test_synth.h"

namespace rouse::engine {
namespace {

using testing::HasSubstr;

class LlamaRepackTest : public testing::Test {
 protected:
  void SetUp() override { path_ = WriteSmallModel(SmallShapes()[0]); }
  void TearDown() override {
    unlink(path_.c_str());
    if (!system_root_.empty()) std::filesystem::remove_all(system_root_);
  }

  // Of engines that are made afterwards.
  void SetAvailableMemory(int64_t bytes) {
    system_root_ = testing::TempDir() + "rouse-repack-root-" + std::to_string(getpid());
    std::filesystem::create_directories(system_root_ + "/proc");
    std::ofstream(system_root_ + "/proc/meminfo") << "MemAvailable: " << bytes / 1024 << " kB\n";
  }

  std::unique_ptr<Engine> Loaded(RepackMode mode) const {
    EngineOptions options;
    options.system_root = system_root_;
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

  // With the repacked layout swapped in; `ask`: while a prefix of the mapped one was kept. On a
  // busy machine the one probe may find it no faster, so there are some tries; null: it never was.
  std::unique_ptr<Engine> Improved(bool ask) const {
    for (int tries = 0; tries < 20; ++tries) {
      auto engine = Loaded(RepackMode::kAuto);
      if (ask) {
        Ask(*engine);
        EXPECT_TRUE(engine->Sleep().ok());
        EXPECT_TRUE(engine->Load({}, {}).ok());
        EXPECT_EQ(engine->Facts()->kept_prefixes, 1);
      }
      EXPECT_TRUE(engine->Improve({}).ok());
      if (engine->Facts()->repacked) return engine;
    }
    return nullptr;
  }

  static void LoadForPrompt(Engine& engine, int64_t prompt_tokens) {
    engine.StartLoad({.stop = {}, .observer = {}, .done = {}, .prompt_tokens = prompt_tokens});
    EXPECT_TRUE(engine.FinishLoad().ok());
  }

  std::string path_;
  std::string system_root_;
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
    LoadForPrompt(*engine, pays ? break_even : break_even - 1);
    EXPECT_EQ(engine->Facts()->repacked, pays);
    EXPECT_EQ(Ask(*engine), pays ? repacked : mapped);
  }
}

TEST_F(LlamaRepackTest, RepacksWhileLoadingOnlyWhereThereIsMemoryForTheCopy) {
  SetAvailableMemory(int64_t{4} << 30);
  const auto engine = Improved(/*ask=*/false);
  if (engine == nullptr) GTEST_SKIP() << "the repacked layout is no faster here";
  const int64_t prompt_tokens = engine->Facts()->repack_break_even_tokens.value();
  for (const bool room : {false, true}) {
    engine->Unload();
    SetAvailableMemory(room ? int64_t{4} << 30 : int64_t{500} << 20);
    LoadForPrompt(*engine, prompt_tokens);
    EXPECT_EQ(engine->Facts()->repacked, room);
  }
}

TEST_F(LlamaRepackTest, TellsThatKeptPrefixesWentWithTheirLayout) {
  const auto engine = Improved(/*ask=*/true);
  if (engine == nullptr) GTEST_SKIP() << "the repacked layout is no faster here";
  EXPECT_EQ(engine->Facts()->kept_prefixes, 0);
  EXPECT_EQ(engine->Facts()->kept_prefix_bytes, 0);
  // What the repacked one kept goes when the next load takes the mapped layout.
  Ask(*engine);
  engine->Unload();
  ASSERT_EQ(engine->Facts()->kept_prefixes, 1);
  ASSERT_TRUE(engine->Load({}, {}).ok());
  EXPECT_FALSE(engine->Facts()->repacked);
  EXPECT_EQ(engine->Facts()->kept_prefixes, 0);
  EXPECT_EQ(engine->Facts()->kept_prefix_bytes, 0);
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
