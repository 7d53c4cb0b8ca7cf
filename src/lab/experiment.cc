#include "lab/experiment.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/units.h"
#include "lab/calibration.h"
#include "lab/counters.h"
#include "lab/environment.h"
#include "lab/idle_watch.h"
#include "lab/resume.h"
#include "os/process.h"

namespace rouse::lab {
namespace {

using results::Attempt;
using results::Outcome;

constexpr int64_t kStopLimitNs = 20 * kNsPerSecond;
constexpr int kSuspendTries = 3;

bool CameUp(const Attempt& attempt) {
  return attempt.outcome != Outcome::kStateNotReached && attempt.outcome != Outcome::kTargetExited;
}

class Experiment {
 public:
  Experiment(const Plan& plan, uint64_t seed, results::Store& store, ExperimentParts parts,
             const ExperimentEvents& events)
      : plan_(plan),
        seed_(seed),
        store_(store),
        parts_(std::move(parts)),
        events_(events),
        salts_(SplitMix64(seed).Next() ^ static_cast<uint64_t>(WallNowNs())) {}

  Result<ExperimentResult> Run() {
    if (parts_.resume_run) {
      ASSIGN_OR_RETURN(const results::Run stored, store_.LoadRun(*parts_.resume_run));
      seed_ = stored.seed.value_or(seed_);
    }
    schedule_ = MakeSchedule(plan_, seed_);
    for (const ScheduledAttempt& each : schedule_) {
      if (!each.prime) ++progress_.total;
    }
    if (parts_.resume_run) {
      RETURN_IF_ERROR(ResumeRun(*parts_.resume_run));
    } else {
      RETURN_IF_ERROR(CreateRun());
    }
    if (events_.on_start) events_.on_start(result_.run);
    session_from_ = parts_.clock.Now();
    Status attempts = RunAll();
    if (attempts.ok()) attempts = RunAfter();
    // Stopped before the run is closed: a server must not outlive its run.
    const Status stopped = parts_.target.Stop(parts_.clock.Now() + kStopLimitNs);
    result_.run.status = !attempts.ok() || !result_.failure.empty() ? "failed"
                         : result_.interrupted                      ? "interrupted"
                         : !result_.paused.empty()                  ? "paused"
                                                                    : "complete";
    const Status finished = store_.FinishRun(*result_.run.id, result_.run.status);
    for (const Status& status : {attempts, finished, stopped}) {
      if (!status.ok()) return status.error();
    }
    ASSIGN_OR_RETURN(result_.run, store_.LoadRun(*result_.run.id));
    return std::move(result_);
  }

 private:
  bool Interrupted() const { return events_.interrupt != nullptr && events_.interrupt->load(); }

  Status CreateRun() {
    results::Run& run = result_.run;
    run.name = plan_.name;
    run.kind = "measure";
    run.status = "running";
    run.rouse_version = ROUSE_VERSION;
    run.started_wall_ns = WallNowNs();
    run.seed = seed_;
    run.plan_toml = plan_.toml;
    run.plan_hash = PlanHash(plan_);
    run.target = TargetText(plan_.target);
    run.model = plan_.target.model;
    run.conditions = ConditionRows(plan_);
    run.hypotheses = plan_.hypotheses;
    run.require_ttft_ns = plan_.require_ttft_ns;
    run.verification = parts_.cases;
    Say("reading the environment");
    run.environment = Environment();
    if (std::any_of(plan_.conditions.begin(), plan_.conditions.end(),
                    [](const Condition& each) { return each.idle_ns.has_value(); })) {
      run.environment["damon_reclaim"] = DamonReclaim(os::ProcRoot::Real());
    }
    if (parts_.calibrate) {
      Say("calibrating the client");
      const Result<std::vector<results::CalibrationRow>> rows = Calibrate();
      if (rows.ok()) {
        run.calibration = *rows;
      } else {
        run.environment["calibration_failed"] = rows.error().message();
      }
    }
    ASSIGN_OR_RETURN(run.id, store_.CreateRun(run));
    return {};
  }

  std::map<std::string, std::string> Environment() const {
    std::map<std::string, std::string> facts =
        ReadEnvironment(os::ProcRoot::Real(), parts_.target.model_file());
    for (const auto& [name, value] : parts_.environment) facts[name] = value;
    return facts;
  }

