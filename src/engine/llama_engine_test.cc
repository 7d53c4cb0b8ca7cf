// LlamaEngine on the real model: loading, unloading, facts, template, generation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "base/strings.h"
#include "engine/engine.h"
#include "engine/test_model.h"

namespace rouse::engine {
namespace {

using testing::Contains;
using testing::HasSubstr;

struct Answered {
  GenerateReport report;
  std::string text;
  std::vector<std::string> pieces;
  int64_t tokens = 0;  // told with the pieces
};

class LlamaEngineTest : public testing::Test {
 protected:
  std::unique_ptr<Engine> Make(EngineOptions options = {}) {
    options.model_path = TestModelPath();
    // One thread where a test does not say otherwise: several wait for each other at hundreds of
    // barriers a token, and crawl when other tests run beside them.
    if (options.threads == 0) options.threads = 1;
    Result<std::unique_ptr<Engine>> engine = MakeLlamaEngine(std::move(options));
    EXPECT_TRUE(engine.ok());
    return std::move(engine).value();
  }

  std::unique_ptr<Engine> Loaded(EngineOptions options = {}) {
    std::unique_ptr<Engine> engine = Make(std::move(options));
    const Result<LoadReport> report = engine->Load({}, {});
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message());
    return engine;
  }

  static std::vector<Token> Prompt(Engine& engine, const std::string& question) {
    const Result<std::string> text =
        engine.ApplyTemplate(R"([{"role":"user","content":")" + question + R"("}])", {});
    EXPECT_TRUE(text.ok());
    return engine.Tokenize(text.value(), {}).value();
  }

  static GenerateRequest Greedy(std::vector<Token> prompt, int64_t max_tokens) {
    GenerateRequest request;
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    request.max_tokens = max_tokens;
    return request;
  }

  static Answered Run(Engine& engine, const GenerateRequest& request) {
    Answered answered;
    Result<GenerateReport> report = engine.Generate(request,
                                                    [&](const Piece& piece) {
                                                      EXPECT_FALSE(piece.text.empty());
                                                      EXPECT_TRUE(IsValidUtf8(piece.text));
                                                      answered.text += piece.text;
                                                      answered.pieces.emplace_back(piece.text);
                                                      answered.tokens += piece.tokens;
                                                      return true;
                                                    },
                                                    {});
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message());
    if (report.ok()) answered.report = std::move(report).value();
    return answered;
  }
};

constexpr char kStory[] = "Write a short story about a cat.";

TEST_F(LlamaEngineTest, RendersTheModelsOwnTemplate) {
  ROUSE_NEED_MODEL(path);
  if (path.find("SmolLM2") == std::string::npos) GTEST_SKIP() << "another model";
  const auto engine = Loaded();
  EXPECT_EQ(engine->ApplyTemplate(R"([{"role":"user","content":"Hi"}])", {}).value(),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_TRUE(engine->Facts()->has_chat_template);
  // Special tokens written as text are those tokens: 1 is <|im_start|>, 2 is <|im_end|>.
  const std::vector<Token> tokens = engine->Tokenize("<|im_start|>user", {}).value();
  EXPECT_EQ(tokens.front(), 1);
  const std::vector<Token> literal =
      engine->Tokenize("<|im_start|>user", {.parse_special = false}).value();
  EXPECT_GT(literal.size(), tokens.size());
}

TEST_F(LlamaEngineTest, ReportsEachStepOfALoadWithoutOverlapInAChain) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Make();
  std::vector<std::string> observed;
  const LoadReport report =
      engine->Load({}, [&](const Step& step) { observed.push_back(step.name); }).value();
  EXPECT_TRUE(report.split_tokenizer);
  EXPECT_FALSE(report.tokenizer_kept);
  std::map<std::string, Step> steps;
  for (const Step& step : report.steps) {
    EXPECT_THAT(observed, Contains(step.name));
    EXPECT_GE(step.start, report.start);
    EXPECT_LE(step.end, report.end);
    EXPECT_GT(step.end, step.start) << step.name;
    steps[step.name] = step;
  }
  for (const char* name : {"tokenizer", "header", "weights", "context", "template"}) {
    ASSERT_TRUE(steps.contains(name)) << name;
  }
  EXPECT_LE(steps["header"].end, steps["weights"].start);
  EXPECT_LE(steps["weights"].end, steps["context"].start);
  // The tokenizer is loaded beside the weights, not before or after them.
  EXPECT_LT(steps["tokenizer"].start, steps["weights"].end);
  EXPECT_LT(steps["weights"].start, steps["tokenizer"].end);
  EXPECT_GT(steps["weights"].bytes.value_or(0), steps["header"].bytes.value_or(0));
}

