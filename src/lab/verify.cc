#include "lab/verify.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "lab/targets.h"
#include "lab/verify_cases.h"

namespace rouse::lab {
namespace {

using results::CaseKind;
using results::CaseStatus;
using results::VerificationCase;

constexpr int64_t kStopNs = 10 * kNsPerSecond;

// Why this target cannot be brought to the case; "" when it can.
std::string WhyNot(Needs needs, const TargetSpec& target) {
  const bool owns = RowOf(target.kind).owns_process;
  switch (needs) {
    case Needs::kNothing:
      return "";
    case Needs::kOwnProcess:
      return owns ? "" : "the server's process is not ours to start or end";
    case Needs::kModelChoice:
      if (!owns) return "the server's process is not ours to start or end";
      if (target.kind == TargetKind::kBuiltin) return "";
      if (target.command.find("{model}") != std::string::npos) return "";
      return "the command has no {model}: which file it loads is not ours to choose";
    case Needs::kQueueLimit:
      if (target.kind == TargetKind::kBuiltin) return "";
      return "whether and how this server limits its waiting requests is not known to rouse";
  }
  return "";
}

std::string Percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g %%", share * 100);
  return text.data();
}

// What was declared before the first attempt, as the benefit that has to be seen.
VerificationCase BenefitOf(const results::HypothesisRow& row, const Plan& plan) {
  const std::string change = row.expect == "equal"      ? "is the same within " + row.margin
                             : row.expect == "decrease" ? "is lower by at least " + row.margin
                                                        : "is higher by at least " + row.margin;
  return {.name = row.name,
          .kind = CaseKind::kBenefit,
          .does = "the attempts of \"" + row.treatment + "\" and of \"" + row.control +
                  "\", in blocks of random order, every state proved",
          .expects = row.statistic + " " + row.metric + " of \"" + row.treatment + "\" " + change +
                     " against \"" + row.control + "\", with all of its " +
                     Percent(row.confidence) + " interval",
          .nothing_lost = "every attempt is answered",
          .bound_ns = plan.timeout_ns};
}

// A sound server, once: what later answers are held against. "" or why not.
std::string Introduce(CaseContext& context) {
  if (RowOf(context.parts.target.kind()).owns_process) {
    const Served first = StartAndBeServed(context, {}, false);
    if (!first.problem.empty()) return first.problem;
    context.reference = first.text;
    context.load_ns = first.took_ns;
    context.memory_bytes = AddressSpaceOf(context.parts.target).value_or(0);
  }
  const Served warm = EnsureServed(context);
  context.warm_ns = warm.took_ns;
  return warm.problem;
}

bool IsOpen(const VerificationCase& each) {
  return each.status == CaseStatus::kPlanned || each.status == CaseStatus::kInterrupted;
}

// The row that runs this case; null for a benefit.
const CaseRow* RowNamed(const VerificationCase& each) {
  const auto row = std::ranges::find_if(CaseRows(), [&](const CaseRow& candidate) {
    return candidate.kind == each.kind && candidate.name == each.name;
  });
  return row == CaseRows().end() ? nullptr : &*row;
}

void RunCase(const CaseRow& row, CaseContext& context, VerificationCase& result) {
  if (context.parts.on_begin) context.parts.on_begin(result);
  CaseEnd end = row.run(context);
  if (context.Interrupted()) end = {.status = CaseStatus::kInterrupted, .detail = ""};
  result.status = end.status;
  result.detail = std::move(end.detail);
  result.took_ns = end.took_ns;
}

Status RunAll(std::vector<VerificationCase>& cases, CaseContext& context) {
  if (const std::string problem = Introduce(context); !problem.empty() && !context.Interrupted()) {
    return Error(ErrorCode::kState, problem);
  }
  for (VerificationCase& each : cases) {
    const CaseRow* const row = RowNamed(each);
    if (row == nullptr || !IsOpen(each)) continue;
    if (context.Interrupted()) {
      each.status = CaseStatus::kInterrupted;
      continue;
    }
    RunCase(*row, context, each);
    if (context.parts.on_end) RETURN_IF_ERROR(context.parts.on_end(each));
  }
  return {};
}

}  // namespace

std::vector<VerificationCase> PlanCases(const Plan& plan, std::span<const LeftOut> left_out) {
  std::vector<VerificationCase> cases;
  for (const results::HypothesisRow& row : plan.hypotheses) cases.push_back(BenefitOf(row, plan));
  for (const LeftOut& each : left_out) {
    if (!each.hypothesis) continue;
    cases.push_back({.name = each.name, .status = CaseStatus::kLeftOut, .detail = each.reason});
  }
  if (cases.empty()) {
    cases.push_back({.name = "benefit",
                     .status = CaseStatus::kLeftOut,
                     .detail = "the plan has no [[hypothesis]] that says what it should be"});
  }
  for (const CaseRow& row : CaseRows()) {
    const std::string why = WhyNot(row.needs, plan.target);
    cases.push_back({.name = std::string(row.name),
                     .kind = row.kind,
                     .does = std::string(row.does),
                     .expects = std::string(row.expects),
                     .nothing_lost = std::string(row.nothing_lost),
                     .bound_ns = row.bound_ns == 0 ? plan.timeout_ns : row.bound_ns,
                     .status = why.empty() ? CaseStatus::kPlanned : CaseStatus::kLeftOut,
                     .detail = why});
  }
  return cases;
}

Status RunCases(const Plan& plan, std::vector<VerificationCase>& cases, VerifyParts parts) {
  const bool any = std::ranges::any_of(cases, [](const VerificationCase& each) {
    return IsOpen(each) && RowNamed(each) != nullptr;
  });
  if (!any) return {};
  CaseContext context{.plan = plan, .parts = parts};
  const Status ran = RunAll(cases, context);
  const Status sound = parts.target.UseModelFile("");
  const Status stopped = parts.target.Stop(MonoNow() + kStopNs);
  for (const Status& each : {ran, sound, stopped}) {
    if (!each.ok()) return each.error();
  }
  return {};
}

}  // namespace rouse::lab
