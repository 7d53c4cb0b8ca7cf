#include "report/differences.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/terminal_text.h"
#include "base/units.h"
#include "report/plan_value.h"
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
    if (t != c) Add(what, t, c);
  }
  // Of values that differ, as they are shown; "" is not recorded.
  void Add(const std::string& what, const std::string& t, const std::string& c) {
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

// What a difference calls it, and where the plan has it.
struct PlanKey {
  const char* name;
  const char* path;
};
constexpr std::array<PlanKey, 2> kPlanKeys = {
    {{"prompt", "experiment.prompt"}, {"context", "target.context"}}};

// One of two texts that are alike up to `same`: quoted, on one line, from shortly before there.
std::string ShownFrom(const std::string& text, size_t same) {
  constexpr size_t kBefore = 20;
  constexpr int kColumns = 120;
  const std::string shown = same <= 2 * kBefore ? text : "..." + text.substr(same - kBefore);
  return "\"" + FitText(shown, kColumns) + "\"";
}

void ComparePlans(const Run& t, const Run& c, Finder& finder) {
  for (const auto& [name, path] : kPlanKeys) {
    const auto of_t = PlanValue(t.plan_toml, path);
    const auto of_c = PlanValue(c.plan_toml, path);
    if (of_t == of_c) continue;
    const size_t same =
        of_t && of_c ? static_cast<size_t>(std::ranges::mismatch(*of_t, *of_c).in1 - of_t->begin())
                     : 0;
    finder.Add(name, of_t ? ShownFrom(*of_t, same) : "", of_c ? ShownFrom(*of_c, same) : "");
  }
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
  ComparePlans(t, c, finder);
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