TEST_F(LlamaEngineTest, KeepsTheTokenizerAndGivesTheSameAnswerAfterUnloading) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded();
  const GenerateRequest request = Greedy(Prompt(*engine, kStory), 24);
  const Answered before = Run(*engine, request);
  engine->Unload();
  EXPECT_EQ(engine->Facts()->tokenizer.state, LayerState::kReady);
  EXPECT_EQ(engine->Facts()->weights.state, LayerState::kAbsent);
  EXPECT_EQ(engine->Facts()->context.state, LayerState::kAbsent);
  EXPECT_EQ(engine->Facts()->prefix_tokens, 0);
  EXPECT_EQ(Prompt(*engine, kStory), request.prompt) << "template and tokenizer work unloaded";
  const Result<GenerateReport> refused = engine->Generate(request, {}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kState);

  const LoadReport again = engine->Load({}, {}).value();
  EXPECT_TRUE(again.tokenizer_kept);
  for (const Step& step : again.steps) {
    EXPECT_NE(step.name, "tokenizer");
    EXPECT_NE(step.name, "template");
  }
  const Answered after = Run(*engine, request);
  EXPECT_EQ(after.text, before.text);
  EXPECT_EQ(after.report.cached_tokens, std::ssize(request.prompt) - 1) << "the prefix was kept";
}

TEST_F(LlamaEngineTest, LoadsNothingTwice) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded();
  const LoadReport again = engine->Load({}, {}).value();
  EXPECT_TRUE(again.steps.empty());
}

TEST_F(LlamaEngineTest, TellsFactsOfModelAndMemory) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded({.context_tokens = 1024, .threads = 1});
  const auto facts = engine->Facts();
  EXPECT_EQ(facts->tokenizer.state, LayerState::kReady);
  EXPECT_EQ(facts->weights.state, LayerState::kReady);
  EXPECT_EQ(facts->context.state, LayerState::kReady);
  EXPECT_EQ(facts->context_tokens, 1024);
  EXPECT_EQ(facts->threads, 1);
  EXPECT_EQ(facts->plain_load_reason, "");
  EXPECT_GT(facts->parameters.value_or(0), 0);
  EXPECT_GT(facts->trained_context_tokens.value_or(0), 0) << "not from the vocabulary's half";
  EXPECT_GT(facts->vocabulary_tokens.value_or(0), 0);
  // Weights are the file's own pages, all of them, and nothing is copied.
  ASSERT_TRUE(facts->weights_mapped_bytes.has_value());
  EXPECT_NEAR(static_cast<double>(*facts->weights_mapped_bytes),
              static_cast<double>(*facts->weights_bytes), 1 << 20);
  EXPECT_EQ(facts->weights_private_bytes, 0);
  if (path.find("SmolLM2-135M") == std::string::npos) return;
  EXPECT_EQ(facts->description, "llama 135M Q4_1");
  EXPECT_EQ(facts->vocabulary_tokens, 49152);
  EXPECT_EQ(facts->trained_context_tokens, 8192);
  // 30 layers x 1024 tokens x 3 heads x (64 + 64) x 2 bytes.
  EXPECT_EQ(facts->kv_bytes, int64_t{30} * 1024 * 3 * 128 * 2);
}

