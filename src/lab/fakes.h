// For this folder's tests: a server that is a few variables, a
// page cache that is a number, and a sender that plays exchanges. All write what is asked of them
// into one log, in order.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/fake_clock.h"
#include "lab/attempt.h"
#include "lab/plan.h"
#include "lab/states.h"
#include "lab/target.h"

namespace rouse::lab {

using Log = std::vector<std::string>;

class FakeTarget : public Target {
 public:
  FakeTarget(FakeClock& clock, Log& log) : clock_(clock), log_(log) {}

  TargetKind kind() const override { return kind_; }
  std::string url() const override { return "http://127.0.0.1:" + std::to_string(port); }
  std::string request_model() const override { return ""; }
  std::string model_file() const override { return moved_to.empty() ? file : moved_to; }
  bool tells_timeline() const override { return kind_ == TargetKind::kBuiltin; }

  Result<MonoTime> Spawn(const std::vector<std::string>& args) override {
    log_.push_back("spawn");
    if (!spawn_error.empty()) return Error(ErrorCode::kNotFound, spawn_error);
    alive = true;
    loaded = true;  // it loads at once, as the built-in server does
    last_args = args;
    ++pid;
    if (!dies_with.empty()) Die(std::exchange(dies_with, ""));
    return clock_.Now();
  }
  Status PickPort() override {
    log_.push_back("pick port");
    ++port;
    return {};
  }
  Status WaitReady(MonoTime deadline) override {
    log_.push_back("wait ready");
    if (!alive) return Error(ErrorCode::kState, "the server " + exit_text + "; " + log_tail);
    if (!never_ready) {
      clock_.now = clock_.now + ready_after_ns;
      return {};
    }
    clock_.now = deadline;
    return Error(ErrorCode::kTimeout, "the server did not become ready in time");
  }
  Status Stop(MonoTime) override {
    log_.push_back("stop");
    alive = false;
    loaded = false;
    return {};
  }
  bool Alive() override { return alive; }
  std::optional<ProcessIdentity> Identity() override {
    if (!alive) return std::nullopt;
    return ProcessIdentity{.pid = pid, .start_ticks = 100 + pid};
  }
  std::vector<int> Tree() override { return tree; }
  std::vector<CommandLine> CommandLines() override {
    if (!alive) return {};
    CommandLine line{.pid = pid, .words = {"server", "--model", model_file()}};
    if (!drops_args) line.words.insert(line.words.end(), last_args.begin(), last_args.end());
    return {line};
  }
  Status UseModelFile(const std::string& path) override {
    moved_to = path;
    return {};
  }
  std::string ExitText() override { return exit_text; }
  std::string LogTail() override { return log_tail; }
  bool PortTaken() override { return !alive && std::exchange(port_taken, false); }
  Status LoadModel(MonoTime) override {
    log_.push_back("load");
    loaded = true;
    return {};
  }
  Status UnloadModel(MonoTime deadline) override {
    log_.push_back("unload");
    if (on_unload) on_unload();
    if (unload_hangs) {
      clock_.now = deadline;
      return Error(ErrorCode::kTimeout, "POST /models/unload did not take effect in time");
    }
    loaded = false;
    return {};
  }
  Status SleepModel(MonoTime) override {
    log_.push_back("sleep");
    asleep = true;
    loaded = false;
    return {};
  }
  Result<ServerState> ReadState() override {
    log_.push_back("state");
    if (!alive) return Error(ErrorCode::kState, "nothing listens");
    return ServerState{
        .model_loaded = loaded, .asleep = asleep && !loaded, .memory_bytes = {}, .json = "{}"};
  }

  void Die(const std::string& how) {
    alive = false;
    loaded = false;
    exit_text = how;
  }

  TargetKind kind_ = TargetKind::kBuiltin;
  bool alive = false;
  bool loaded = false;
  bool asleep = false;  // when it is not loaded
  int pid = 10;
  int port = 1000;
  std::string file = "/model.gguf";
  std::string moved_to;
  bool drops_args = false;  // as a wrapper that does not pass them on
  std::vector<std::string> last_args;
  std::string spawn_error;
  std::string dies_with;  // the next spawned process ends at once, like this
  std::string exit_text;
  std::string log_tail;
  bool port_taken = false;  // once
  std::vector<int> tree;
  bool never_ready = false;
  int64_t ready_after_ns = 0;
  bool unload_hangs = false;
  std::function<void()> on_unload;

 private:
  FakeClock& clock_;
  Log& log_;
};

class FakePageCache : public PageCache {
 public:
  FakePageCache(const FakeTarget& target, Log& log) : target_(target), log_(log) {}
  Result<Share> Read(const std::string&, double) override {
    if (!read_error.empty()) return Error(ErrorCode::kPermission, read_error);
    return Share{.leading_ratio = ratio,
                 .rest_ratio = 0,
                 .ratio = ratio,
                 .file_bytes = 100'000'000,
                 .proof = "cachestat"};
  }
  Result<std::string> Evict(const std::string&) override {
    log_.push_back("evict");
    if (!why_stays.empty()) return why_stays;
    if (target_.loaded) return std::string("98 MB of 98 MB stayed, mapped by the server");
    ratio = 0;
    return std::string();
  }
  Status Warm(const std::string&, double fraction) override {
    log_.push_back("warm");
    ratio = fraction;
    return {};
  }
  std::vector<int> Mappers(const std::string&) override { return mappers; }
  bool MayKnowOf(int) override { return may_know; }
  Result<std::unique_ptr<PageLock>> Lock(const std::string&) override {
    log_.push_back("lock");
    if (!lock_error.empty()) return Error(ErrorCode::kPermission, lock_error);
    ratio = 1;
    class Held : public PageLock {
     public:
      explicit Held(int64_t bytes) : bytes_(bytes) {}
      int64_t locked_bytes() const override { return bytes_; }

     private:
      int64_t bytes_;
    };
    return std::unique_ptr<PageLock>(std::make_unique<Held>(locked_bytes));
  }