  // The plan's hash covers no file and no version.
  Status CompareEnvironment(const std::string& title) {
    Say("reading the environment");
    const std::map<std::string, std::string> now = Environment();
    const std::string model = OtherModel(result_.run.environment, now);
    if (!model.empty()) {
      return Error(ErrorCode::kUsage, "the model's file is not the one that " + title +
                                          " began with (" + model +
                                          "): another model is a new run");
    }
    changed_ = OtherMachine(result_.run.environment, now);
    if (result_.run.rouse_version != ROUSE_VERSION) {
      changed_ += (changed_.empty() ? "rouse: it was " : "; rouse: it was ") +
                  result_.run.rouse_version + ", it is " ROUSE_VERSION;
    }
    return {};
  }

  // What a run that was interrupted, killed or rebooted away has left.
  Status ResumeRun(int64_t id) {
    ASSIGN_OR_RETURN(result_.run, store_.LoadRun(id));
    const std::string title = "run " + std::to_string(id);
    if (result_.run.status == "complete") {
      return Error(ErrorCode::kUsage, title + " is complete; there is nothing to resume");
    }
    if (result_.run.plan_hash != PlanHash(plan_)) {
      return Error(ErrorCode::kUsage,
                   "the plan is not the one that " + title +
                       " began with (its hash differs): a changed plan is a new run");
    }
    ASSIGN_OR_RETURN(const std::optional<results::RunProgress> left, store_.LoadProgress(id));
    if (left && IsAlive(*left)) {
      return Error(ErrorCode::kState, title + " is being measured right now, by process " +
                                          std::to_string(left->tool_pid) +
                                          "; rouse list --follow looks on");
    }
    RETURN_IF_ERROR(CompareEnvironment(title));
    ASSIGN_OR_RETURN(result_.attempts, store_.LoadAttempts(id));
    for (const Attempt& attempt : result_.attempts) {
      if (!attempt.position) continue;
      if (attempt.outcome == Outcome::kInterrupted) {
        cut_.insert(*attempt.position);
      } else {
        finished_.insert(*attempt.position);
      }
    }
    if (left && left->position && result_.run.status == "running") {
      RETURN_IF_ERROR(EndWhatWasInFlight(*left));
    }
    resumed_from_ = result_.run.status;
    progress_.done = static_cast<int64_t>(finished_.size());
    result_.run.status = "running";
    result_.run.ended_wall_ns.reset();
    return store_.UpdateRun(result_.run);
  }

  // A tool that was killed has left no more of its attempt than the note that it was begun. It gets
  // its end here, so that every attempt that was begun has one.
  Status EndWhatWasInFlight(const results::RunProgress& left) {
    if (finished_.contains(*left.position)) return {};
    cut_.insert(*left.position);
    Attempt attempt;
    attempt.condition = left.condition;
    attempt.position = left.position;
    for (const ScheduledAttempt& scheduled : schedule_) {
      if (scheduled.position == left.position) attempt.block = scheduled.block;
    }
    attempt.outcome = Outcome::kInterrupted;
    attempt.outcome_detail = left.boot_id == parts_.clocks().boot_id
                                 ? "rouse ended without storing this attempt: it was killed, it "
                                   "crashed, or the database could not be written"
                                 : "the machine was started anew during this attempt";
    attempt.started_wall_ns = left.updated_wall_ns;
    RETURN_IF_ERROR(store_.AppendAttempt(*result_.run.id, attempt));
    result_.attempts.push_back(std::move(attempt));
    return {};
  }

  // The process that measured last still does. Our own number is nobody else's.
  bool IsAlive(const results::RunProgress& left) const {
    return left.tool_pid != getpid() && IsBeingMeasured(left, parts_.clocks().boot_id);
  }

  void Say(const std::string& step, bool request = false) {
    progress_.step = step;
    progress_.request = request;
    progress_.doing = progress_.condition.empty() ? step : progress_.condition + ": " + step;
    if (events_.on_step) events_.on_step(progress_);
  }

  // For whoever looks on, and for the one who goes on after a crash. Before an attempt and before
  // its idle time only: it waits for the disk.
  Status TellStore(std::optional<int64_t> position) {
    results::RunProgress now;
    now.updated_wall_ns = WallNowNs();
    now.boot_id = clocks_.boot_id;
    now.tool_pid = getpid();
    now.tool_start_ticks =
        os::ProcessStartTicks(getpid()).ok() ? *os::ProcessStartTicks(getpid()) : 0;
    now.position = position;
    now.done = progress_.done;
    now.total = progress_.total;
    now.condition = progress_.condition;
    now.doing = progress_.step;
    now.until_wall_ns = progress_.until_wall_ns;
    now.eta_ns = progress_.eta_ns;
    return store_.SetProgress(*result_.run.id, now);
  }