TEST_F(LlamaEngineTest, AnswersTheSameEachTimeAtTemperatureZero) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded();
  GenerateRequest request = Greedy(Prompt(*engine, kStory), 32);
  request.cache_prompt = false;
  const Answered first = Run(*engine, request);
  const Answered second = Run(*engine, request);
  EXPECT_FALSE(first.text.empty());
  EXPECT_EQ(first.text, second.text);
  EXPECT_EQ(second.report.cached_tokens, 0) << "cache_prompt was off";
  EXPECT_EQ(first.report.generated_tokens, 32);
  EXPECT_EQ(first.report.stop_reason, StopReason::kLength);
  EXPECT_EQ(first.tokens, 32) << "each token is told once";
}

TEST_F(LlamaEngineTest, AnswersTheSameWithTwoThreads) {
  ROUSE_NEED_MODEL(path);
  const auto one = Loaded({.threads = 1});
  const auto two = Loaded({.threads = 2});
  EXPECT_EQ(two->Facts()->threads, 2);
  const GenerateRequest request = Greedy(Prompt(*one, kStory), 3);
  EXPECT_EQ(Run(*one, request).text, Run(*two, request).text);
}

TEST_F(LlamaEngineTest, StampsTheStagesInOrder) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded();
  const MonoTime before = MonoNow();
  const GenerateReport report = Run(*engine, Greedy(Prompt(*engine, kStory), 4)).report;
  EXPECT_LE(before, report.start);
  EXPECT_LE(report.start, report.prefill_start);
  EXPECT_LT(report.prefill_start, report.prefill_end.value());
  EXPECT_LE(report.prefill_end.value(), report.first_token.value());
  EXPECT_LE(report.first_token.value(), report.first_piece.value());
  EXPECT_LT(report.first_piece.value(), report.end);
  EXPECT_LE(report.end, MonoNow());
}

TEST_F(LlamaEngineTest, ReusesThePrefixAndAnswersAsAfterAFullPrefill) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded();
  const std::vector<Token> prompt = Prompt(*engine, kStory);
  const std::string conversation =
      R"([{"role":"user","content":"Hi."},{"role":"assistant","content":"Hello, how are you?"},)"
      R"({"role":"user","content":"Fine. Tell me about cats."}])";
  const std::vector<Token> longer =
      engine->Tokenize(engine->ApplyTemplate(conversation, {}).value(), {}).value();
  GenerateRequest request = Greedy(longer, 24);
  request.cache_prompt = false;
  const Answered full = Run(*engine, request);

  // The same again: all but the last token come from the cache.
  request.cache_prompt = true;
  const Answered same = Run(*engine, request);
  EXPECT_EQ(same.text, full.text);
  EXPECT_EQ(same.report.cached_tokens, std::ssize(longer) - 1);

  // Another request leaves only the common system part; what it generated must be gone.
  const Answered other = Run(*engine, Greedy(prompt, 8));
  EXPECT_GT(other.report.cached_tokens, 0);
  EXPECT_LT(other.report.cached_tokens, std::ssize(prompt));
  const Answered back = Run(*engine, request);
  EXPECT_EQ(back.text, full.text);
  EXPECT_EQ(back.report.cached_tokens, other.report.cached_tokens);

  // The first part of it only: the cache must be cut back.
  const std::vector<Token> part(longer.begin(), longer.begin() + 30);
  request = Greedy(part, 12);
  const Answered cut = Run(*engine, request);
  EXPECT_EQ(cut.report.cached_tokens, 29);
  request.cache_prompt = false;
  EXPECT_EQ(cut.text, Run(*engine, request).text);
}

TEST_F(LlamaEngineTest, PrefillsInPartsAsInOne) {
  ROUSE_NEED_MODEL(path);
  const auto whole = Loaded({.batch_tokens = 512});
  const auto parts = Loaded({.batch_tokens = 16});
  const std::vector<Token> prompt = Prompt(*whole, kStory);
  ASSERT_GT(prompt.size(), 32U);
  EXPECT_EQ(Run(*whole, Greedy(prompt, 16)).text, Run(*parts, Greedy(prompt, 16)).text);
}

