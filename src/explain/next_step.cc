#include "explain/next_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "base/terminal_text.h"
#include "base/units.h"
#include "stats/verdict.h"

namespace rouse::explain {
namespace {

// The two ends of a one-layer contrast, by the names of the quick preset where that has them.
struct Isolation {
  std::string_view layer;
  std::string_view base_name;
  std::string_view name;
  std::string_view change;
};
constexpr std::array<Isolation, 7> kIsolations{{
    {"model", "warm", "model unloaded", "state = { model = \"unloaded\" }"},
    {"process", "model unloaded", "process new", "state = { process = \"new\" }"},
    {"page_cache", "warm", "page cache cold", "state = { page_cache = \"cold\" }"},
    {"prefix_cache", "warm", "prefix hit", "state = { prefix_cache = \"hit\" }"},
    {"connection", "warm", "connection kept", "state = { connection = \"reused\" }"},
    {"background", "warm", "busy", "state = { background = \"cpu\" }"},
    {"memory_pressure", "warm", "memory short", "state = { memory_pressure = \"4GiB\" }"},
}};

// The layers that `rouse measure --preset quick` changes one by one, in the order of the chain.
constexpr std::array<std::string_view, 4> kChain = {"model", "process", "page_cache",
                                                    "prefix_cache"};
constexpr int64_t kEnoughForInterval = 6;
constexpr int64_t kMostRepeats = 60;

// A basic string of TOML. What could steer a terminal is escaped, so that the plan can be printed
// and pasted; bytes that are no UTF-8 become U+FFFD, which no file name of the run can have held.
std::string TomlString(std::string_view text) {
  std::string quoted = "\"";
  for (const CodePoint& each : CodePointsOf(text)) {
    char escape[16];
    if (each.value == '"' || each.value == '\\') {
      quoted += '\\';
      quoted += each.bytes;
    } else if (each.valid && !each.harmful) {
      quoted += each.bytes;
    } else {
      std::snprintf(escape, sizeof escape, "\\U%08X", each.valid ? each.value : 0xfffdU);
      quoted += escape;
    }
  }
  return quoted + "\"";
}

// The command of a target that rouse starts: runs store it as it was given, "cmd:" included.
std::string CommandOf(const results::Run& run) {
  return run.target.starts_with("cmd:") ? run.target.substr(4) : run.target;
}

bool IsUrl(const results::Run& run) { return run.target.find("://") != std::string::npos; }

std::string TargetToml(const results::Run& run) {
  if (run.target.empty() || run.target == "builtin") {
    const std::string model = run.model.empty() ? "smollm2-135m" : run.model;
    return "kind = \"builtin\"\nmodel = " + TomlString(model) + "\n";
  }
  const auto file = run.environment.find("model_file");
  std::string text;
  if (IsUrl(run)) {
    text = "kind = \"url\"\nurl = " + TomlString(run.target) + "\n";
  } else {
    text = "kind = \"command\"\ncommand = " + TomlString(CommandOf(run)) + "\n";
  }
  if (!run.model.empty()) text += "model = " + TomlString(run.model) + "\n";
  if (file != run.environment.end()) text += "model_file = " + TomlString(file->second) + "\n";
  return text;
}

bool Builtin(const results::Run& run) { return run.target.empty() || run.target == "builtin"; }

// What a foreign server cannot be brought into by itself: a command unloads by ending its process.
const Isolation* IsolationOf(const results::Run& run, const std::string& layer) {
  std::string wanted = layer;
  if (!Builtin(run) && wanted == "model") wanted = "process";
  const auto found = std::find_if(kIsolations.begin(), kIsolations.end(),
                                  [&](const Isolation& row) { return row.layer == wanted; });
  return found == kIsolations.end() ? nullptr : &*found;
}

std::string Plan(const results::Run& run, const Isolation& isolation) {
  std::string text = "rouse measure /dev/stdin <<'PLAN'\n[experiment]\nname = \"";
  text += std::string(isolation.layer) + "\"\nrepeat = 10\n[target]\n" + TargetToml(run);
  text += "[[condition]]\nname = \"" + std::string(isolation.base_name) + "\"\n";
  text += "[[condition]]\nname = \"" + std::string(isolation.name) + "\"\nbase = \"" +
          std::string(isolation.base_name) + "\"\n" + std::string(isolation.change) + "\nPLAN";
  return text;
}

std::string TargetFlag(const results::Run& run) {
  if (Builtin(run)) return run.model.empty() ? "" : " --model " + ShellQuoted(run.model);
  std::string flag = " --target ";
  flag += IsUrl(run) ? ShellQuoted(run.target) : ShellQuoted("cmd:" + CommandOf(run));
  if (!run.model.empty()) flag += " --model " + ShellQuoted(run.model);
  const auto file = run.environment.find("model_file");
  if (file != run.environment.end()) flag += " --model-file " + ShellQuoted(file->second);
  return flag;
}

}  // namespace

NextStep IsolateLayer(const results::Run& run, const std::string& layer, double idle_ns,
                      const std::string& why) {
  if (layer == "idle") {
    const int64_t idle_s = std::max<int64_t>(1, std::llround(idle_ns / 1e9));
    return {why, "rouse measure" + TargetFlag(run) + " --idle 0s," + std::to_string(idle_s) + "s"};
  }
  const Isolation* const isolation = IsolationOf(run, layer);
  // A server behind a URL: its process and model are not ours to take away.
  const bool out_of_reach = IsUrl(run) && isolation != nullptr &&
                            (isolation->layer == "model" || isolation->layer == "process");
  if (isolation == nullptr || out_of_reach) {
    return {why, "rouse measure" + TargetFlag(run) + " --repeat 10 --only warm"};
  }
  const std::string wanted(isolation->layer);
  const bool in_quick = std::find(kChain.begin(), kChain.end(), wanted) != kChain.end();
  // The quick preset's own chain ends with a new process, so that is the page cache's base there;
  // behind a URL that condition is left out, and a plan takes its place.
  if (in_quick && !(IsUrl(run) && wanted == "page_cache")) {
    std::string base(isolation->base_name);
    if (wanted == "page_cache") base = "process new";
    if (wanted == "process" && !Builtin(run)) base = "warm";
    return {why, "rouse measure --preset quick" + TargetFlag(run) + " --repeat 10 --only " +
                     ShellQuoted(base) + " --only " + ShellQuoted(std::string(isolation->name))};
  }
  return {why, Plan(run, *isolation)};
}

NextStep NextAfterAttempt(const results::Run& run, const AttemptExplanation& explanation,
                          std::span<const Contrast> contrasts) {
  const std::string again = "rouse measure" + TargetFlag(run) + " --repeat 10";
  if (explanation.reference.profile.n == 0) {
    return {"One attempt has nothing to be compared with; measure what is usual here:", again};
  }
  if (!explanation.attribution || explanation.attribution->claims.empty()) {
    return {"No evidence points to a layer; see whether it comes again:", again};
  }
  const Claim& first = explanation.attribution->claims.front();
  const CauseRow& row = RowOf(first.cause);
  const std::string layer(row.layer);
  const bool proved = std::any_of(contrasts.begin(), contrasts.end(), [&](const Contrast& each) {
    return each.layer == layer && each.grade == Grade::kProved;
  });
  if (proved) {
    return {"That layer's cost is proved in this run; what idling loses is the next question:",
            "rouse measure" + TargetFlag(run) + " --idle 0s,1m,10m"};
  }
  if (layer.empty() || layer == "prompt_tokens") {
    return {"No plan can set that from here; see whether it comes again:", again};
  }
  return IsolateLayer(run, layer, 0,
                      "The contrast that changes only this layer (" + layer + ") would settle it:");
}

NextStep NextAfterRun(const results::Run& run, std::span<const Contrast> contrasts) {
  for (const Contrast& contrast : contrasts) {
    const int64_t n = std::min(contrast.n_condition, contrast.n_base);
    const bool open = contrast.grade == Grade::kUndecided ||
                      (contrast.grade == Grade::kNoCost && contrast.cost.value > 0 &&
                       contrast.cost.ci->low <= 0 && contrast.cost.ci->high > 0);
    if (!open) continue;
    int64_t repeats = kEnoughForInterval;
    if (contrast.cost.ci && contrast.cost.value) {
      const std::optional<int64_t> needed =
          stats::NeededN(n, *contrast.cost.value, contrast.cost.ci->low, 0);
      // An effect that needs hundreds of attempts to be seen is too small to be worth it here.
      if (!needed || *needed > kMostRepeats) continue;
      repeats = std::max(*needed, n + 1);
    }
    if (run.kind == "import") continue;
    return {"\"" + contrast.condition + "\" against \"" + contrast.base +
                "\" is not decided; more attempts would:",
            "rouse measure" + TargetFlag(run) + " --repeat " + std::to_string(repeats) +
                " --only " + ShellQuoted(contrast.base) + " --only " +
                ShellQuoted(contrast.condition)};
  }
  for (const std::string_view layer : kChain) {
    const bool changed = std::any_of(contrasts.begin(), contrasts.end(),
                                     [&](const Contrast& each) { return each.layer == layer; });
    if (changed) continue;
    if (!Builtin(run) && layer == "model") continue;
    if (IsUrl(run) && layer == "process") continue;
    return IsolateLayer(
        run, std::string(layer), 0,
        "No contrast of this run changes " + std::string(layer) + "; this one does:");
  }
  return {"Which of these layers does idling lose, and after how long?",
          "rouse measure" + TargetFlag(run) + " --idle 0s,1m,10m"};
}

}  // namespace rouse::explain
