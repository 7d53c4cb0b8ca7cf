// LlamaEngine asleep, unloaded, woken: the memory that is given back, and that answers stay the
// same bit by bit, since the logits of each step decide a greedy token.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <semaphore>

#include "engine/engine.h"
#include "engine/model_file.h"
#include "engine/test_model.h"
#include "gguf/synthetic.h"

namespace rouse::engine {
namespace {

using testing::HasSubstr;

class Watcher final : public MappingWatcher {
 public:
  void Mapped(const std::vector<FileMapping>& mappings) override {
    const std::scoped_lock lock(mutex);
    mapped = mappings;
    ++told;
  }
  void AboutToUnmap() override {
    const std::scoped_lock lock(mutex);
    mapped.clear();
    ++gone;
  }
  std::mutex mutex;
  std::vector<FileMapping> mapped;
  int told = 0;
  int gone = 0;
};

// Holds a load where its weights are mapped, until it may go on.
class Gate final : public MappingWatcher {
 public:
  void Mapped(const std::vector<FileMapping>&) override {
    in_time = may_go_on.try_acquire_for(std::chrono::seconds(30));
  }
  void AboutToUnmap() override {}
  std::binary_semaphore may_go_on{0};
  bool in_time = false;
};

class LlamaSleepTest : public testing::Test {
 protected:
  static std::unique_ptr<Engine> Make(EngineOptions options = {}) {
    if (options.model_path.empty()) options.model_path = TestModelPath();
    if (options.threads == 0) options.threads = 1;
    return MakeLlamaEngine(std::move(options)).value();
  }

  static void Load(Engine& engine) {
    const Result<LoadReport> report = engine.Load({}, {});
    ASSERT_TRUE(report.ok()) << report.error().message();
  }

  struct Answer {
    std::string text;
    int64_t cached = 0;
    bool operator==(const Answer& other) const { return text == other.text; }
  };

  // Greedy, of a prompt of `words` words.
  static Answer Ask(Engine& engine, int words = 12, int64_t tokens = 12) {
    std::string text = "Once upon a time";
    for (int i = 0; i < words; ++i) text += " there was number " + std::to_string(i * 7);
    GenerateRequest request;
    request.prompt = engine.Tokenize(text, {}).value();
    request.sampling.temperature = 0;
    request.max_tokens = tokens;
    Answer answer;
    const Result<GenerateReport> report = engine.Generate(request,
                                                          [&](const Piece& piece) {
                                                            answer.text += piece.text;
                                                            return true;
                                                          },
                                                          {});
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message());
    if (report.ok()) answer.cached = report->cached_tokens;
    return answer;
  }
};

TEST_F(LlamaSleepTest, GivesMemoryBackAndAnswersTheSame) {
  ROUSE_NEED_MODEL(path);
  const auto watcher = std::make_shared<Watcher>();
  const auto engine = Make({.context_tokens = 2048, .watcher = watcher});
  Load(*engine);
  const Answer first = Ask(*engine);
  EXPECT_EQ(Ask(*engine), first);  // with the prefix
  const int64_t before = ResidentBytes().value();
  const Status slept = engine->Sleep();
  ASSERT_TRUE(slept.ok()) << slept.error().message();
  const auto asleep = engine->Facts();
  EXPECT_EQ(asleep->tier, Tier::kAsleep);
  EXPECT_EQ(asleep->kept_prefixes, 1);
  EXPECT_EQ(asleep->prefix_tokens, 0);
  // At least the weights' pages are gone.
  EXPECT_LT(ResidentBytes().value(), before - *asleep->weights_mapped_bytes / 2);
  EXPECT_LT(asleep->asleep_cost.process_bytes.value(), before);
  // Twice is no mistake, and gives back what has come into the process since.
  for (const FileMapping& mapping : watcher->mapped) {
    for (int64_t at = 0; at < mapping.bytes; at += 4096) {
      static_cast<void>(*static_cast<const volatile std::byte*>(mapping.address + at));
    }
  }
  ASSERT_GT(ResidentBytes().value(), before - *asleep->weights_mapped_bytes / 2);
  EXPECT_TRUE(engine->Sleep().ok());
  EXPECT_LT(ResidentBytes().value(), before - *asleep->weights_mapped_bytes / 2);
  const Result<GenerateReport> refused = engine->Generate({.prompt = {1, 2}}, {}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kState) << "the caller wakes it";

  const LoadReport woken = engine->Load({}, {}).value();
  EXPECT_EQ(woken.from, Tier::kAsleep);
  EXPECT_EQ(engine->Facts()->tier, Tier::kReady);
  EXPECT_TRUE(engine->Facts()->asleep_cost.wake_ns.has_value());
  const Answer after = Ask(*engine);
  EXPECT_EQ(after, first);
  EXPECT_GT(after.cached, 40) << "the prefix was kept in memory";
}

// The whole prompt is computed anew, on memory that was given back.
TEST_F(LlamaSleepTest, AnswersTheSameWithoutAKeptPrefix) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Make({.kept_prefix_bytes = 0});
  Load(*engine);
  const Answer first = Ask(*engine);
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(engine->Sleep().ok());
    EXPECT_EQ(engine->Facts()->kept_prefixes, 0);
    Load(*engine);
    const Answer after = Ask(*engine);
    EXPECT_EQ(after, first);
    EXPECT_EQ(after.cached, 0);
  }
}

