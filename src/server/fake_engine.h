// For tests only: an engine whose load and tokens a test can hold back, and which records its
// calls. A prompt's tokens are its bytes; the answer is a list of pieces that the test chose.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace rouse::server {

// A door that stands open until a test closes it. Who passes waits while it is closed.
class Door {
 public:
  void Shut() {
    const std::lock_guard lock(mutex_);
    tickets_ = 0;
    open_ = false;
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Lets `count` more pass.
  void LetPass(int count) {
    const std::lock_guard lock(mutex_);
    tickets_ += count;
    changed_.notify_all();
  }
  // False when `stop` was requested while waiting.
  bool Pass(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    const bool passed = changed_.wait(lock, stop, [&] { return open_ || tickets_ > 0; });
    --waiting_;
    if (!open_ && passed) --tickets_;
    return passed;
  }
  // Until somebody waits at the door.
  bool AwaitWaiter() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool open_ = true;
  int tickets_ = 0;
  int waiting_ = 0;
};

// What the test and the engine share; outlives both.
struct FakeControl {
  Door load;     // passed once in each Load()
  Door token;    // passed before each piece
  Door improve;  // passed once in each Improve()

  std::mutex mutex;
  std::vector<std::string> calls;  // "load", "unload", "generate 12 tokens"
  std::vector<std::string> pieces = {"one", " two", " three"};
  std::vector<engine::GenerateRequest> requests;
  std::optional<Error> load_error;
  std::optional<Error> generate_error;
  std::optional<Error> sleep_error;
  std::vector<std::string> improvements;  // what the next calls of Improve() say, last first
  std::vector<std::optional<int64_t>> loads_prompt_tokens;  // as each StartLoad() was told
  int fail_after_pieces = -1;  // >= 0: Generate() fails after so many pieces
  int64_t cached_tokens = 0;
  int64_t load_steps_ns = 0;  // how long each of the two load steps takes

  void Record(std::string call) {
    const std::lock_guard lock(mutex);
    calls.push_back(std::move(call));
  }
  std::vector<std::string> Calls() {
    const std::lock_guard lock(mutex);
    return calls;
  }
};

class FakeEngine : public engine::Engine {
 public:
  static constexpr int64_t kContextTokens = 100;

  explicit FakeEngine(std::shared_ptr<FakeControl> control) : control_(std::move(control)) {
    facts_ = std::make_shared<engine::EngineFacts>();
  }

  ~FakeEngine() override {
    if (thread_.joinable()) thread_.join();
  }

  void StartLoad(LoadOptions options) override {
    {
      const std::lock_guard lock(control_->mutex);
      control_->loads_prompt_tokens.push_back(options.prompt_tokens);
    }
    thread_ = std::thread([this, options = std::move(options)] {
      Result<engine::LoadReport> report = RunLoad(options.stop);
      {
        const std::lock_guard lock(mutex_);
        loaded_ = report;
      }
      if (options.done) options.done(report);
    });
  }

  Result<engine::LoadReport> FinishLoad() override {
    if (!thread_.joinable()) return Error(ErrorCode::kState, "no load runs");
    thread_.join();
    const std::lock_guard lock(mutex_);
    return *std::exchange(loaded_, std::nullopt);
  }

  Status Sleep() override {
    {
      const std::lock_guard lock(control_->mutex);
      if (control_->sleep_error) return *control_->sleep_error;
    }
    control_->Record("sleep");
    SetState(engine::LayerState::kReady, engine::Tier::kAsleep);
    return {};
  }

  Result<std::string> Improve(std::stop_token stop) override {
    control_->Record("improve");
    if (!control_->improve.Pass(stop)) return Error(ErrorCode::kInterrupted, "stopped");
    const std::lock_guard lock(control_->mutex);
    if (control_->improvements.empty()) return std::string();
    std::string done = control_->improvements.back();
    control_->improvements.pop_back();
    return done;
  }

