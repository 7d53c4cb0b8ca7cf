#include "lab/experiment.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "lab/calibration.h"
#include "lab/counters.h"
#include "lab/environment.h"

namespace rouse::lab {
namespace {

using results::Attempt;
using results::Outcome;

constexpr int64_t kStopLimitNs = 20 * kNsPerSecond;

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
    const Status attempts = RunAll();
    // Stopped before the run is closed: a server must not outlive its run.
    const Status stopped = parts_.target.Stop(parts_.clock.Now() + kStopLimitNs);
    result_.run.status = !attempts.ok() || !result_.failure.empty() ? "failed"
                         : result_.interrupted                      ? "interrupted"
                                                                    : "complete";
    const Status finished = store_.FinishRun(*result_.run.id, result_.run.status);
    for (const Status* const status : {&attempts, &finished, &stopped}) {
      if (!status->ok()) return status->error();
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
    Say("reading the environment");
    run.environment = ReadEnvironment(os::ProcRoot::Real(), parts_.target.model_file());
    for (const auto& [name, value] : parts_.environment) run.environment[name] = value;
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
    ASSIGN_OR_RETURN(result_.attempts, store_.LoadAttempts(id));
    for (const Attempt& attempt : result_.attempts) {
      if (!attempt.position) continue;
      if (attempt.outcome == Outcome::kInterrupted) {
        cut_.insert(*attempt.position);
      } else {
        finished_.insert(*attempt.position);
      }
    }
    progress_.done = static_cast<int64_t>(finished_.size());
    result_.run.status = "running";
    result_.run.ended_wall_ns.reset();
    return store_.UpdateRun(result_.run);
  }

  void Say(const std::string& doing) {
    progress_.doing = doing;
    if (events_.on_step) events_.on_step(progress_);
  }

  // Rest of the run at the pace so far, idle times counted exactly.
  int64_t Eta(size_t next) const {
    int64_t idle_ns = 0;
    int64_t rest = 0;
    for (size_t i = next; i < schedule_.size(); ++i) {
      if (schedule_[i].position && finished_.contains(*schedule_[i].position)) continue;
      ++rest;
      idle_ns += plan_.conditions[schedule_[i].condition].idle_ns.value_or(0);
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
                          .disk = DiskOf(os::ProcRoot::Real(), parts_.target.model_file())};
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
    AttemptContext context = MakeContext();
    context.states.send_primer = [&](const SendSetup& setup) { return SendPrimer(context, setup); };
    std::string condition_name;
    context.states.on_step = [&](const std::string& what) { Say(condition_name + ": " + what); };
    for (size_t i = 0; i < schedule_.size(); ++i) {
      const ScheduledAttempt& scheduled = schedule_[i];
      const Condition& condition = plan_.conditions[scheduled.condition];
      if (scheduled.position && finished_.contains(*scheduled.position)) continue;
      condition_name = condition.name;
      progress_.eta_ns = Eta(i);
      Say(condition_name + (scheduled.prime ? ": unmeasured first attempt" : ": preparing"));
      const MonoTime from = parts_.clock.Now();
      Attempt attempt = RunAttempt(context, scheduled);
      ++begun_;
      busy_ns_ += parts_.clock.Now() - from - condition.idle_ns.value_or(0);
      NoticeClocks(attempt);
      if (scheduled.position && cut_.contains(*scheduled.position)) {
        attempt.warnings.push_back({"repeated", "its first try was cut when the run was stopped"});
      }
      RETURN_IF_ERROR(store_.AppendAttempt(*result_.run.id, attempt));
      if (!scheduled.prime) ++progress_.done;
      progress_.eta_ns = Eta(i + 1);
      result_.attempts.push_back(attempt);
      if (events_.on_attempt) events_.on_attempt(attempt, progress_);
      if (attempt.outcome == Outcome::kInterrupted || Interrupted()) {
        // The one that was in flight stays as an interrupted attempt; all after it were never
        // begun.
        result_.interrupted = attempt.outcome == Outcome::kInterrupted || i + 1 < schedule_.size();
        return {};
      }
      if (scheduled.prime && !CameUp(attempt)) {
        result_.failure = attempt.outcome_detail;
        return {};
      }
    }
    return {};
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
  MachineClocks clocks_;  // after the last attempt
  ExperimentResult result_;
};

}  // namespace

Result<ExperimentResult> RunExperiment(const Plan& plan, uint64_t seed, results::Store& store,
                                       ExperimentParts parts, const ExperimentEvents& events) {
  return Experiment(plan, seed, store, std::move(parts), events).Run();
}

}  // namespace rouse::lab