TEST_F(LlamaEngineTest, StopsAtAStringThatLiesAcrossTokens) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded();
  GenerateRequest request = Greedy(Prompt(*engine, kStory), 24);
  const Answered full = Run(*engine, request);
  ASSERT_GT(full.pieces.size(), 8U);
  // The end of one piece and the beginning of the next, some pieces into the answer.
  size_t i = 4;
  while (i + 1 < full.pieces.size() && full.pieces[i].size() < 3) ++i;
  const std::string stop =
      full.pieces[i].substr(full.pieces[i].size() - 2) + full.pieces[i + 1].substr(0, 2);
  request.stop = {"never in this answer", stop};
  const Answered stopped = Run(*engine, request);
  EXPECT_EQ(stopped.report.stop_reason, StopReason::kStopText);
  EXPECT_EQ(stopped.report.stop_text, stop);
  EXPECT_EQ(stopped.text, full.text.substr(0, full.text.find(stop)));
  EXPECT_LT(stopped.report.generated_tokens, full.report.generated_tokens);
}

TEST_F(LlamaEngineTest, EndsWhereTheModelEndsUnlessToldNotTo) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded();
  GenerateRequest request = Greedy(Prompt(*engine, "Say hello."), 300);
  const Answered ended = Run(*engine, request);
  ASSERT_EQ(ended.report.stop_reason, StopReason::kEnd);
  EXPECT_EQ(ended.text.find("<|im_end|>"), std::string::npos);
  request.ignore_end = true;
  request.max_tokens = ended.report.generated_tokens + 5;
  const Answered longer = Run(*engine, request);
  EXPECT_EQ(longer.report.stop_reason, StopReason::kLength);
  EXPECT_EQ(longer.report.generated_tokens, ended.report.generated_tokens + 5);
}

TEST_F(LlamaEngineTest, ComputesThePromptOnlyWhenNoTokensAreWanted) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded();
  const std::vector<Token> prompt = Prompt(*engine, kStory);
  const Answered none = Run(*engine, Greedy(prompt, 0));
  EXPECT_EQ(none.report.generated_tokens, 0);
  EXPECT_EQ(none.text, "");
  EXPECT_FALSE(none.report.first_token.has_value());
  EXPECT_EQ(engine->Facts()->prefix_tokens, std::ssize(prompt));
}

TEST_F(LlamaEngineTest, FillsTheContextToItsLastTokenAndStops) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded({.context_tokens = 256});
  GenerateRequest request = Greedy(Prompt(*engine, kStory), -1);
  request.ignore_end = true;
  const Answered full = Run(*engine, request);
  EXPECT_EQ(full.report.stop_reason, StopReason::kLength);
  // The last token is chosen from the output of the one that filled the context.
  EXPECT_EQ(full.report.prompt_tokens + full.report.generated_tokens, 256 + 1);
}

TEST_F(LlamaEngineTest, RepeatsASampledAnswerByItsSeed) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded();
  GenerateRequest request = Greedy(Prompt(*engine, kStory), 20);
  const std::string greedy = Run(*engine, request).text;
  request.sampling = {.temperature = 1.2, .top_p = 1, .top_k = 0, .min_p = 0, .seed = 42};
  // The same state of the cache for both: computing differs in the last bits by batch size.
  request.cache_prompt = false;
  const Answered first = Run(*engine, request);
  EXPECT_EQ(first.report.seed, 42U);
  EXPECT_EQ(Run(*engine, request).text, first.text);
  request.sampling.seed = 43;
  EXPECT_NE(Run(*engine, request).text, first.text);
  // Each of these leaves the likeliest token only.
  request.sampling = {.temperature = 1, .top_p = 1, .top_k = 1, .min_p = 0, .seed = 42};
  EXPECT_EQ(Run(*engine, request).text, greedy);
  request.sampling = {.temperature = 1, .top_p = 0, .top_k = 0, .min_p = 0, .seed = 42};
  EXPECT_EQ(Run(*engine, request).text, greedy);
  request.sampling = {.temperature = 1, .top_p = 1, .top_k = 0, .min_p = 1, .seed = 42};
  EXPECT_EQ(Run(*engine, request).text, greedy);
}

