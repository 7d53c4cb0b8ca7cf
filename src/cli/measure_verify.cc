#include "cli/measure_verify.h"

#include <unistd.h>

#include <algorithm>

#include "lab/verify.h"
#include "report/benefit.h"
#include "results/verification.h"

namespace rouse::cli {
namespace {

using results::CaseStatus;
using results::VerificationCase;

bool IsOpen(const VerificationCase& each) {
  return each.status == CaseStatus::kPlanned || each.status == CaseStatus::kInterrupted;
}

std::string CaseLine(const VerificationCase& each) {
  return "case \"" + each.name + "\": " + std::string(results::CaseStatusName(each.status)) +
         (each.status == CaseStatus::kPassed ? "" : ": " + report::FitText(each.detail, 200));
}

Status Verify(const lab::Plan& plan, lab::Target& target, results::Store& store, Progress& progress,
              lab::ExperimentResult& result, const std::function<void(const std::string&)>& step) {
  results::Run& run = result.run;
  RETURN_IF_ERROR(report::JudgeBenefits(run, result.attempts));
  RETURN_IF_ERROR(store.UpdateRun(run));
  lab::VerifyParts parts{.target = target, .interrupt = &InterruptRequested()};
  parts.on_begin = [&](const VerificationCase& each) {
    step("case \"" + each.name + "\": " + each.does);
  };
  Status stored;
  parts.on_end = [&](const VerificationCase& each) {
    stored = store.UpdateRun(run);
    // What is told is kept. On a terminal the view of the run tells what is done (cli/run_view.h).
    if (stored.ok() && isatty(STDERR_FILENO) != 1) progress.Line(CaseLine(each));
    return stored;
  };
  const Status ran = lab::RunCases(plan, run.verification, parts);
  if (!stored.ok()) return stored;
  if (ran.ok()) {
    result.interrupted = std::ranges::any_of(run.verification, IsOpen);
  } else {
    result.failure = ran.error().message();
  }
  return store.UpdateRun(run);
}

}  // namespace

lab::AfterAttempts VerifyAfterAttempts(const lab::Plan& plan, lab::Target& target,
                                       results::Store& store, Progress& progress) {
  if (!plan.verify) return {};
  return [&](lab::ExperimentResult& result, const std::function<void(const std::string&)>& step) {
    return Verify(plan, target, store, progress, result, step);
  };
}

int VerificationStatus(const results::Run& run) {
  switch (results::Judge(run.verification)) {
    case results::VerificationVerdict::kPassed:
      return 0;
    case results::VerificationVerdict::kFailed:
      return 1;
    case results::VerificationVerdict::kNotShown:
    case results::VerificationVerdict::kInterrupted:
      break;
  }
  return 4;
}

}  // namespace rouse::cli
