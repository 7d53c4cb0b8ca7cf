// rouse measure: runs an experiment and shows what it found.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/terminal_text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/measure_out.h"
#include "cli/measure_verify.h"
#include "cli/output_text.h"
#include "cli/run_view.h"
#include "cli/whole_file.h"
#include "engine/engine.h"
#include "lab/calibration.h"
#include "lab/experiment.h"
#include "lab/inhibit.h"
#include "lab/leftovers.h"
#include "lab/machine_clock.h"
#include "lab/plan.h"
#include "lab/plan_adapt.h"
#include "lab/plan_schema.h"
#include "lab/resume.h"
#include "lab/sampler.h"
#include "lab/schedule.h"
#include "lab/storage_tiers.h"
#include "lab/target.h"
#include "lab/targets.h"
#include "lab/verify.h"
#include "models/catalog.h"
#include "os/proc_root.h"
#include "os/process.h"
#include "report/comparison.h"
#include "report/html.h"
#include "report/json.h"
#include "report/terminal.h"
#include "report/verify_text.h"
#include "results/store.h"

namespace rouse::cli {
namespace {

struct MeasureFlags {
  CommonFlags common;
  std::string plan_file;
  std::string preset;
  std::optional<std::string> target;
  std::optional<std::string> model;
  std::optional<std::string> model_file;
  std::optional<int64_t> repeat;
  std::optional<int64_t> seed;
  std::optional<std::string> idle;
  std::optional<std::string> require_ttft;
  std::vector<std::string> only;
  std::vector<std::string> paths;
  std::string database;
  std::string html_file;
  std::string out_folder;
  std::optional<std::string> resume;  // "" = the latest run
  std::string spread;
  bool print_plan = false;
  bool print_schema = false;
  bool dry_run = false;
  bool yes = false;
  bool inhibit_sleep = false;
  std::string command;  // as it was typed, to be typed again
};

std::string PresetNames() {
  std::string names;
  for (const lab::Preset& preset : lab::Presets()) {
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
  }
  return names;
}

std::string ServerKinds() {
  std::string names;
  for (const lab::TargetRow& row : lab::Targets()) {
    if (row.owns_process || row.kind == lab::TargetKind::kUrl) continue;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  return names;
}

void AddFlags(CLI::App& app, MeasureFlags& flags) {
  AddCommonFlags(app, flags.common);
  app.add_option("PLAN", flags.plan_file, "A plan file (TOML); without one, --preset quick");
  app.add_option("--preset", flags.preset, "A plan inside this program: " + PresetNames());
  app.add_option("--target", flags.target,
                 "builtin, a URL, KIND:URL for a server whose calls are known (" + ServerKinds() +
                     "), or 'cmd:COMMAND {port} {model}' to start one");
  app.add_option("--model", flags.model, "A model that `rouse models` lists, or a GGUF file");
  app.add_option("--model-file", flags.model_file,
                 "The local file behind a server's model, for page-cache proofs");
  app.add_option("--repeat", flags.repeat, "Attempts per condition");
  // One value each: the plan file may follow.
  app.add_option("--only", flags.only, "Only this condition (may be given again)")
      ->allow_extra_args(false);
  app.add_option("--seed", flags.seed, "Draws the order; drawn and printed when not given")
      ->check([](const std::string& text) {
        // CLI11 takes a number that is too large for the largest.
        const std::optional<int64_t> seed = ParseInt64(text);
        return seed && *seed >= 0 ? std::string()
                                  : "must be a whole number from 0 to 9223372036854775807";
      });
  app.add_option("--idle", flags.idle, "Idle times instead of the plan's: 0s,1m,10m,1h");
  app.add_option("--path", flags.paths,
                 "NAME=DIR: a directory that conditions may load the model's file from, or "
                 "NAME=simulated:200MB/s, where it is but read no faster (may be given again)")
      ->allow_extra_args(false);
  app.add_option("--require-ttft", flags.require_ttft,
                 "The TTFT to hold after every idle time (500ms): ends with one of warm, bounded "
                 "cold start, not held");
  app.add_option("--db", flags.database,
                 "Results database (default $ROUSE_DB, else ~/.local/share/rouse/rouse.sqlite)");
  app.add_option("--html", flags.html_file,
                 "Write the run as a page for a browser as well (as rouse report --html)");
  app.add_option_function<std::string>(
         "--resume", [&flags](const std::string& run) { flags.resume = run; },
         "Go on with this stored run, or with the latest one; with a plan, with its unfinished run "
         "(which begins when there is none)")
      ->expected(0, 1)
      ->option_text("[RUN]");
  app.add_option("--out", flags.out_folder,
                 "Write plan.toml, report.json, attempts.csv and trace.json into this folder too");
  app.add_flag("--yes", flags.yes, "Begin a run of more than an hour without asking");
  app.add_flag("--inhibit-sleep", flags.inhibit_sleep,
               "Keep the machine from suspending meanwhile (where systemd runs)");
  app.add_flag("--print-plan", flags.print_plan, "Print the plan, to edit it; run nothing");
  app.add_flag("--print-schema", flags.print_schema,
               "Print the JSON Schema of plan files, for editors; run nothing");
  app.add_flag("--dry-run", flags.dry_run,
               "Print schedule, states, proofs and the smallest visible effect; run nothing");
  app.add_option("--spread", flags.spread,
                 "With --dry-run: how much single attempts vary, such as 10%, instead of what the "
                 "latest run of the plan tells");
  app.footer(
      "Every state is set and read back before its request; what was not reached is said.\n"
      "Ctrl-C keeps what was measured. Exit status: 0 done (hypotheses adopted), 1 a hypothesis\n"
      "was rejected (or a case of --preset verify failed), 4 one is undecided, 2 the plan or a\n"
      "flag is at fault, 3 the model, target or database is, 130 interrupted.\n\n"
      "Example: rouse measure --preset quick --repeat 10 --seed 42\n"
      "         rouse measure --target http://127.0.0.1:8080 --only warm --only 'prefix hit'\n"
      "         rouse measure --preset idle --require-ttft 500ms --resume    (each evening)");
}

lab::PlanOverrides Overrides(const MeasureFlags& flags) {
  lab::PlanOverrides overrides;
  overrides.target = flags.target;
  overrides.model = flags.model;
  overrides.model_file = flags.model_file;
  overrides.repeat = flags.repeat;
  if (flags.seed) overrides.seed = static_cast<uint64_t>(*flags.seed);
  overrides.only = flags.only;
  overrides.idle = flags.idle;
  overrides.paths = flags.paths;
  overrides.require_ttft = flags.require_ttft;
  return overrides;
}

Result<lab::AdaptedPlan> ChoosePlan(const MeasureFlags& flags) {
  if (!flags.plan_file.empty() && !flags.preset.empty()) {
    return Error(ErrorCode::kUsage, "measure: give a plan file or --preset, not both");
  }
  if (flags.plan_file.empty()) {
    ASSIGN_OR_RETURN(const lab::Preset preset,
                     lab::FindPreset(flags.preset.empty() ? "quick" : flags.preset));
    Result<lab::AdaptedPlan> adapted = lab::PlanFromPreset(preset, Overrides(flags));
    if (adapted.ok() && preset.name == "storage") {
      RETURN_IF_ERROR(lab::AddPathConditions(adapted->plan, adapted->left_out));
    }
    return adapted;
  }
  Result<lab::Plan> plan = lab::LoadPlan(flags.plan_file, Overrides(flags));
  // A plan that cannot be read is the command's fault, whatever the reason: nothing was run.
  if (!plan.ok()) return Error(ErrorCode::kUsage, plan.error().message());
  return lab::AdaptedPlan{.plan = *std::move(plan), .left_out = {}};
}

// `--resume plan.toml` goes on with that plan's run. Afterwards what is to be resumed is the number
// of a run, or "" for the latest.
Status SortOutResume(MeasureFlags& flags) {
  if (!flags.resume || flags.resume->empty() || ParseInt64(*flags.resume)) return {};
  std::error_code none;
  const bool is_plan =
      flags.resume->ends_with(".toml") || std::filesystem::is_regular_file(*flags.resume, none);
  if (!is_plan || !flags.plan_file.empty()) {
    return Error(ErrorCode::kUsage,
                 "measure: --resume takes the number of a run, not \"" + *flags.resume + "\"");
  }
  flags.plan_file = std::exchange(*flags.resume, "");
  return {};
}

bool NamesPlan(const MeasureFlags& flags) {
  return !flags.plan_file.empty() || !flags.preset.empty() || Overrides(flags).Any();
}

// --resume with a plan: its own unfinished run, so that the same command serves every evening.
Result<lab::AdaptedPlan> PlanToGoOnWith(const MeasureFlags& flags, std::optional<int64_t>& run_id) {
  ASSIGN_OR_RETURN(lab::AdaptedPlan plan, ChoosePlan(flags));
  if (!flags.resume->empty()) {
    run_id = ParseInt64(*flags.resume);
    return plan;
  }
  ASSIGN_OR_RETURN(const std::string path, results::StorePath(flags.database));
  Result<results::Store> store = results::Store::Open(path, results::OpenMode::kReadOnly);
  if (!store.ok() && store.error().code() == ErrorCode::kNotFound)
    return plan;  // the first evening
  if (!store.ok()) return store.error();
  ASSIGN_OR_RETURN(run_id, lab::UnfinishedRunOf(*store, plan.plan));
  return plan;
}

// The plan of the run that is to be resumed is the one that it was stored with.
Result<lab::AdaptedPlan> StoredPlan(const MeasureFlags& flags, std::optional<int64_t>& run_id) {
  ASSIGN_OR_RETURN(const std::string path, results::StorePath(flags.database));
  ASSIGN_OR_RETURN(results::Store store, results::Store::Open(path, results::OpenMode::kReadOnly));
  run_id = ParseInt64(*flags.resume);
  if (!run_id) {
    ASSIGN_OR_RETURN(run_id, store.LatestRun());
  }
  ASSIGN_OR_RETURN(const results::Run run, store.LoadRun(*run_id));
  const std::string title = "the plan of run " + std::to_string(*run_id);
  if (run.plan_toml.empty()) {
    return Error(ErrorCode::kUsage,
                 "run " + std::to_string(*run_id) + " has no plan to go on with");
  }
  ASSIGN_OR_RETURN(lab::Plan plan, lab::ParsePlan(run.plan_toml, title));
  return lab::AdaptedPlan{.plan = std::move(plan), .left_out = {}};
}

std::optional<int64_t> ModelBytes(const lab::Plan& plan) {
  const Result<models::ModelFile> model = models::Resolve(plan.target.model);
  return model.ok() ? std::optional<int64_t>(model->bytes) : std::nullopt;
}

// "10%" -> 0.1.
Result<std::optional<double>> ParseSpread(const std::string& text) {
  if (text.empty()) return std::optional<double>();
  char* end = nullptr;
  const double percent = std::strtod(text.c_str(), &end);
  if (std::string_view(end) == "%" && percent > 0 && percent <= 1000) {
    return std::optional<double>(percent / 100);
  }
  return Error(ErrorCode::kUsage,
               "measure: --spread takes a share above 0 such as 10%, not \"" + text + "\"");
}

// An earlier run, where the database has one. Without a database there is none: nothing is made.
std::optional<lab::Pilot> StoredPilot(const MeasureFlags& flags, const lab::Plan& plan) {
  const Result<std::string> path = results::StorePath(flags.database);
  if (!path.ok()) return std::nullopt;
  Result<results::Store> store = results::Store::Open(*path, results::OpenMode::kReadOnly);
  if (!store.ok()) return std::nullopt;
  const Result<std::optional<lab::Pilot>> pilot = lab::FindPilot(*store, plan);
  return pilot.ok() ? *pilot : std::nullopt;
}

int ShowDryRun(const MeasureFlags& flags, const lab::AdaptedPlan& adapted, uint64_t seed) {
  const lab::Plan& plan = adapted.plan;
  const Result<std::optional<double>> spread = ParseSpread(flags.spread);
  if (!spread.ok()) return Fail(spread.error());
  lab::DryRun run{.seed = seed,
                  .schedule = lab::MakeSchedule(plan, seed),
                  .eta_ns = 0,
                  .effects = {},
                  .left_out = adapted.left_out};
  run.eta_ns = lab::EstimateRunNs(plan, run.schedule, ModelBytes(plan));
  run.effects = lab::SmallestEffects(plan, StoredPilot(flags, plan), *spread);
  if (plan.verify) {
    const std::vector<results::VerificationCase> cases = lab::PlanCases(plan, adapted.left_out);
    run.cases_json = report::VerificationJson(cases);
    run.cases_text = report::RenderCasesToCome(cases, TerminalOf(flags.common, STDOUT_FILENO));
  }
  const std::string text =
      flags.common.json ? lab::ScheduleJson(plan, run) : lab::ScheduleText(plan, run);
  std::fputs((flags.common.json ? text : SafeLines(text)).c_str(), stdout);
  return 0;
}

std::map<std::string, std::string> EngineFacts() {
  const engine::EngineInfo info = engine::GetEngineInfo();
  std::string features;
  for (const std::string& feature : info.cpu_features) {
    features += (features.empty() ? "" : ",") + feature;
  }
  std::string backends;
  for (const std::string& backend : info.backends) {
    backends += (backends.empty() ? "" : "; ") + backend;
  }
  return {{"engine", info.name + " " + info.version},
          {"engine_backends", backends},
          {"engine_cpu_features", features}};
}

lab::ExperimentEvents MakeEvents(const lab::Plan& plan, Progress& progress, RunView& view) {
  lab::ExperimentEvents events;
  events.interrupt = &InterruptRequested();
  events.on_start = [&plan, &progress](const results::Run& run) {
    const std::vector<lab::ScheduledAttempt> schedule = lab::MakeSchedule(plan, *run.seed);
    progress.Line("Run " + std::to_string(*run.id) + ": " +
                  FormatCount(std::ssize(plan.conditions), "condition") + ", " +
                  FormatCount(std::ssize(schedule) - 1, "attempt") + ", order drawn from seed " +
                  std::to_string(*run.seed) + ", about " +
                  FormatDuration(lab::EstimateRunNs(plan, schedule, ModelBytes(plan))) +
                  lab::SessionsText(plan, schedule, ModelBytes(plan)) + ". " +
                  lab::CalibrationLine(run.calibration));
    const std::string jitter = lab::JitterWarning(run.calibration, run.hypotheses);
    if (!jitter.empty()) progress.Line(jitter);
  };
  events.on_step = [&view](const lab::Progress& now) { view.OnStep(now); };
  events.on_attempt = [&view](const results::Attempt& attempt, const lab::Progress& now) {
    view.OnAttempt(attempt, now);
  };
  return events;
}

// 0, 1 or 4 as the hypotheses came out, and the cases where there are any.
int VerdictStatus(const lab::ExperimentResult& result) {
  if (!result.run.verification.empty()) return VerificationStatus(result.run);
  if (result.run.hypotheses.empty()) return 0;
  const auto judged = report::JudgeHypotheses(result.run, result.attempts);
  if (!judged.ok()) return Fail(judged.error());
  bool undecided = false;
  for (const report::Comparison& comparison : *judged) {
    if (comparison.verdict == stats::Verdict::kReject) return 1;
    if (comparison.verdict != stats::Verdict::kAdopt) undecided = true;
  }
  return undecided ? 4 : 0;
}

void Print(const MeasureFlags& flags, const lab::ExperimentResult& result,
           const std::string& database) {
  if (flags.common.json) {
    std::fputs((report::ReportJson(result.run, result.attempts, true) + "\n").c_str(), stdout);
    return;
  }
  report::TerminalOptions options = TerminalOf(flags.common, STDOUT_FILENO);
  options.database = database;
  options.database_flag = flags.database;
  std::fputs(report::RenderRun(result.run, result.attempts, options).c_str(), stdout);
}

// The command itself, and --resume: it serves every further evening as well.
std::string CommandToGoOn(int argc, const char* const* argv, bool resumes) {
  std::string text = "rouse measure";
  for (int i = 0; i < argc; ++i) text += " " + ShellQuoted(argv[i]);  // without the program
  return resumes ? text : text + " --resume";
}

// For a run that was cut by the user, by a suspend, or by the end of its session.
std::string HowToGoOn(const MeasureFlags& flags, const lab::ExperimentResult& result,
                      const std::string& database) {
  std::string text = "interrupted";
  if (!result.why_interrupted.empty()) text += " (" + result.why_interrupted + ", again and again)";
  if (!result.paused.empty()) text = "paused: " + result.paused;
  return text + "; what was measured is kept in run " + std::to_string(*result.run.id) + " of " +
         database + ".\nGo on with: " + flags.command;
}

// What the storage under each of the plan's paths gives by itself, as facts of the run.
Status MeasureTiers(const lab::Plan& plan, const std::string& model_file, Progress& progress,
                    std::map<std::string, std::string>& facts) {
  constexpr int64_t kLargest = 256'000'000;
  for (const auto& [name, place] : plan.target.paths) {
    const auto uses = [&](const lab::Condition& each) { return each.path == name; };
    if (std::none_of(plan.conditions.begin(), plan.conditions.end(), uses)) continue;
    progress.Update("measuring the storage of " + name + " (" + place + ")");
    ASSIGN_OR_RETURN(
        const lab::TierReport report,
        lab::ProbePlace(place, model_file, std::min(kLargest, ModelBytes(plan).value_or(kLargest)),
                        [] { return InterruptRequested().load(); }));
    facts.merge(lab::TierFacts(name, report));
  }
  return {};
}

// Somebody at a terminal is asked before an evening's work; scripts and resumed runs are not.
bool MayBegin(const MeasureFlags& flags, const lab::Plan& plan, uint64_t seed) {
  constexpr int64_t kAskAboveNs = 3600 * kNsPerSecond;
  if (flags.yes || flags.resume || flags.common.json || isatty(STDIN_FILENO) == 0 ||
      isatty(STDERR_FILENO) == 0) {
    return true;
  }
  const std::vector<lab::ScheduledAttempt> schedule = lab::MakeSchedule(plan, seed);
  const int64_t eta_ns = lab::EstimateRunNs(plan, schedule, ModelBytes(plan));
  if (eta_ns <= kAskAboveNs) return true;
  std::fprintf(stderr, "This takes about %s%s. Begin? [y/N] ", FormatDuration(eta_ns).c_str(),
               lab::SessionsText(plan, schedule, ModelBytes(plan)).c_str());
  const int answer = std::getchar();
  return answer == 'y' || answer == 'Y';
}

// Null when the plan wants no samples.
std::unique_ptr<lab::Sampler> SamplerOf(const lab::Plan& plan) {
  if (plan.sample_every_ns == 0) return nullptr;
  return lab::MakeSampler(os::ProcRoot::Real(), plan.sample_every_ns);
}

// The plan that the user wrote is not replaced by what was made of it.
Status SparePlan(const MeasureFlags& flags, std::string_view flag, const std::string& written) {
  std::error_code none;  // what is not there is not the plan
  if (flags.plan_file.empty() || !std::filesystem::equivalent(flags.plan_file, written, none)) {
    return {};
  }
  return Error(ErrorCode::kUsage, "measure: " + std::string(flag) + " would write over the plan " +
                                      flags.plan_file + "; name another place");
}

// Before anything is measured: after a night it would be too late to say.
Status CheckPlaces(const MeasureFlags& flags) {
  RETURN_IF_ERROR(SparePlan(flags, "--html", flags.html_file));
  if (!flags.out_folder.empty()) {
    RETURN_IF_ERROR(SparePlan(flags, "--out", flags.out_folder + "/plan.toml"));
  }
  if (!flags.html_file.empty()) {
    RETURN_IF_ERROR(report::CheckPage());
    if (!flags.dry_run) RETURN_IF_ERROR(CheckWholeFile(flags.html_file));
  }
  if (flags.out_folder.empty() || flags.dry_run) return {};
  RETURN_IF_ERROR(MakeRunFolder(flags.out_folder));
  return CheckWholeFile(flags.out_folder + "/report.json");
}

// The page and the folder that were asked for.
Status WriteFiles(const MeasureFlags& flags, const lab::ExperimentResult& result,
                  Progress& progress) {
  if (!flags.html_file.empty()) {
    RETURN_IF_ERROR(WriteWholeFile(
        flags.html_file, report::PageHtml(report::PageTitle(result.run),
                                          report::PageJson(result.run, result.attempts))));
    progress.Line("wrote " + flags.html_file + "; open it in a browser");
  }
  if (!flags.out_folder.empty()) {
    RETURN_IF_ERROR(WriteRunFolder(flags.out_folder, result.run, result.attempts));
    progress.Line("wrote plan.toml, report.json, attempts.csv and trace.json to " +
                  flags.out_folder);
  }
  return {};
}

int Measure(const MeasureFlags& flags, const lab::AdaptedPlan& adapted, uint64_t seed,
            std::optional<int64_t> resume_run) {
  const lab::Plan& plan = adapted.plan;
  // Of runs that were killed with all that cleans up after them: they would disturb this one.
  for (const std::string& each : lab::RemoveLeftovers()) {
    std::fprintf(stderr, "Removed what a killed rouse had left: %s\n", SafeText(each).c_str());
  }
  // Before any thread exists: the keeper that ends our children whatever happens to us.
  if (const Status keeper = os::StartKeeper(); !keeper.ok()) return Fail(keeper.error());
  InstallInterruptHandler();
  const Result<std::string> path = results::StorePath(flags.database);
  if (!path.ok()) return Fail(path.error());
  Result<results::Store> store = results::Store::Open(*path, results::OpenMode::kReadWrite);
  if (!store.ok()) return Fail(store.error());
  Result<std::unique_ptr<lab::Target>> target = lab::MakeTarget(plan.target);
  if (!target.ok()) return Fail(target.error());
  const std::unique_ptr<lab::Sender> sender = lab::MakeSender();
  os::Child inhibitor;
  if (flags.inhibit_sleep) {
    Result<os::Child> held = lab::InhibitSleep();
    if (!held.ok()) return Fail(held.error());
    inhibitor = *std::move(held);
  }
  Progress progress(flags.common);
  progress.Line("Results go to " + *path);
  const std::string beside =
      lab::MeasuredBesideText(*store, lab::ReadMachineClocks(os::ProcRoot::Real()).boot_id);
  if (!beside.empty()) progress.Line("Warning: " + beside);
  std::map<std::string, std::string> facts;
  if (plan.target.kind == lab::TargetKind::kBuiltin) facts = EngineFacts();
  if (!beside.empty()) facts["measured_beside"] = beside;
  if (!resume_run) {
    if (const Status tiers = MeasureTiers(plan, (*target)->model_file(), progress, facts);
        !tiers.ok()) {
      return Fail(tiers.error());
    }
  }
  auto view = std::make_optional<RunView>(flags.common, progress);
  const std::unique_ptr<lab::Sampler> sampler = SamplerOf(plan);
  const Result<lab::ExperimentResult> result =
      lab::RunExperiment(plan, seed, *store,
                         {.target = **target,
                          .sender = *sender,
                          .page_cache = lab::RealPageCache(),
                          .clock = RealClock(),
                          .environment = facts,
                          .calibrate = true,
                          .resume_run = resume_run,
                          .loads = &lab::RealLoadMaker(),
                          .sampler = sampler.get(),
                          .cases = plan.verify ? lab::PlanCases(plan, adapted.left_out)
                                               : std::vector<results::VerificationCase>(),
                          .after_attempts = VerifyAfterAttempts(plan, **target, *store, progress)},
                         MakeEvents(plan, progress, *view));
  view.reset();
  if (!result.ok()) return Fail(result.error());
  Print(flags, *result, *path);
  if (const Status written = WriteFiles(flags, *result, progress); !written.ok()) {
    return Fail(written.error());
  }
  if (!result->failure.empty()) {
    return Fail(Error(ErrorCode::kState, "the target could not be measured: " + result->failure));
  }
  if (result->interrupted || !result->paused.empty()) {
    return Fail(Error(ErrorCode::kInterrupted, HowToGoOn(flags, *result, *path)));
  }
  return VerdictStatus(*result);
}

}  // namespace

int RunMeasure(int argc, const char* const* argv) {
  CLI::App app("Measures the time to first token under states that are set and proved", "measure");
  MeasureFlags flags;
  AddFlags(app, flags);
  if (const std::optional<int> status = ParseArguments(app, argc, argv)) return *status;
  if (flags.print_schema) {
    std::fputs(lab::PlanSchemaJson().c_str(), stdout);
    return 0;
  }
  if (const Status sorted = SortOutResume(flags); !sorted.ok()) return Fail(sorted.error());
  flags.command = CommandToGoOn(argc, argv, flags.resume.has_value());
  std::optional<int64_t> run_id;
  const Result<lab::AdaptedPlan> adapted = !flags.resume      ? ChoosePlan(flags)
                                           : NamesPlan(flags) ? PlanToGoOnWith(flags, run_id)
                                                              : StoredPlan(flags, run_id);
  if (!adapted.ok()) return Fail(adapted.error());
  const lab::Plan* const plan = &adapted->plan;
  if (flags.print_plan) {
    std::fputs(plan->toml.c_str(), stdout);
    return 0;
  }
  if (!flags.spread.empty() && !flags.dry_run) {
    return Fail(Error(ErrorCode::kUsage, "measure: --spread goes with --dry-run"));
  }
  if (const Status places = CheckPlaces(flags); !places.ok()) return Fail(places.error());
  const uint64_t seed = plan->seed ? *plan->seed : lab::DrawSeed();
  if (flags.dry_run) return ShowDryRun(flags, *adapted, seed);
  if (!adapted->left_out.empty() && !flags.common.quiet) {
    std::fputs(SafeLines("On this target:\n" + lab::LeftOutText(adapted->left_out)).c_str(),
               stderr);
  }
  if (!MayBegin(flags, *plan, seed)) {
    return Fail(Error(ErrorCode::kInterrupted, "nothing was begun; --yes begins without asking"));
  }
  return Measure(flags, *adapted, seed, run_id);
}

}  // namespace rouse::cli