TEST_F(LlamaEngineTest, StopsInTheMiddleOfALongPromptWhenCancelled) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded({.context_tokens = 4096, .batch_tokens = 64});
  const std::vector<Token> story = Prompt(*engine, kStory);
  std::vector<Token> prompt;
  while (prompt.size() + story.size() < 4000) {
    prompt.insert(prompt.end(), story.begin(), story.end());
  }
  std::stop_source stop;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    stop.request_stop();
  });
  const GenerateReport report = engine->Generate(Greedy(prompt, 5), {}, stop.get_token()).value();
  canceller.join();
  EXPECT_EQ(report.stop_reason, StopReason::kCancelled);
  EXPECT_FALSE(report.prefill_end.has_value());
  EXPECT_EQ(report.generated_tokens, 0);
  const int64_t held = engine->Facts()->prefix_tokens;
  EXPECT_LT(held, std::ssize(prompt));
  // What was computed by then is sound: a shorter request uses it and answers as ever.
  const Answered next = Run(*engine, Greedy(story, 8));
  EXPECT_EQ(next.report.cached_tokens, std::min(held, std::ssize(story) - 1));
  GenerateRequest fresh = Greedy(story, 8);
  fresh.cache_prompt = false;
  EXPECT_EQ(Run(*engine, fresh).text, next.text);
}

TEST_F(LlamaEngineTest, StopsInTheMiddleOfAnAnswerWhenCancelled) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded();
  const GenerateRequest request = Greedy(Prompt(*engine, kStory), 40);
  const Answered full = Run(*engine, request);
  for (const bool by_token : {true, false}) {
    std::stop_source stop;
    std::string text;
    int pieces = 0;
    const GenerateReport report = engine
                                      ->Generate(
                                          request,
                                          [&](const Piece& piece) {
                                            text += piece.text;
                                            if (++pieces < 3) return true;
                                            if (by_token) stop.request_stop();
                                            return by_token;
                                          },
                                          stop.get_token())
                                      .value();
    EXPECT_EQ(report.stop_reason, StopReason::kCancelled);
    EXPECT_EQ(pieces, 3);
    EXPECT_LE(report.generated_tokens, 4);
    EXPECT_TRUE(full.text.starts_with(text));
  }
  EXPECT_EQ(Run(*engine, request).text, full.text);
}

TEST_F(LlamaEngineTest, RefusesAPromptThatIsTooLongAndSaysBothNumbers) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Loaded({.context_tokens = 256});
  const auto message = [&](std::vector<Token> prompt) {
    const Result<GenerateReport> report = engine->Generate(Greedy(std::move(prompt), 1), {}, {});
    EXPECT_EQ(report.ok() ? ErrorCode::kInternal : report.error().code(), ErrorCode::kUsage);
    return report.ok() ? "" : report.error().message();
  };
  EXPECT_THAT(message(std::vector<Token>(300, 5)),
              testing::AllOf(HasSubstr("300"), HasSubstr("256"), HasSubstr("--context")));
  EXPECT_THAT(message(std::vector<Token>(256, 5)), HasSubstr("256"));
  EXPECT_THAT(message({}), HasSubstr("empty"));
  EXPECT_THAT(message({1, -3}), HasSubstr("-3"));
  EXPECT_THAT(message({1, 10'000'000}), HasSubstr("10000000"));
  GenerateRequest request = Greedy({1, 2}, 1);
  request.stop = {""};
  EXPECT_FALSE(engine->Generate(request, {}, {}).ok());
  request.stop = {};
  request.sampling.top_p = 3;
  EXPECT_FALSE(engine->Generate(request, {}, {}).ok());
  EXPECT_EQ(Run(*engine, Greedy(std::vector<Token>(255, 5), 1)).report.prompt_tokens, 255);
}