  Result<engine::LoadReport> RunLoad(const std::stop_token& stop) {
    engine::LoadReport report;
    report.start = MonoNow();
    control_->Record("load");
    const engine::Tier before_tier = Facts()->tier;
    report.from = before_tier;
    SetState(engine::LayerState::kLoading, before_tier);
    if (!control_->load.Pass(stop)) {
      const bool asleep = before_tier == engine::Tier::kAsleep;
      SetState(asleep ? engine::LayerState::kReady : engine::LayerState::kAbsent, before_tier);
      return Error(ErrorCode::kInterrupted, "the load was stopped");
    }
    {
      const std::lock_guard lock(control_->mutex);
      if (control_->load_error) {
        SetState(engine::LayerState::kAbsent, engine::Tier::kUnloaded);
        return *control_->load_error;
      }
    }
    MonoTime before = report.start;
    for (const auto& [stage, name] : {std::pair(engine::Stage::kWeights, "weights"),
                                      std::pair(engine::Stage::kRuntimeInit, "context")}) {
      RealClock().SleepFor(control_->load_steps_ns);
      const MonoTime now = MonoNow();
      report.steps.push_back({stage, name, before, now, 1000});
      before = now;
    }
    SetState(engine::LayerState::kReady, engine::Tier::kReady);
    report.end = MonoNow();
    return report;
  }

  void Unload() override {
    control_->Record("unload");
    SetState(engine::LayerState::kAbsent, engine::Tier::kUnloaded);
  }

  Result<std::string> ApplyTemplate(std::string_view messages_json,
                                    const engine::TemplateOptions&) override {
    if (messages_json.find("forbidden-role") != std::string_view::npos) {
      return Error(ErrorCode::kUsage, "the model's chat template refused the messages");
    }
    return std::string(messages_json);
  }

  Result<std::vector<engine::Token>> Tokenize(std::string_view text,
                                              const engine::TokenizeOptions&) override {
    return std::vector<engine::Token>(text.begin(), text.end());
  }

  Result<engine::GenerateReport> Generate(const engine::GenerateRequest& request, const Sink& sink,
                                          std::stop_token stop) override {
    engine::GenerateReport report;
    report.start = report.prefill_start = MonoNow();
    report.prompt_tokens = static_cast<int64_t>(request.prompt.size());
    std::vector<std::string> pieces;
    int fail_after = -1;
    {
      const std::lock_guard lock(control_->mutex);
      control_->calls.push_back("generate " + std::to_string(request.prompt.size()) + " tokens");
      control_->requests.push_back(request);
      if (control_->generate_error) return *control_->generate_error;
      pieces = control_->pieces;
      fail_after = control_->fail_after_pieces;
      report.cached_tokens = request.cache_prompt ? control_->cached_tokens : 0;
    }
    report.prefill_end = MonoNow();
    int given = 0;
    for (const std::string& piece : pieces) {
      if (given == fail_after) return Error(ErrorCode::kInternal, "the engine broke");
      if (request.max_tokens >= 0 && given >= request.max_tokens) {
        report.stop_reason = engine::StopReason::kLength;
        break;
      }
      if (!control_->token.Pass(stop)) {
        report.stop_reason = engine::StopReason::kCancelled;
        control_->Record("cancelled");
        break;
      }
      ++given;
      if (!report.first_token) report.first_token = report.first_piece = MonoNow();
      if (!sink({piece, 1, MonoNow()})) {
        report.stop_reason = engine::StopReason::kCancelled;
        control_->Record("cancelled");
        break;
      }
    }
    report.generated_tokens = given;
    report.end = MonoNow();
    return report;
  }

  std::shared_ptr<const engine::EngineFacts> Facts() const override {
    const std::lock_guard lock(mutex_);
    return facts_;
  }

 private:
  void SetState(engine::LayerState state, engine::Tier tier) {
    auto next = std::make_shared<engine::EngineFacts>();
    next->tier = tier;
    next->tier_since = MonoNow();
    next->weights = {state, MonoNow(), 1000};
    next->context = {state, MonoNow(), 500};
    if (state == engine::LayerState::kReady) {
      next->context_tokens = kContextTokens;
      next->threads = 2;
      next->flash_attention = true;
      next->cache_type_k = "q8_0";  // values: not told
      next->prefix_bytes = 77;
    }
    const std::lock_guard lock(mutex_);
    // As with the real engine, the tokenizer stays.
    next->tokenizer = facts_->tokenizer;
    if (state == engine::LayerState::kReady) next->tokenizer = {state, MonoNow(), 100};
    facts_ = next;
  }

  std::shared_ptr<FakeControl> control_;
  std::thread thread_;  // of the load that runs
  mutable std::mutex mutex_;
  std::optional<Result<engine::LoadReport>> loaded_;
  std::shared_ptr<const engine::EngineFacts> facts_;
};

}  // namespace rouse::server