TEST_F(LlamaSleepTest, KeepsThePrefixOverAnUnload) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Make();
  Load(*engine);
  const Answer first = Ask(*engine);
  engine->Unload();
  EXPECT_EQ(engine->Facts()->tier, Tier::kUnloaded);
  EXPECT_GT(engine->Facts()->kept_prefix_bytes, 0);
  const LoadReport report = engine->Load({}, {}).value();
  EXPECT_EQ(report.from, Tier::kUnloaded);
  EXPECT_TRUE(report.tokenizer_kept);
  const Answer after = Ask(*engine);
  EXPECT_EQ(after, first);
  EXPECT_GT(after.cached, 40);
  // From asleep to unloaded, too.
  ASSERT_TRUE(engine->Sleep().ok());
  engine->Unload();
  EXPECT_FALSE(engine->Sleep().ok()) << "nothing is loaded";
  Load(*engine);
  EXPECT_EQ(Ask(*engine), first);
}

TEST_F(LlamaSleepTest, TellsTheWatcherWhereTheFileIsMapped) {
  ROUSE_NEED_MODEL(path);
  const auto watcher = std::make_shared<Watcher>();
  EngineOptions options;
  options.watcher = watcher;
  auto engine = Make(options);
  Load(*engine);
  ASSERT_EQ(watcher->mapped.size(), 1U);
  const FileMapping mapping = watcher->mapped.front();
  EXPECT_EQ(mapping.path, path);
  EXPECT_GT(mapping.bytes, 50 << 20);
  // The mapping holds the file's own bytes.
  std::ifstream file(path, std::ios::binary);
  for (const int64_t at : {int64_t{0}, mapping.bytes / 2, mapping.bytes - 4096}) {
    std::string bytes(4096, '\0');
    file.seekg(mapping.file_offset + at);
    file.read(bytes.data(), 4096);
    EXPECT_EQ(std::memcmp(bytes.data(), mapping.address + at, bytes.size()), 0) << at;
  }
  ASSERT_TRUE(engine->Sleep().ok());
  EXPECT_EQ(watcher->gone, 0) << "the mapping stays";
  Load(*engine);
  EXPECT_EQ(watcher->told, 1);
  engine->Unload();
  EXPECT_EQ(watcher->gone, 1);
  Load(*engine);
  EXPECT_EQ(watcher->told, 2);
  engine = nullptr;
  EXPECT_EQ(watcher->gone, 2);
}

TEST_F(LlamaSleepTest, CannotSleepOnWeightsInPrivateMemory) {
  ROUSE_NEED_MODEL(path);
  EngineOptions options;
  options.map_file = false;
  const auto engine = Make(options);
  Load(*engine);
  const Answer first = Ask(*engine);
  const Status slept = engine->Sleep();
  ASSERT_FALSE(slept.ok());
  EXPECT_EQ(slept.error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(engine->Facts()->tier, Tier::kReady);
  EXPECT_EQ(Ask(*engine), first) << "nothing was done";
}

TEST_F(LlamaSleepTest, LocksTheLeadingPartWhenNobodyWaitsAndKeepsItOverAnUnload) {
  ROUSE_NEED_MODEL(path);
  EngineOptions options;
  options.keep_leading_bytes = 1 << 20;
  const auto engine = Make(options);
  EXPECT_EQ(engine->Improve({}).value(), "") << "nothing is known of the file yet";
  Load(*engine);
  const std::string told = engine->Improve({}).value();
  EXPECT_THAT(told, HasSubstr("locked"));
  const auto facts = engine->Facts();
  ASSERT_TRUE(facts->locked_bytes.has_value());
  if (facts->locked_problem.empty()) {
    EXPECT_GE(*facts->locked_bytes, 1 << 20);
  }
  EXPECT_LT(*facts->locked_bytes, 3 << 20);
  EXPECT_EQ(engine->Improve({}).value(), "") << "once";
  engine->Unload();
  EXPECT_EQ(engine->Facts()->locked_bytes, facts->locked_bytes);
}

TEST_F(LlamaSleepTest, LocksTheLeadingPartAfterALaterLoadWhereMemoryWasShort) {
  ROUSE_NEED_MODEL(path);
  EngineOptions options;
  options.keep_leading_bytes = 100 << 20;
  options.context_tokens = 512;
  options.system_root = testing::TempDir() + "rouse-leading-root-" + std::to_string(getpid());
  std::filesystem::create_directories(options.system_root + "/proc");
  const auto set_available = [&](int64_t mebibytes) {
    std::ofstream(options.system_root + "/proc/meminfo")
        << "MemAvailable: " << mebibytes * 1024 << " kB\n";
  };
  set_available(80);
  const auto engine = Make(options);
  Load(*engine);
  const Result<std::string> refused = engine->Improve({});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kExhausted);
  EXPECT_THAT(engine->Facts()->locked_problem, HasSubstr("--keep-leading"));
  set_available(1000);
  EXPECT_EQ(engine->Improve({}).value(), "") << "once a load";
  engine->Unload();
  Load(*engine);
  EXPECT_THAT(engine->Improve({}).value(), HasSubstr("locked"));
  EXPECT_THAT(engine->Facts()->locked_problem, testing::Not(HasSubstr("--keep-leading")));
  std::filesystem::remove_all(options.system_root);
}