TEST_F(LlamaEngineTest, WorksWithAndWithoutFlashAttentionAndWithASmallerCache) {
  ROUSE_NEED_MODEL(path);
  const auto on = Loaded({.flash_attention = FlashAttention::kOn});
  const auto off = Loaded({.flash_attention = FlashAttention::kOff});
  const auto small = Loaded({.cache_type_k = "q8_0", .cache_type_v = "q8_0"});
  const GenerateRequest request = Greedy(Prompt(*on, kStory), 6);
  EXPECT_EQ(Run(*on, request).text, Run(*off, request).text);
  EXPECT_FALSE(Run(*small, request).text.empty());
  EXPECT_EQ(on->Facts()->flash_attention, true);
  EXPECT_EQ(off->Facts()->flash_attention, false);
  EXPECT_EQ(small->Facts()->flash_attention, true) << "a quantized cache needs it";
  EXPECT_EQ(on->Facts()->cache_type_k, "f16");
  EXPECT_EQ(small->Facts()->cache_type_k, "q8_0");
  EXPECT_EQ(small->Facts()->cache_type_v, "q8_0");
  // What a prefix takes outside of the context: its tokens' share, and a little beside.
  const auto share = [](const EngineFacts& facts) {
    return static_cast<double>(*facts.kv_bytes * facts.prefix_tokens) /
           static_cast<double>(*facts.context_tokens);
  };
  ASSERT_TRUE(on->Facts()->prefix_bytes && small->Facts()->prefix_bytes);
  EXPECT_NEAR(static_cast<double>(*on->Facts()->prefix_bytes), share(*on->Facts()), 20'000);
  EXPECT_NEAR(static_cast<double>(*small->Facts()->prefix_bytes), share(*small->Facts()), 20'000);
  // q8_0 takes 34 bytes for 32 values, f16 64.
  EXPECT_NEAR(static_cast<double>(*small->Facts()->kv_bytes),
              static_cast<double>(*on->Facts()->kv_bytes) * 34 / 64, 20'000);
}

TEST_F(LlamaEngineTest, AnswersTheSameFromAPlainLoad) {
  ROUSE_NEED_MODEL(path);
  const auto split = Loaded();
  const auto plain = Loaded({.split_tokenizer = false});
  EXPECT_FALSE(plain->Facts()->plain_load_reason.empty());
  const GenerateRequest request = Greedy(Prompt(*split, kStory), 24);
  EXPECT_EQ(Prompt(*plain, kStory), request.prompt);
  const std::string text = Run(*split, request).text;
  EXPECT_EQ(Run(*plain, request).text, text);
  // Its tokenizer holds the weights, so unloading has to give up both.
  plain->Unload();
  EXPECT_EQ(plain->Facts()->tokenizer.state, LayerState::kAbsent);
  EXPECT_EQ(plain->Tokenize("x", {}).error().code(), ErrorCode::kState);
  ASSERT_TRUE(plain->Load({}, {}).ok());
  EXPECT_EQ(Run(*plain, request).text, text);
}

TEST_F(LlamaEngineTest, StopsALoadAndLoadsAgain) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Make();
  std::stop_source stop;
  const Result<LoadReport> stopped = engine->Load(stop.get_token(), [&](const Step& step) {
    if (step.name == "header") stop.request_stop();
  });
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code(), ErrorCode::kInterrupted);
  EXPECT_EQ(engine->Facts()->weights.state, LayerState::kAbsent);
  EXPECT_EQ(engine->Facts()->context.state, LayerState::kAbsent);
  const LoadReport report = engine->Load({}, {}).value();
  EXPECT_TRUE(report.tokenizer_kept) << "it was complete";
  EXPECT_FALSE(Run(*engine, Greedy(Prompt(*engine, kStory), 4)).text.empty());
}

TEST_F(LlamaEngineTest, PublishesFactsWhileTheOwnerIsBusy) {
  ROUSE_NEED_MODEL(path);
  const auto engine = Make();
  std::atomic<bool> done = false;
  std::atomic<bool> seen_loading = false;
  std::thread reader([&] {
    while (!done) {
      if (engine->Facts()->weights.state == LayerState::kLoading) seen_loading = true;
    }
  });
  // More than once: on a busy machine the reader may have no core during a whole load.
  for (int load = 0; load < 50 && !seen_loading; ++load) {
    engine->Unload();
    EXPECT_TRUE(engine->Load({}, {}).ok());
  }
  done = true;
  reader.join();
  EXPECT_TRUE(seen_loading);
}

}  // namespace
}  // namespace rouse::engine