  double ratio = 1;
  std::vector<int> mappers;
  bool may_know = true;
  std::string why_stays;
  std::string lock_error;
  int64_t locked_bytes = 100'000'000;
  std::string read_error;

 private:
  const FakeTarget& target_;
  Log& log_;
};

// Answers every request as a sound server with a prefix cache would; `scripted` exchanges go first.
class FakeSender : public Sender {
 public:
  using Script = std::function<wire::Exchange(wire::Exchange)>;

  FakeSender(FakeClock& clock, FakeTarget& target, FakePageCache& page_cache, Log& log)
      : clock_(clock), target_(target), page_cache_(page_cache), log_(log) {}

  Status Prepare(const wire::RequestSpec& spec) override {
    spec_ = spec;
    return {};
  }
  void KeepConnection(bool keep) override {
    if (!keep) connected_ = false;
    keep_ = keep;
  }

  wire::Exchange Perform(std::optional<MonoTime> intended,
                         const std::atomic<bool>* /*interrupt*/) override {
    log_.push_back(intended ? "send" : "primer");
    if (intended && *intended > clock_.now) clock_.now = *intended;
    if (!intended || scripts.empty()) return Answer(intended.value_or(clock_.Now()));
    const Script script = scripts.front();
    scripts.pop_front();
    const MonoTime start = clock_.Now();
    wire::Exchange exchange;
    exchange.marks.send_start = *intended;
    exchange.marks.connect_start = start;
    exchange.marks.end = start;
    return script(exchange);
  }

  wire::Exchange Answer(MonoTime intended) {
    const nlohmann::json extra = nlohmann::json::parse(spec_.extra_body_json, nullptr, false);
    const bool may_cache = !extra.is_object() || extra.value("cache_prompt", true);
    const std::string& salt = spec_.messages.front().content;
    last_system_message = salt;
    wire::Exchange exchange;
    exchange.outcome = wire::Outcome::kOk;
    exchange.http_status = 200;
    wire::Marks& marks = exchange.marks;
    marks.send_start = intended;
    marks.connect_start = clock_.Now();
    const bool reused = keep_ && connected_;
    if (!reused) marks.connected = clock_.Now() + 50'000;
    marks.request_sent = clock_.Now() + 80'000;
    clock_.now = clock_.now + answer_ns;
    marks.first_byte = marks.first_event = marks.first_token = marks.first_content = clock_.Now();
    marks.last_token = marks.end = clock_.Now() + 1'000;
    exchange.first_token_channel = wire::Channel::kContent;
    exchange.connection.reused = reused;
    exchange.content_text = "blue";
    const std::string& text = spec_.messages.back().content;
    exchange.usage.prompt_tokens = 30;
    if (counts_words) {
      exchange.usage.prompt_tokens = 30 + std::count(text.begin(), text.end(), ' ') * 13 / 10;
    }
    exchange.usage.cached_tokens = forced_cached.value_or(!may_cache || last_salt_.empty() ? 0
                                                          : salt == last_salt_             ? 29
                                                                               : template_tokens);
    last_salt_ = salt;
    connected_ = true;
    target_.loaded = true;
    page_cache_.ratio = 1;
    return exchange;
  }

  std::deque<Script> scripts;
  std::optional<int64_t> forced_cached;
  int64_t template_tokens = 0;  // before the salt
  int64_t answer_ns = 70'000'000;
  bool counts_words = false;  // prompt tokens as a tokenizer of 1.3 a word would count
  std::string last_system_message;

 private:
  FakeClock& clock_;
  FakeTarget& target_;
  FakePageCache& page_cache_;
  Log& log_;
  wire::RequestSpec spec_;
  std::string last_salt_;
  bool keep_ = false;
  bool connected_ = false;
};

// A plan and everything that it needs to run in no time.
struct Bench {
  explicit Bench(const std::string& toml)
      : plan(ParseOrDie(toml)),
        target(clock, log),
        page_cache(target, log),
        sender(clock, target, page_cache, log) {}

  static Plan ParseOrDie(const std::string& toml) {
    Result<Plan> parsed = ParsePlan(toml, "plan.toml");
    CHECK(parsed.ok());
    return *std::move(parsed);
  }

  AttemptContext Context() {
    AttemptContext context{.states = {.plan = plan,
                                      .target = target,
                                      .page_cache = page_cache,
                                      .clock = clock,
                                      .send_primer = {},
                                      .on_step = {},
                                      .interrupted = [this] { return interrupt.load(); },
                                      .next_salt = [this] { return ++salt; },
                                      .running_args = {},
                                      .forced_prefix_tokens = {}},
                           .sender = sender,
                           .proc = os::ProcRoot::Real(),
                           .interrupt = &interrupt,
                           .disk = {},
                           .make_sender = make_sender};
    return context;
  }

  results::Attempt Run(const std::string& condition) {
    AttemptContext context = Context();
    context.states.send_primer = [&](const SendSetup& setup) { return SendPrimer(context, setup); };
    ScheduledAttempt scheduled{.block = 0, .position = 0, .condition = 0, .prime = false};
    while (plan.conditions.at(scheduled.condition).name != condition) ++scheduled.condition;
    return RunAttempt(context, scheduled);
  }

  Plan plan;
  Log log;
  FakeClock clock;
  FakeTarget target;
  FakePageCache page_cache;
  FakeSender sender;
  std::atomic<bool> interrupt = false;
  uint64_t salt = 0;
  SenderMaker make_sender = MakeSender;
};

}  // namespace rouse::lab