  // Rest of the run at the pace so far, idle times counted exactly.
  int64_t Eta(size_t next) const {
    int64_t idle_ns = 0;
    int64_t rest = 0;
    for (size_t i = next; i < schedule_.size(); ++i) {
      if (schedule_[i].position && finished_.contains(*schedule_[i].position)) continue;
      ++rest;
      idle_ns += IdleNs(plan_, schedule_[i]);
    }
    if (begun_ == 0) return EstimateRunNs(plan_, schedule_, std::nullopt);
    return idle_ns + rest * (busy_ns_ / begun_);
  }

  // What happened to the machine since the last attempt, be it in this process or before a resume.
  void NoticeClocks(Attempt& attempt) {
    const MachineClocks now = parts_.clocks();
    for (results::Warning& warning : ClockWarnings(clocks_, now)) {
      attempt.warnings.push_back(std::move(warning));
    }
    clocks_ = now;
    if (now.boot_id.empty()) return;
    nlohmann::json extra = nlohmann::json::parse(attempt.extra_json, nullptr, false);
    if (!extra.is_object()) extra = nlohmann::json::object();
    extra["boot_id"] = now.boot_id;
    attempt.extra_json = extra.dump();
  }

  // Its first digit counts, the rest is random.
  uint64_t NextSalt() {
    constexpr uint64_t kRest = kSalts / 10;
    return salt_count_++ % 10 * kRest + salts_.Below(kRest);
  }

  AttemptContext MakeContext() {
    return AttemptContext{.states = {.plan = plan_,
                                     .target = parts_.target,
                                     .page_cache = parts_.page_cache,
                                     .clock = parts_.clock,
                                     .send_primer = {},
                                     .on_step = {},
                                     .interrupted = [this] { return Interrupted(); },
                                     .next_salt = [this] { return NextSalt(); },
                                     .running_args = {},
                                     .forced_prefix_tokens = {},
                                     .loads = parts_.loads},
                          .sender = parts_.sender,
                          .proc = os::ProcRoot::Real(),
                          .interrupt = events_.interrupt,
                          .disk = DiskOf(os::ProcRoot::Real(), parts_.target.model_file()),
                          .sampler = parts_.sampler,
                          .clocks = parts_.clocks};
  }

  Status RunAll() {
    clocks_ = parts_.clocks();
    // A resumed run compares with the boot that its last attempt was made in.
    for (const Attempt& attempt : result_.attempts) {
      const auto extra = nlohmann::json::parse(attempt.extra_json, nullptr, false);
      if (extra.is_object() && extra.contains("boot_id") && extra["boot_id"].is_string()) {
        clocks_.boot_id = extra["boot_id"].get<std::string>();
      }
    }
    parts_.target.StopWaitingWhen(events_.interrupt);
    AttemptContext context = MakeContext();
    context.states.send_primer = [&](const SendSetup& setup) { return SendPrimer(context, setup); };
    context.states.on_step = [&](const std::string& what) { Say(what); };
    for (size_t i = 0; i < schedule_.size(); ++i) {
      if (IsFinished(schedule_[i])) continue;
      if (!FitsIntoSession(i)) return {};
      RETURN_IF_ERROR(RunScheduled(context, i));
      if (result_.interrupted || !result_.failure.empty()) return {};
    }
    return {};
  }

  Status RunAfter() {
    if (!parts_.after_attempts) return {};
    if (result_.interrupted || !result_.paused.empty() || !result_.failure.empty()) return {};
    progress_.condition.clear();
    progress_.eta_ns = 0;
    return parts_.after_attempts(result_, [this](const std::string& step) {
      Say(step);
      // A store that fails here fails again at the end of the step, and is told then.
      const Status told = TellStore({});
      static_cast<void>(told.ok());
    });
  }

  bool IsFinished(const ScheduledAttempt& scheduled) const {
    return scheduled.position && finished_.contains(*scheduled.position);
  }

  // One place of the schedule: once, or again while the machine is suspended in the midst of it.
  Status RunScheduled(AttemptContext& context, size_t i) {
    const ScheduledAttempt& scheduled = schedule_[i];
    for (int tries = 1;; ++tries) {
      ASSIGN_OR_RETURN(const Attempt attempt, RunOnce(context, i));
      const bool cut = attempt.outcome == Outcome::kInterrupted;
      if (Interrupted() || (cut && tries == kSuspendTries)) {
        // The one that was in flight stays as an interrupted attempt; all after it were never
        // begun.
        result_.interrupted = cut || i + 1 < schedule_.size();
        if (!Interrupted()) result_.why_interrupted = attempt.outcome_detail;
        return {};
      }
      if (!cut) {
        if (scheduled.prime && !CameUp(attempt)) result_.failure = attempt.outcome_detail;
        return {};
      }
      if (scheduled.position) cut_.insert(*scheduled.position);
    }
  }

