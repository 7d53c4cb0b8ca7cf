#include "report/differences.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/strings.h"
#include "base/units.h"
#include "stats/summary.h"

namespace rouse::report {
namespace {

using results::Attempt;
using results::Run;

// Facts of other work: with another model, prompt, context or API the two sides were asked for
// something else, and no shift between them says anything about a layer or a setting.
constexpr std::array<std::string_view, 6> kDecisive = {"model",   "model_sha256", "prompt",
                                                       "context", "api",          "prompt_tokens"};
// They differ after every restart, copy or download, and mean nothing by themselves.
constexpr std::array<std::string_view, 4> kPassing = {"boot_id", "model_mtime_ns", "model_file",
                                                      "calibration_failed"};
// A template or a salt changes a prompt by a few tokens.
constexpr double kTokenShare = 0.1;
constexpr double kTokenFewest = 8;
constexpr int64_t kDayNs = 86'400'000'000'000;

template <size_t kCount>
bool IsIn(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class Finder {
 public:
  void Compare(const std::string& what, const std::string& t, const std::string& c) {
    if (t == c) return;
    const std::string none = "(not recorded)";
    const bool both = !t.empty() && !c.empty();
    found_.push_back(
        {what, both && IsIn(kDecisive, what),
         what + " differs: " + (t.empty() ? none : t) + " against " + (c.empty() ? none : c)});
  }
  std::vector<Difference> Take() {
    std::stable_sort(found_.begin(), found_.end(), [](const Difference& a, const Difference& b) {
      return a.decisive > b.decisive;
    });
    return std::move(found_);
  }

 private:
  std::vector<Difference> found_;
};

// The value of the first line `key = ...` of a plan, as written; "" without one. The plan was
// checked when it ran; this reads no more of TOML than that.
std::string PlanValue(const std::string& toml, std::string_view key) {
  for (const std::string_view line : SplitAt(toml, '\n')) {
    const std::string_view trimmed = TrimBlanks(line);
    if (!trimmed.starts_with(key)) continue;
    std::string_view rest = TrimBlanks(trimmed.substr(key.size()));
    if (!rest.starts_with('=')) continue;
    rest = TrimBlanks(rest.substr(1));
    // A comment ends a value that is no string.
    if (!rest.starts_with('"') && !rest.starts_with('\'')) {
      rest = TrimBlanks(rest.substr(0, rest.find('#')));
    } else if (const size_t end = rest.find(rest[0], 1); end != std::string_view::npos) {
      rest = rest.substr(0, end + 1);
    }
    return std::string(rest);
  }
  return "";
}

std::optional<double> PromptTokens(std::span<const Attempt* const> attempts) {
  std::vector<double> values;
  for (const Attempt* const attempt : attempts) {
    if (attempt->tokens.prompt) values.push_back(static_cast<double>(*attempt->tokens.prompt));
  }
  if (values.empty()) return std::nullopt;
  return stats::Median(std::move(values));
}

// "openai-chat", or several with a comma.
std::string Apis(std::span<const Attempt* const> attempts) {
  std::vector<std::string> names;
  for (const Attempt* const attempt : attempts) {
    if (!attempt->api.empty()) names.push_back(attempt->api);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void CompareTokens(const DifferenceSide& treatment, const DifferenceSide& control, Finder& finder) {
  const std::optional<double> t = PromptTokens(treatment.attempts);
  const std::optional<double> c = PromptTokens(control.attempts);
  if (!t || !c) return;
  const double apart = std::fabs(*t - *c);
  if (apart < kTokenFewest || apart < kTokenShare * std::max(*t, *c)) return;
  finder.Compare("prompt_tokens", std::to_string(std::llround(*t)),
                 std::to_string(std::llround(*c)));
}

void CompareEnvironments(const Run& t, const Run& c, Finder& finder) {
  std::map<std::string, std::string> names = t.environment;
  names.insert(c.environment.begin(), c.environment.end());
  const auto value = [](const Run& run, const std::string& name) {
    const auto found = run.environment.find(name);
    return found == run.environment.end() ? std::string() : found->second;
  };
  for (const auto& [name, unused] : names) {
    if (!IsIn(kPassing, name)) finder.Compare(name, value(t, name), value(c, name));
  }
}

}  // namespace

std::vector<std::string_view> DecisiveNames() { return {kDecisive.begin(), kDecisive.end()}; }

std::vector<Difference> FindDifferences(const DifferenceSide& treatment,
                                        const DifferenceSide& control) {
  const Run& t = *treatment.run;
  const Run& c = *control.run;
  Finder finder;
  finder.Compare("model", t.model, c.model);
  for (const char* const key : {"prompt", "context"}) {
    finder.Compare(key, PlanValue(t.plan_toml, key), PlanValue(c.plan_toml, key));
  }
  finder.Compare("api", Apis(treatment.attempts), Apis(control.attempts));
  CompareTokens(treatment, control, finder);
  finder.Compare("rouse_version", t.rouse_version, c.rouse_version);
  finder.Compare("target", t.target, c.target);
  finder.Compare("plan", t.plan_hash, c.plan_hash);
  CompareEnvironments(t, c, finder);
  std::vector<Difference> found = finder.Take();
  const int64_t apart = std::abs(t.started_wall_ns - c.started_wall_ns);
  if (apart >= kDayNs) {
    found.push_back({"day", false, "the two runs began " + FormatDuration(apart) + " apart"});
  }
  return found;
}

}  // namespace rouse::report