TEST_F(LlamaSleepTest, RendersAndTokenizesWhileTheWeightsCome) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Make();
  std::atomic<bool> done = false;
  MonoTime ended = {};
  engine->StartLoad({.stop = {},
                     .observer = {},
                     .done =
                         [&](const Result<LoadReport>& report) {
                           EXPECT_TRUE(report.ok());
                           ended = MonoNow();
                           done = true;
                         },
                     .prompt_tokens = {}});
  const Result<std::string> text =
      engine->ApplyTemplate(R"([{"role": "user", "content": "Hi"}])", {});
  ASSERT_TRUE(text.ok()) << text.error().message();
  const Result<std::vector<Token>> tokens = engine->Tokenize(*text, {});
  ASSERT_TRUE(tokens.ok());
  EXPECT_GT(tokens->size(), 5U);
  const Result<LoadReport> report = engine->FinishLoad();
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(done);
  EXPECT_FALSE(engine->FinishLoad().ok()) << "told once";
  EXPECT_FALSE(Ask(*engine).text.empty());
}

// Tokenizer and template were kept: what needs no more than them waits for nothing.
TEST_F(LlamaSleepTest, RendersAndTokenizesWhileTheWeightsComeBack) {
  ROUSE_NEED_MODEL(path);
  const auto gate = std::make_shared<Gate>();
  EngineOptions options;
  options.watcher = gate;
  const auto engine = Make(options);
  gate->may_go_on.release();
  Load(*engine);
  engine->Unload();
  engine->StartLoad({.stop = {}, .observer = {}, .done = {}, .prompt_tokens = {}});
  const Result<std::string> text =
      engine->ApplyTemplate(R"([{"role": "user", "content": "Hi"}])", {});
  ASSERT_TRUE(text.ok()) << text.error().message();
  EXPECT_TRUE(engine->Tokenize(*text, {}).ok());
  gate->may_go_on.release();
  const Result<LoadReport> report = engine->FinishLoad();
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->tokenizer_kept);
  EXPECT_TRUE(gate->in_time) << "they waited for the load";
}

TEST_F(LlamaSleepTest, TakesAReplacedFileForWhatItIs) {
  ROUSE_NEED_MODEL(path);
  const std::string copy = testing::TempDir() + "rouse-replaced-" + std::to_string(getpid());
  std::filesystem::copy_file(path, copy, std::filesystem::copy_options::overwrite_existing);
  EngineOptions options;
  options.model_path = copy;
  const auto engine = Make(options);
  Load(*engine);
  const Answer first = Ask(*engine);
  ASSERT_TRUE(engine->Sleep().ok());
  // Cut while asleep: reading its mapping would end the process.
  std::filesystem::resize_file(copy, 1 << 20);
  const Result<LoadReport> cut = engine->Load({}, {});
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(engine->Facts()->tier, Tier::kUnloaded);
  EXPECT_EQ(engine->Facts()->tokenizer.state, LayerState::kAbsent);
  // Whole again: the next load works.
  std::filesystem::copy_file(path, copy, std::filesystem::copy_options::overwrite_existing);
  const Result<LoadReport> again = engine->Load({}, {});
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_FALSE(again->tokenizer_kept) << "of another file";
  EXPECT_EQ(Ask(*engine), first);
  std::filesystem::remove(copy);
}

}  // namespace
}  // namespace rouse::engine