  Result<Attempt> RunOnce(AttemptContext& context, size_t i) {
    const ScheduledAttempt& scheduled = schedule_[i];
    const Condition& condition = plan_.conditions[scheduled.condition];
    progress_.condition = condition.name;
    progress_.eta_ns = Eta(i);
    Say(scheduled.prime ? "unmeasured first attempt" : "preparing");
    RETURN_IF_ERROR(TellStore(scheduled.position));
    context.on_idle = [&](int64_t idle_ns) {
      progress_.until_wall_ns = WallNowNs() + idle_ns;
      Say("idle for " + FormatWrittenDuration(idle_ns) + ", without any contact");
      // A store that fails here fails again when the attempt is stored, and is told then.
      const Status told = TellStore(scheduled.position);
      static_cast<void>(told.ok());
    };
    context.on_request = [&] { Say("the request: waiting for its first token", true); };
    const MonoTime from = parts_.clock.Now();
    Attempt attempt = RunAttempt(context, scheduled);
    progress_.until_wall_ns.reset();
    if (attempt.outcome != Outcome::kInterrupted) {
      ++begun_;
      busy_ns_ += parts_.clock.Now() - from - IdleNs(plan_, scheduled);
    }
    NoticeClocks(attempt);
    MarkRepeats(attempt);
    RETURN_IF_ERROR(store_.AppendAttempt(*result_.run.id, attempt));
    if (!scheduled.prime && attempt.outcome != Outcome::kInterrupted) ++progress_.done;
    progress_.eta_ns = Eta(i + 1);
    result_.attempts.push_back(attempt);
    if (events_.on_attempt) events_.on_attempt(attempt, progress_);
    return attempt;
  }

  void MarkRepeats(Attempt& attempt) {
    if (!attempt.position) return;
    if (cut_.contains(*attempt.position)) {
      attempt.warnings.push_back(
          {"repeated", "its first try was cut: the run was stopped, or the machine suspended"});
    }
    if (resumed_from_.empty()) return;
    attempt.warnings.push_back(
        {"resumed", resumed_from_ == "running"
                        ? "the run was resumed here after its end by a kill, "
                          "a crash or a reboot"
                        : "the run was resumed here, it had been " + resumed_from_});
    if (!changed_.empty()) attempt.warnings.push_back({"environment_changed", changed_});
    resumed_from_.clear();
  }

  // Whether the attempt may begin: always within a block and in a session's first block; a later
  // block only when it is expected to end within the session.
  bool FitsIntoSession(size_t next) {
    const ScheduledAttempt& scheduled = schedule_[next];
    if (!plan_.session_ns || scheduled.prime) return true;
    if (session_block_ == scheduled.block) return true;
    const bool first = !session_block_;
    session_block_ = scheduled.block;
    if (first) return true;
    size_t end = next;
    while (end < schedule_.size() && schedule_[end].block == scheduled.block) ++end;
    const int64_t used_ns = parts_.clock.Now() - session_from_;
    const int64_t block_ns = Eta(next) - Eta(end);
    if (used_ns + block_ns <= *plan_.session_ns) return true;
    result_.paused = "the next block takes " + FormatDuration(block_ns) +
                     " and would not end within this session of " +
                     FormatDuration(*plan_.session_ns);
    return false;
  }

  const Plan& plan_;
  uint64_t seed_;
  results::Store& store_;
  ExperimentParts parts_;
  const ExperimentEvents& events_;
  std::vector<ScheduledAttempt> schedule_;
  SplitMix64 salts_;
  uint64_t salt_count_ = 0;
  Progress progress_;
  int64_t busy_ns_ = 0;  // of the attempts begun here, without their idle times
  int64_t begun_ = 0;
  std::set<int64_t> finished_;  // positions of a resumed run
  std::set<int64_t> cut_;
  MachineClocks clocks_;      // after the last attempt
  std::string resumed_from_;  // the status of a resumed run, until its first attempt
  std::string changed_;       // of the environment, since it began
  MonoTime session_from_;
  std::optional<int64_t> session_block_;
  ExperimentResult result_;
};

}  // namespace

Result<ExperimentResult> RunExperiment(const Plan& plan, uint64_t seed, results::Store& store,
                                       ExperimentParts parts, const ExperimentEvents& events) {
  return Experiment(plan, seed, store, std::move(parts), events).Run();
}

}  // namespace rouse::lab
