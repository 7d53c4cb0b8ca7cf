#include "lab/attempt.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>

#include "base/units.h"
#include "lab/attempt_loads.h"
#include "lab/checks.h"
#include "lab/command_line.h"
#include "lab/companions.h"
#include "lab/counters.h"
#include "lab/exchange_mapping.h"
#include "lab/factor_proofs.h"
#include "lab/idle_watch.h"
#include "lab/server_report.h"
#include "lab/targets.h"
#include "lab/timeline.h"

namespace rouse::lab {
namespace {

using results::Attempt;
using results::Outcome;

constexpr int64_t kQuietLimitNs = 2 * kNsPerSecond;
constexpr int64_t kSettleNs = 300 * kNsPerMs;
constexpr int64_t kDeathPollNs = 2 * kNsPerMs;
constexpr int64_t kPrimerRetryNs = 20 * kNsPerMs;
constexpr size_t kListedTriesLimit = 1000;
constexpr int kPortTries = 3;
constexpr int64_t kBurstLeadNs = 5 * kNsPerMs;
// A prompt that must stay short says itself where the salt goes, and gets no more than these.
constexpr std::string_view kSaltPlace = "{salt}";
constexpr size_t kPlacedSaltDigits = 3;
constexpr int64_t kIdleLookNs = 60 * kNsPerSecond;
// A state that was not reached is set again after these: the file's pages once, and before an idle
// time whatever it was.
constexpr std::array<int64_t, 1> kStatePausesNs = {200 * kNsPerMs};
constexpr std::array<int64_t, 4> kLongStatePausesNs = {1 * kNsPerSecond, 5 * kNsPerSecond,
                                                       30 * kNsPerSecond, 60 * kNsPerSecond};

bool Interrupted(const AttemptContext& context) {
  return context.interrupt != nullptr && context.interrupt->load();
}

bool PagesNotReached(const results::LayerReadings& readings) {
  const auto pages = readings.find(std::string(LayerName(Layer::kPageCache)));
  return pages != readings.end() && pages->second.reached == false;
}

bool HasProcess(const AttemptContext& context) {
  return RowOf(context.states.target.kind()).owns_process;
}

bool TakesMessages(wire::Api api) {
  return api != wire::Api::kOpenAiCompletions && api != wire::Api::kOllamaGenerate &&
         api != wire::Api::kLlamaCompletion;
}

struct Sent {
  wire::Exchange exchange;
  MonoTime intended;
  int64_t tries = 1;
  std::optional<int64_t> first_accepted_ns;
  // From the last refused try (or the spawn) to the accepted one: so much earlier the server may
  // have been ready.
  std::optional<int64_t> uncertainty_ns;
  std::vector<results::Lane> tries_made;
};

// The measured request's place among those that are sent with it.
struct Burst {
  Companions companions;
  int64_t place = 0;
};

void RecordTry(const wire::Exchange& exchange, Sent& sent) {
  if (!sent.first_accepted_ns && exchange.marks.connected) {
    sent.first_accepted_ns = *exchange.marks.connected - sent.intended;
  }
  if (sent.tries_made.size() >= kListedTriesLimit) return;
  const MonoTime start = exchange.marks.connect_start.value_or(sent.intended);
  const MonoTime end = exchange.marks.end.value_or(start);
  sent.tries_made.push_back({.name = exchange.http_status ? "try: 503" : "try: refused",
                             .start_ns = start - sent.intended,
                             .end_ns = end - sent.intended,
                             .bytes = std::nullopt});
}

// The same request again and again until the starting server takes it. Ends when the server ends.
void SendWhileStarting(AttemptContext& context, int64_t timeout_ns, Sent& sent) {
  Clock& clock = context.states.clock;
  MonoTime tried = sent.intended;
  for (;;) {
    const MonoTime previous = tried;
    tried = clock.Now();
    sent.exchange = context.sender.Perform(sent.intended, context.interrupt);
    sent.uncertainty_ns = tried - previous;
    if (!IsStarting(sent.exchange)) break;
    RecordTry(sent.exchange, sent);
    const int64_t waited_ns = clock.Now() - sent.intended;
    if (waited_ns > timeout_ns || Interrupted(context) || !context.states.target.Alive()) break;
    clock.SleepUntil(tried + RetryPauseNs(waited_ns));
    ++sent.tries;
  }
  if (!sent.first_accepted_ns && sent.exchange.marks.connected) {
    sent.first_accepted_ns = *sent.exchange.marks.connected - sent.intended;
  }
}

void FollowNewProcess(AttemptContext& context) {
  if (context.sampler == nullptr) return;
  const std::optional<ProcessIdentity> identity = context.states.target.Identity();
  if (identity) context.sampler->Follow(identity->pid);
}

// Steps 5 to 7. An Error is a process that could not be spawned.
Result<Sent> Send(AttemptContext& context, const Condition& condition, const SendSetup& setup,
                  Burst& burst) {
  const int64_t timeout_ns = context.states.plan.timeout_ns;
  Sent sent;
  context.sender.KeepConnection(setup.reuse_connection);
  if (setup.spawn_at_send) {
    ASSIGN_OR_RETURN(sent.intended, context.states.target.Spawn(condition.target_args));
    context.states.running_args = condition.target_args;
    context.states.running_path = condition.path;
    burst.companions.Go(sent.intended, true);
    FollowNewProcess(context);
    SendWhileStarting(context, timeout_ns, sent);
  } else {
    sent.intended = context.states.clock.Now();
    if (condition.concurrency > 1) {
      // Every thread is awake by then.
      burst.companions.Go(sent.intended + kBurstLeadNs, false);
      sent.intended = sent.intended + kBurstLeadNs + burst.place * kBurstStepNs;
    }
    sent.exchange = context.sender.Perform(sent.intended, context.interrupt);
  }
  return sent;
}

// A process that died is told from a connection that broke: the kernel needs a moment to say so.
bool TargetDied(AttemptContext& context, Outcome outcome) {
  if (!HasProcess(context)) return false;
  if (!context.states.target.Alive()) return true;
  if (outcome != Outcome::kTruncated && outcome != Outcome::kConnectError) return false;
  const MonoTime deadline = context.states.clock.Now() + kSettleNs;
  while (context.states.clock.Now() < deadline) {
    if (!context.states.target.Alive()) return true;
    context.states.clock.SleepFor(kDeathPollNs);
  }
  return false;
}

void MarkTargetExited(AttemptContext& context, Attempt& attempt) {
  const std::string before = attempt.outcome_detail;
  attempt.outcome = Outcome::kTargetExited;
  attempt.outcome_detail = "the server " + context.states.target.ExitText();
  if (!before.empty()) attempt.outcome_detail += " (" + before + ")";
  const std::string tail = context.states.target.LogTail();
  if (!tail.empty()) attempt.outcome_detail += "; its last words:\n" + tail;
}

void StoreTimeline(const AttemptContext& context, const Sent& sent, bool process_new,
                   Attempt& attempt) {
  TimelineInput input;
  input.marks = attempt.marks;
  input.ttft_ns = attempt.ttft_ns;
  input.process_new = process_new;
  input.first_accepted_ns = sent.first_accepted_ns;
  if (process_new && sent.exchange.marks.connect_start) {
    input.answered_try_ns = *sent.exchange.marks.connect_start - sent.intended;
  }
  attempt.lanes = sent.tries_made;
  if (!sent.exchange.rouse_timeline_json.empty()) {
    Result<ServerTimeline> timeline =
        ParseTimeline(sent.exchange.rouse_timeline_json, sent.intended);
    if (timeline.ok()) {
      input.has_timeline = true;
      input.segments = timeline->segments;
      attempt.segments = timeline->segments;
      for (results::Lane& lane : timeline->lanes) attempt.lanes.push_back(std::move(lane));
    } else {
      attempt.warnings.push_back({"timeline_unreadable", timeline.error().message()});
    }
  } else if (context.states.target.tells_timeline() && attempt.ttft_ns) {
    attempt.warnings.push_back({"timeline_missing", "the server did not tell its timeline"});
  }
  if (!input.has_timeline) {
    input.reported_prefill_ns = ReportedPrefillNs(sent.exchange.server_timings_json);
  }
  TimelineResult result = ComputeStages(input);
  attempt.stages = result.stages;
  for (results::Warning& warning : result.warnings) attempt.warnings.push_back(std::move(warning));
}

// How long the machine has been suspended since `start`, as far as anybody looks.
int64_t SuspendedSince(const AttemptContext& context, const MachineClocks& start) {
  return context.clocks ? SuspendedBetween(start, context.clocks()) : 0;
}

// Sleeps through the idle time without touching anything; false when interrupted, also by a
// suspend. Once a minute it looks at two clocks of the kernel, so that a night that a suspend has
// spoilt is not waited for to its end.
bool Idle(AttemptContext& context, int64_t idle_ns, const MachineClocks& start) {
  const MonoTime deadline = context.states.clock.Now() + idle_ns;
  while (context.states.clock.Now() < deadline) {
    if (Interrupted(context) || SuspendedSince(context, start) > 0) return false;
    context.states.clock.SleepUntil(std::min(deadline, context.states.clock.Now() + kIdleLookNs));
  }
  return SuspendedSince(context, start) == 0;
}

std::optional<int64_t> FileBytes(AttemptContext& context) {
  const std::string file = context.states.target.model_file();
  if (file.empty()) return std::nullopt;
  const Result<PageCache::Share> share = context.states.page_cache.Read(file, 1);
  return share.ok() ? std::optional<int64_t>(share->file_bytes) : std::nullopt;
}

// The same for all conditions of a block and for nothing else: drawn from the plan's hash.
uint64_t BlockSalt(const Plan& plan, int64_t block) {
  uint64_t state = 0;
  const std::string hash = PlanHash(plan).substr(0, 16);
  std::from_chars(hash.data(), hash.data() + hash.size(), state, 16);
  return SplitMix64(state + static_cast<uint64_t>(block)).Below(kSalts);
}

// Whether two answers are the same is told by their hash; the text is kept only when the plan asks.
void StoreAnswer(const wire::Exchange& exchange, bool keep, Attempt& attempt) {
  const std::string answer = exchange.reasoning_text + exchange.content_text;
  if (answer.empty()) return;
  nlohmann::json extra = nlohmann::json::parse(attempt.extra_json, nullptr, false);
  if (!extra.is_object()) extra = nlohmann::json::object();
  extra["answer_sha256"] = Sha256Hex(answer);
  if (keep) extra["answer"] = answer;
  attempt.extra_json = extra.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Of what only the answer can tell, what an idle time may have taken.
bool LostToIdle(const std::string& layer, const results::LayerReading& reading) {
  if (reading.reached.value_or(true)) return false;
  return (layer == LayerName(Layer::kPrefixCache) && reading.wanted == "hit") ||
         (layer == LayerName(Layer::kConnection) && reading.wanted == "reused");
}

// A state that the answer itself refutes (a prefix that was cached after all, a connection that had
// been closed) makes the attempt no sample of its condition; what was seen of it stays. After an
// idle time a lost prefix or connection is what was looked for.
void JudgeAfter(Attempt& attempt) {
  if (attempt.outcome != Outcome::kOk) return;
  results::LayerReadings judged = attempt.state_after;
  results::LayerReadings lost;
  for (const auto& [layer, reading] : attempt.state_after) {
    if (attempt.idle_ns <= 0 || !LostToIdle(layer, reading)) continue;
    lost.emplace(layer, reading);
    judged.erase(layer);
  }
  if (!lost.empty()) attempt.warnings.push_back({"lost_while_idle", AllNotReached(lost)});
  const std::string why = WhyNotReached(judged);
  if (why.empty()) return;
  attempt.outcome = Outcome::kStateNotReached;
  attempt.outcome_detail = "told by the answer: " + why;
}

class Runner {
 public:
  Runner(AttemptContext& context, const ScheduledAttempt& scheduled)
      : context_(context),
        condition_(context.states.plan.conditions[scheduled.condition]),
        scheduled_(scheduled),
        idle_ns_(IdleNs(context.states.plan, scheduled)),
        loads_(context.states, condition_) {
    context_.states.block_salt.reset();
    if (context_.states.plan.salt_per_block) {
      context_.states.block_salt = BlockSalt(context_.states.plan, scheduled.block);
    }
  }

  Attempt Run() {
    Fill();
    if (context_.clocks) start_ = context_.clocks();
    if (!PrepareState()) return std::move(attempt_);
    const wire::RequestSpec spec =
        MakeRequest(context_.states.plan, context_.states.target, preparation_.setup);
    Status prepared = context_.sender.Prepare(spec);
    if (prepared.ok()) prepared = PrepareBurst();
    if (!prepared.ok()) return End(Outcome::kConnectError, prepared.error().message());
    const std::string disk = condition_.path.empty()
                                 ? context_.disk
                                 : DiskOf(context_.proc, context_.states.target.model_file());
    const std::vector<int> pids = context_.states.target.Tree();
    const CounterSnapshot before = ReadCounters(context_.proc, pids, disk);
    attempt_.started_wall_ns = WallNowNs();
    attempt_.suspended_ns = SuspendedNs();
    loads_.MarkSend();
    if (context_.sampler != nullptr) {
      context_.sampler->Begin(pids, context_.states.target.model_file());
    }
    const Result<Sent> sent = Send(context_, condition_, preparation_.setup, burst_);
    if (context_.states.plan.sample_every_ns == 0) {
      attempt_.null_reasons["samples"] = "the plan says sample_every = \"0s\"";
    }
    if (context_.sampler != nullptr) {
      context_.sampler->End(sent.ok() ? sent->intended : context_.states.clock.Now(), attempt_);
    }
    if (!sent.ok()) return End(Outcome::kTargetExited, sent.error().message());
    StoreExchange(sent->exchange, attempt_);
    StoreAnswer(sent->exchange, context_.states.plan.keep_answer, attempt_);
    if (preparation_.setup.spawn_at_send) {
      attempt_.tries = sent->tries;
      attempt_.uncertainty_ns = sent->uncertainty_ns;
    }
    const bool died = TargetDied(context_, attempt_.outcome);
    const std::vector<int> tree = died ? std::vector<int>() : context_.states.target.Tree();
    StoreCounters(before, ReadCounters(context_.proc, tree, disk),
                  HasProcess(context_) || !before.tree.processes.empty(), attempt_);
    StoreTimeline(context_, *sent, preparation_.setup.spawn_at_send, attempt_);
    // Their answers end before the server is asked anything else.
    const std::vector<Companions::Seen> companions = burst_.companions.Finish(died);
    if (died && attempt_.outcome != Outcome::kOk) {
      MarkTargetExited(context_, attempt_);
    } else {
      attempt_.state_after = ReadAfter(context_.states, condition_, preparation_, attempt_);
      if (died) TellLateExit();
      StoreToldMemory(context_.states.told_state, attempt_);
      StorePrefixSize(context_.states, condition_, attempt_);
    }
    if (condition_.concurrency > 1) {
      StoreCompanions(companions, burst_.place, sent->intended, attempt_);
    }
    loads_.End(sent->intended, sent->exchange.marks.end.value_or(context_.states.clock.Now()),
               attempt_);
    FlagImpossibleValues(condition_, FileBytes(context_), context_.states.target.tells_timeline(),
                         attempt_);
    JudgeAfter(attempt_);
    if (SuspendedSince(context_, start_) > 0) return End(Outcome::kInterrupted, WhySuspended());
    return std::move(attempt_);
  }

 private:
  std::string WhySuspended() const {
    return "the machine was suspended for " + FormatDuration(SuspendedSince(context_, start_)) +
           " during the attempt";
  }

  // The answer was whole, and its server ended before it could be looked at: a sample all the same.
  void TellLateExit() {
    attempt_.state_after[std::string(LayerName(Layer::kProcess))].reached.reset();
    attempt_.warnings.push_back(
        {"target_exited_after_answer", "the server " + context_.states.target.ExitText()});
  }

  void Fill() {
    attempt_.condition = condition_.name;
    attempt_.prime = scheduled_.prime;
    if (!scheduled_.prime) attempt_.block = scheduled_.block;
    attempt_.position = scheduled_.position;
    attempt_.api = context_.states.plan.target.api;
    attempt_.idle_ns = idle_ns_;
  }

  // The others of a burst: the same request with salts of their own.
  Status PrepareBurst() {
    if (condition_.concurrency == 1) return {};
    burst_.place = static_cast<int64_t>(context_.states.next_salt() %
                                        static_cast<uint64_t>(condition_.concurrency));
    std::vector<wire::RequestSpec> requests;
    for (int64_t i = 1; i < condition_.concurrency; ++i) {
      SendSetup setup = preparation_.setup;
      setup.salt_text = SaltText(context_.states.next_salt());
      requests.push_back(MakeRequest(context_.states.plan, context_.states.target, setup));
    }
    return burst_.companions.Prepare(requests, burst_.place, context_.make_sender,
                                     context_.interrupt);
  }

  Attempt End(Outcome outcome, const std::string& detail) {
    attempt_.outcome = outcome;
    attempt_.outcome_detail = detail;
    if (!attempt_.started_wall_ns) attempt_.started_wall_ns = WallNowNs();
    return std::move(attempt_);
  }

  // Steps 1 to 4; false when no request is to be sent (the outcome then says why).
  bool PrepareState() {
    if (!SetState()) return false;
    if (context_.on_request) context_.on_request();
    bool quiet = WaitForQuiet(context_.states, kQuietLimitNs);
    if (const std::string arrived = PagesDisturbedSince(); !arrived.empty()) {
      attempt_.warnings.push_back({"state_set_again", arrived});
      if (!SetState()) return false;
      quiet = WaitForQuiet(context_.states, kQuietLimitNs);
    }
    if (!quiet) {
      attempt_.warnings.push_back(
          {"not_quiet", "the server was still busy 2 s after its state had been set"});
    }
    if (const std::string why = loads_.Begin(attempt_); !why.empty()) {
      attempt_ = End(Outcome::kStateNotReached, why);
      return false;
    }
    if (!IdleAndWatch() || Interrupted(context_)) {
      const bool suspended = SuspendedSince(context_, start_) > 0;
      attempt_ =
          End(Outcome::kInterrupted, suspended ? WhySuspended() : "interrupted before the request");
      return false;
    }
    results::LayerReadings loads;
    const std::string no_load = loads_.BeforeSend(loads);
    results::LayerReadings readings = ReadWithoutContact(context_.states, condition_, preparation_);
    const std::string lost = WhyNotReached(readings);
    attempt_.state_at_send.merge(readings);  // beside what the idle time left
    attempt_.state_at_send.merge(loads);
    if (!no_load.empty()) {
      attempt_ = End(Outcome::kStateNotReached, no_load);
      return false;
    }
    const std::string lost_to_idle = idle_ns_ > 0 ? AllNotReached(attempt_.state_at_send) : "";
    if (!lost_to_idle.empty()) attempt_.warnings.push_back({"lost_while_idle", lost_to_idle});
    if (lost.empty()) return true;
    // What an idle time or the ballast does to a layer is the finding, not a failure to set it.
    const bool ballast = condition_.Value(Layer::kMemoryPressure) != "none";
    if (ballast) attempt_.warnings.push_back({"lost_to_ballast", lost});
    if (ballast || idle_ns_ > 0) return true;
    attempt_ = End(Outcome::kStateNotReached, lost);
    return false;
  }

  // Steps 1 and 2; false when the attempt has ended with them.
  bool SetState() {
    Result<Preparation> prepared = BringAboutPatiently();
    if (!prepared.ok()) {
      attempt_ = End(Outcome::kInterrupted, "interrupted while the state was set");
      return false;
    }
    preparation_ = *std::move(prepared);
    attempt_.state_before = preparation_.readings;
    if (preparation_.reached) return true;
    const bool died = preparation_.target_died;
    attempt_ = End(died ? Outcome::kTargetExited : Outcome::kStateNotReached, preparation_.why);
    return false;
  }

  // Pages whose reading was under way when the state was proved arrive afterwards. "" when the
  // file's pages are as they were set, or when it is the idle time's to tell.
  std::string PagesDisturbedSince() {
    const bool usual =
        condition_.Value(Layer::kPageCache) == RowOf(Layer::kPageCache).default_value;
    if (usual || scheduled_.prime || idle_ns_ > 0) return "";
    const results::LayerReadings now =
        ReadWithoutContact(context_.states, condition_, preparation_);
    return PagesNotReached(now) ? WhyNotReached(now) : "";
  }

  // What disturbs a state (another program drops the file's pages, or reads some)
  // mostly passes. Before an idle time there is no hurry: a night must not lose attempt after
  // attempt to a minute. Else only the file's pages are worth a second try: what else fails has
  // waited for its time limit. No request was sent yet, so nothing is chosen by its result.
  Result<Preparation> BringAboutPatiently() {
    using Pauses = std::span<const int64_t>;
    const bool idle = idle_ns_ > 0;
    for (const int64_t pause_ns : idle ? Pauses(kLongStatePausesNs) : Pauses(kStatePausesNs)) {
      Result<Preparation> prepared = BringAbout(context_.states, condition_);
      const bool again = prepared.ok() && !prepared->reached && !prepared->target_died &&
                         (idle || PagesNotReached(prepared->readings)) && !scheduled_.prime &&
                         !Interrupted(context_);
      if (!again) return prepared;
      attempt_.warnings.push_back({"state_set_again", prepared->why});
      if (context_.states.on_step) context_.states.on_step("waiting to set the state again");
      context_.states.clock.SleepFor(pause_ns);
    }
    return BringAbout(context_.states, condition_);
  }

  // Step 4. What can be told of the idle time is read on both sides of it.
  bool IdleAndWatch() {
    if (!condition_.idle_ns || scheduled_.prime) return true;
    if (idle_ns_ > 0 && context_.on_idle) context_.on_idle(idle_ns_);
    const IdleSnapshot before = ReadIdleSnapshot(context_.proc, context_.states);
    if (!Idle(context_, idle_ns_, start_)) return false;
    StoreIdle(before, ReadIdleSnapshot(context_.proc, context_.states), condition_, attempt_);
    return true;
  }

  AttemptContext& context_;
  const Condition& condition_;
  const ScheduledAttempt& scheduled_;
  const int64_t idle_ns_;
  MachineClocks start_;
  AttemptLoads loads_;
  Preparation preparation_;
  Burst burst_;
  Attempt attempt_;
};

}  // namespace

wire::RequestSpec MakeRequest(const Plan& plan, Target& target, const SendSetup& setup) {
  wire::RequestSpec spec;
  const std::string& prompt = setup.prompt.empty() ? plan.prompt : setup.prompt;
  spec.url = target.url();
  spec.api = wire::ApiFromName(plan.target.api);
  spec.model = target.request_model();
  const bool takes_messages = TakesMessages(spec.api.value_or(wire::Api::kOpenAiChat));
  if (prompt.find(kSaltPlace) != std::string::npos) {
    const std::string digits = setup.salt_text.substr(0, kPlacedSaltDigits);
    spec.prompt = ReplaceAll(prompt, kSaltPlace, digits);
    if (takes_messages) spec.messages = {{.role = "user", .content = spec.prompt}};
    if (takes_messages) spec.prompt.clear();
  } else if (takes_messages) {
    spec.messages = {{.role = "system", .content = setup.salt_text},
                     {.role = "user", .content = prompt}};
  } else {
    spec.prompt = setup.salt_text + "\n" + prompt;
  }
  spec.max_tokens = setup.max_tokens.value_or(plan.max_tokens);
  spec.timeouts.total_ns = plan.timeout_ns;
  nlohmann::json extra = nlohmann::json::object();
  if (target.tells_timeline()) extra["rouse_timeline"] = true;
  const bool may_forbid = RowOf(target.kind()).takes_cache_prompt;
  if (setup.forbid_prefix && may_forbid) extra["cache_prompt"] = false;
  if (!extra.empty()) spec.extra_body_json = extra.dump();
  for (const auto& [header, variable] : plan.target.headers_env) {
    const char* const value = std::getenv(variable.c_str());
    spec.headers.push_back({.name = header, .value = value == nullptr ? "" : value});
  }
  return spec;
}

Result<PrimerReport> SendPrimer(AttemptContext& context, const SendSetup& setup) {
  RETURN_IF_ERROR(
      context.sender.Prepare(MakeRequest(context.states.plan, context.states.target, setup)));
  context.sender.KeepConnection(setup.reuse_connection);
  const MonoTime deadline = context.states.clock.Now() + context.states.plan.timeout_ns;
  for (;;) {
    const wire::Exchange exchange = context.sender.Perform(std::nullopt, context.interrupt);
    if (exchange.outcome == wire::Outcome::kOk) {
      return PrimerReport{.prompt_tokens = exchange.usage.prompt_tokens,
                          .cached_tokens = exchange.usage.cached_tokens};
    }
    const bool again = IsStarting(exchange) && context.states.clock.Now() < deadline &&
                       context.states.target.Alive() && !Interrupted(context) &&
                       HasProcess(context);
    if (!again) {
      return Error(ErrorCode::kState, std::string(wire::OutcomeName(exchange.outcome)) + ": " +
                                          exchange.outcome_detail);
    }
    context.states.clock.SleepFor(kPrimerRetryNs);
  }
}

Attempt RunAttempt(AttemptContext& context, const ScheduledAttempt& scheduled) {
  std::vector<results::Warning> taken;
  for (int i = 1;; ++i) {
    Attempt attempt = Runner(context, scheduled).Run();
    // Another program took the port between our choice and the server's bind: whatever was seen
    // then was not our server.
    if (i == kPortTries || Interrupted(context) || !context.states.target.PortTaken()) {
      attempt.warnings.insert(attempt.warnings.begin(), taken.begin(), taken.end());
      return attempt;
    }
    taken.push_back({"port_taken",
                     "another program listened on the port that was picked for the "
                     "server; begun again on another one"});
  }
}

}  // namespace rouse::lab
