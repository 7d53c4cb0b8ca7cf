#include "report/verify_text.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/units.h"

namespace rouse::report {
namespace {

using Json = nlohmann::ordered_json;
using results::CaseKind;
using results::CaseStatus;
using results::VerificationCase;
using results::VerificationVerdict;

constexpr int kNameColumns = 24;
constexpr int kStatusColumns = 13;
constexpr int kIndent = 4;

constexpr std::array<std::pair<CaseKind, std::string_view>, 3> kGroups{{
    {CaseKind::kBenefit, "Benefit: what it promises"},
    {CaseKind::kRefused, "Refusals: a clear error, in bounded time"},
    {CaseKind::kRecovery, "Recoveries: the next request is served"},
}};

std::string_view StatusWords(CaseStatus status) {
  return status == CaseStatus::kLeftOut ? "left out" : results::CaseStatusName(status);
}

std::string Colored(CaseStatus status, std::string text, const TerminalOptions& options) {
  if (!options.color) return text;
  if (status == CaseStatus::kPassed) return "\x1b[32m" + text + "\x1b[0m";
  if (status == CaseStatus::kFailed) return "\x1b[31m" + text + "\x1b[0m";
  return text;
}

// A heading for each kind, then `row` of each of its cases.
template <typename Row>
std::string Groups(std::span<const VerificationCase> cases, Row row) {
  std::string text;
  for (const auto& [kind, heading] : kGroups) {
    text += "\n" + std::string(heading) + "\n";
    for (const VerificationCase& each : cases) {
      if (each.kind == kind) text += row(each);
    }
  }
  return text;
}

int Columns(const TerminalOptions& options) { return std::max(60, options.columns); }

std::string Below(const std::string& text, const TerminalOptions& options) {
  if (text.empty()) return "";
  return WrapText(text, {.columns = Columns(options), .indent = kIndent, .hanging = kIndent});
}

// "10 passed, 1 left out", in the order of the enum.
std::string Counts(std::span<const VerificationCase> cases) {
  std::string text;
  for (const CaseStatus status :
       {CaseStatus::kPassed, CaseStatus::kFailed, CaseStatus::kUndecided, CaseStatus::kLeftOut,
        CaseStatus::kInterrupted, CaseStatus::kPlanned}) {
    const auto count = std::ranges::count(cases, status, &VerificationCase::status);
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " ";
    text += status == CaseStatus::kPlanned ? "to be run" : StatusWords(status);
  }
  return text;
}

std::string VerdictWords(VerificationVerdict verdict) {
  switch (verdict) {
    case VerificationVerdict::kPassed:
      return "passed: the benefit and its boundaries were seen";
    case VerificationVerdict::kFailed:
      return "failed";
    case VerificationVerdict::kNotShown:
      return "not shown: nothing failed, but not all of benefit, refusal and recovery were seen";
    case VerificationVerdict::kInterrupted:
      return "not complete";
  }
  return "";
}

Json CaseJson(const VerificationCase& each) {
  return {{"name", each.name},
          {"kind", results::CaseKindName(each.kind)},
          {"does", each.does},
          {"expects", each.expects},
          {"nothing_lost", each.nothing_lost},
          {"bound_ns", each.bound_ns > 0 ? Json(each.bound_ns) : Json()},
          {"status", results::CaseStatusName(each.status)},
          {"took_ns", each.took_ns ? Json(*each.took_ns) : Json()},
          {"detail", each.detail}};
}

}  // namespace

std::string RenderVerification(std::span<const VerificationCase> cases,
                               const TerminalOptions& options) {
  if (cases.empty()) return "";
  const std::string text = Groups(cases, [&](const VerificationCase& each) {
    std::string line = "  " + PadRight(FitText(each.name, kNameColumns), kNameColumns);
    const std::string status(StatusWords(each.status));
    line += Colored(each.status, PadRight(status, kStatusColumns), options);
    if (each.took_ns) {
      line += FormatDuration(*each.took_ns) + " (bound " + FormatDuration(each.bound_ns) + ")";
    }
    while (line.ends_with(' ')) line.pop_back();
    return line + "\n" + Below(each.detail, options);
  });
  return text + "\n" +
         WrapText(
             "Verification " + VerdictWords(results::Judge(cases)) + " (" + Counts(cases) + ").",
             {.columns = Columns(options), .indent = 0, .hanging = 2});
}

std::string RenderCasesToCome(std::span<const VerificationCase> cases,
                              const TerminalOptions& options) {
  return Groups(cases, [&](const VerificationCase& each) {
    const bool planned = each.status == CaseStatus::kPlanned;
    std::string line = "  " + PadRight(FitText(each.name, kNameColumns), kNameColumns);
    if (!planned) return line + "left out\n" + Below(each.detail, options);
    return line + "bound " + FormatDuration(each.bound_ns) + "\n" +
           Below("does: " + each.does, options) + Below("passes when: " + each.expects, options) +
           Below("nothing lost: " + each.nothing_lost, options);
  });
}

std::string VerificationJson(std::span<const VerificationCase> cases) {
  if (cases.empty()) return "null";
  Json out = {{"verdict", results::VerificationVerdictName(results::Judge(cases))},
              {"cases", Json::array()}};
  for (const VerificationCase& each : cases) out["cases"].push_back(CaseJson(each));
  // A server's last words may be anything.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rouse::report
