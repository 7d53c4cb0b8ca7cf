// The plan as a value: its canonical form and hash, what the command line changes in it, presets.
#include "lab/plan.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "base/check.h"
#include "base/strings.h"
#include "base/units.h"
#include "lab/factors.h"
#include "lab/plan_internal.h"
#include "lab/targets.h"
#include "lab/tier_place.h"
#include "wire/url.h"

namespace rouse::lab {
namespace {

std::string Duration(int64_t ns) { return TomlString(WriteDuration(ns)); }

std::string Number(double value) {
  std::array<char, 32> text{};
  const auto [end, status] = std::to_chars(text.data(), text.data() + text.size(), value);
  CHECK(status == std::errc());
  return {text.data(), end};
}

std::string TomlTable(const std::map<std::string, std::string>& table) {
  std::string out;
  for (const auto& [name, value] : table) {
    out += (out.empty() ? "" : ", ") + TomlString(name) + " = " + TomlString(value);
  }
  return "{ " + out + " }";
}

void AppendTarget(const TargetSpec& target, std::string& out) {
  out += "\n[target]\nkind = " + TomlString(TargetKindName(target.kind)) +
         "\nmodel = " + TomlString(target.model) + "\n";
  if (target.kind == TargetKind::kBuiltin) {
    out += "context = " + std::to_string(target.context) + "\n";
    if (target.api != TargetSpec{}.api) out += "api = " + TomlString(target.api) + "\n";
  } else {
    out += "model_file = " + TomlString(target.model_file) + "\napi = " + TomlString(target.api) +
           "\n";
    if (!target.headers_env.empty()) {
      out += "headers_env = " + TomlTable(target.headers_env) + "\n";
    }
  }
  if (target.kind == TargetKind::kCommand) out += "command = " + TomlString(target.command) + "\n";
  if (!RowOf(target.kind).owns_process) out += "url = " + TomlString(target.url) + "\n";
  if (!target.compile_cache_env.empty()) {
    out += "compile_cache_env = " + TomlString(target.compile_cache_env) + "\n";
  }
  if (!target.paths.empty()) out += "paths = " + TomlTable(target.paths) + "\n";
  if (!target.args.empty()) out += "args = " + TomlArray(target.args) + "\n";
}

// A root names every layer; another condition only what differs from its base.
void AppendCondition(const Plan& plan, const Condition& condition, std::string& out) {
  out += "\n[[condition]]\nname = " + TomlString(condition.name) + "\n";
  const auto base =
      std::find_if(plan.conditions.begin(), plan.conditions.end(),
                   [&](const Condition& each) { return each.name == condition.base; });
  const bool root = condition.base.empty() || base == plan.conditions.end();
  if (!root) out += "base = " + TomlString(condition.base) + "\n";
  std::string state;
  for (const auto& [layer, value] : condition.state) {
    if (!root && base->Value(layer) == value) continue;
    state +=
        (state.empty() ? "" : ", ") + std::string(LayerName(layer)) + " = " + TomlString(value);
  }
  if (!state.empty()) out += "state = { " + state + " }\n";
  const bool idle_differs = root || base->idle_ns != condition.idle_ns;
  if (idle_differs && condition.idle_ns) {
    out += "idle = " + Duration(*condition.idle_ns) + "\n";
  }
  if (condition.prompt_tokens && (root || base->prompt_tokens != condition.prompt_tokens)) {
    out += "prompt_tokens = " + std::to_string(*condition.prompt_tokens) + "\n";
  }
  if (root ? condition.concurrency != 1 : condition.concurrency != base->concurrency) {
    out += "concurrency = " + std::to_string(condition.concurrency) + "\n";
  }
  if (root ? !condition.path.empty() : condition.path != base->path) {
    out += "path = " + TomlString(condition.path) + "\n";
  }
  if (condition.repeat) out += "repeat = " + std::to_string(*condition.repeat) + "\n";
  const bool arguments_differ =
      root ? !condition.target_args.empty() : condition.target_args != base->target_args;
  if (arguments_differ) out += "target_args = " + TomlArray(condition.target_args) + "\n";
  if (condition.compound) out += "compound = true\n";
}

void AppendHypothesis(const results::HypothesisRow& row, std::string& out) {
  out += "\n[[hypothesis]]\nname = " + TomlString(row.name) +
         "\nmetric = " + TomlString(row.metric) + "\nstatistic = " + TomlString(row.statistic) +
         "\ntreatment = " + TomlString(row.treatment) + "\ncontrol = " + TomlString(row.control) +
         "\nexpect = " + TomlString(row.expect) + "\nmargin = " + TomlString(row.margin) +
         "\nconfidence = " + Number(row.confidence) + "\nguard = " + TomlArray(row.guards) + "\n";
}

// "ollama:http://..." -> the kind; empty for a bare URL and for what is no KIND:URL.
std::optional<TargetKind> KindOfPrefix(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || text.find("://", colon + 1) == std::string::npos) return {};
  const std::optional<TargetKind> kind = TargetKindFromName(text.substr(0, colon));
  return kind && !RowOf(*kind).owns_process ? kind : std::nullopt;
}

Status KeepOnly(const std::vector<std::string>& only, Plan& plan) {
  std::vector<std::string_view> names;
  for (const Condition& condition : plan.conditions) names.push_back(condition.name);
  for (const std::string& name : only) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::string message = "--only: the plan has no condition " + TomlString(name);
    const std::string nearest = NearestName(name, names);
    if (!nearest.empty()) message += " (did you mean " + TomlString(nearest) + "?)";
    std::string all;
    for (const std::string_view each : names) all += (all.empty() ? "" : ", ") + std::string(each);
    return Error(ErrorCode::kUsage, message + "; it has " + all);
  }
  const auto kept = [&](const std::string& name) {
    return std::find(only.begin(), only.end(), name) != only.end();
  };
  std::erase_if(plan.conditions, [&](const Condition& each) { return !kept(each.name); });
  // A condition whose base is left out becomes a root: its whole state is known already.
  for (Condition& condition : plan.conditions) {
    if (kept(condition.base)) continue;
    condition.base.clear();
    condition.changed.clear();
    condition.compound = false;
  }
  std::erase_if(plan.hypotheses, [&](const results::HypothesisRow& row) {
    return !kept(row.treatment) || !kept(row.control);
  });
  return {};
}

std::string IdleName(int64_t ns) { return "idle " + FormatWrittenDuration(ns); }

// Replaces the conditions that change only the idle time by one per duration, on the base that they
// had (or on the first condition). A duration equal to the base's own is the base itself.
Status ReplaceIdle(const std::string& list, Plan& plan) {
  std::vector<int64_t> idles;
  for (const std::string_view part : SplitAt(list, ',')) {
    const Result<int64_t> ns = ParseDuration(TrimBlanks(part));
    if (!ns.ok()) return ns.error().WithContext("--idle");
    if (std::find(idles.begin(), idles.end(), *ns) != idles.end()) {
      return Error(ErrorCode::kUsage,
                   "--idle: " + FormatDuration(*ns) + " is given twice; repeat it with --repeat");
    }
    idles.push_back(*ns);
  }
  std::string base_name = plan.conditions.front().name;
  for (const Condition& condition : plan.conditions) {
    if (condition.changed == "idle") {
      base_name = condition.base;
      break;
    }
  }
  std::vector<std::string> gone;
  for (const Condition& condition : plan.conditions) {
    if (condition.changed == "idle") gone.push_back(condition.name);
  }
  const auto is_gone = [&](const std::string& name) {
    return std::find(gone.begin(), gone.end(), name) != gone.end();
  };
  for (const Condition& condition : plan.conditions) {
    if (is_gone(condition.base) && !is_gone(condition.name)) {
      return Error(ErrorCode::kUsage, "--idle: condition " + TomlString(condition.name) +
                                          " stands on the idle condition " +
                                          TomlString(condition.base) + ", which would be replaced");
    }
  }
  std::erase_if(plan.conditions, [&](const Condition& each) { return is_gone(each.name); });
  std::erase_if(plan.hypotheses, [&](const results::HypothesisRow& row) {
    return is_gone(row.treatment) || is_gone(row.control);
  });
  for (const int64_t ns : idles) {
    const auto base = std::find_if(plan.conditions.begin(), plan.conditions.end(),
                                   [&](const Condition& each) { return each.name == base_name; });
    CHECK(base != plan.conditions.end());
    if (ns == base->idle_ns.value_or(0)) continue;
    RawCondition raw;
    raw.name = IdleName(ns);
    raw.base = base_name;
    raw.idle_ns = ns;
    RETURN_IF_ERROR(AddCondition(raw, "", plan));
  }
  return {};
}

// "NAME=DIR" as --path takes it.
Status AddPaths(const std::vector<std::string>& paths, TargetSpec& target) {
  for (const std::string& text : paths) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const std::string directory = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (!RowOf(target.kind).owns_process) {
      return Error(ErrorCode::kUsage,
                   "--path: a server that rouse does not start cannot be told to load from another "
                   "directory");
    }
    if (const std::string why = WhyNotAPath(name, directory); !why.empty()) {
      return Error(ErrorCode::kUsage, "--path " + TomlString(text) + ": " + why);
    }
    target.paths[name] = directory;
  }
  return {};
}

}  // namespace

std::string TomlString(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (code < 0x20 || code == 0x7f) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      out += "\\u00";
      out += kDigits[code >> 4U];
      out += kDigits[code & 15U];
    } else {
      out += letter;
    }
  }
  return out + "\"";
}

std::string TomlArray(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) out += (out.size() > 1 ? ", " : "") + TomlString(item);
  return out + "]";
}

Status OverrideTarget(const PlanOverrides& overrides, TargetSpec& target) {
  if (overrides.target) {
    const std::string& text = *overrides.target;
    const std::string model = target.model;
    const int64_t context = target.context;
    const std::map<std::string, std::string> paths = target.paths;
    target = TargetSpec{};
    target.model = model;
    if (text == "builtin" || text.starts_with("cmd:")) target.paths = paths;
    if (text == "builtin") {
      target.kind = TargetKind::kBuiltin;
      target.context = context;
    } else if (text.starts_with("cmd:")) {
      target.kind = TargetKind::kCommand;
      target.command = text.substr(4);
      if (TrimBlanks(target.command).empty()) {
        return Error(ErrorCode::kUsage, "--target cmd: needs a command after the colon");
      }
    } else if (const std::optional<TargetKind> kind = KindOfPrefix(text)) {
      target.kind = *kind;
      target.url = text.substr(text.find(':') + 1);
    } else if (text.find("://") != std::string::npos) {
      target.kind = TargetKind::kUrl;
      target.url = text;
    } else {
      return Error(ErrorCode::kUsage, "--target " + TomlString(text) +
                                          " is neither builtin, a URL such as "
                                          "http://127.0.0.1:8080, KIND:URL such as "
                                          "ollama:http://127.0.0.1:11434, nor cmd:COMMAND");
    }
    if (!target.url.empty()) {
      const Result<wire::Url> url = wire::ParseUrl(target.url);
      if (!url.ok()) {
        return Error(ErrorCode::kUsage,
                     "--target " + TomlString(text) + ": " + url.error().message());
      }
    }
  }
  if (overrides.model) target.model = *overrides.model;
  if (overrides.model_file) {
    if (target.kind == TargetKind::kBuiltin) {
      return Error(ErrorCode::kUsage,
                   "--model-file has no meaning for the built-in server; give --model FILE");
    }
    target.model_file = *overrides.model_file;
  }
  return AddPaths(overrides.paths, target);
}

std::string WhyNotAPath(const std::string& name, const std::string& directory) {
  const bool word = !name.empty() && name.size() <= 32 &&
                    std::all_of(name.begin(), name.end(), [](unsigned char letter) {
                      return std::isalnum(letter) != 0 || letter == '-' || letter == '_';
                    });
  if (!word) {
    return "a path is written NAME=DIR, with a name of letters, digits, - and _, such as "
           "nvme=/mnt/nvme";
  }
  if (directory.starts_with(kSimulatedPrefix)) {
    const Result<TierPlace> place = ParseTierPlace(directory);
    return place.ok() ? "" : "path " + TomlString(name) + " " + place.error().message();
  }
  if (!directory.starts_with('/')) {
    return "the directory of path " + TomlString(name) + " must be absolute, not " +
           TomlString(directory);
  }
  return "";
}

std::string CanonicalPlan(const Plan& plan) {
  std::string out = "[experiment]\nname = " + TomlString(plan.name) +
                    "\nrepeat = " + std::to_string(plan.repeat) + "\n";
  if (plan.seed) out += "seed = " + std::to_string(*plan.seed) + "\n";
  out += "prompt = " + TomlString(plan.prompt) +
         "\nmax_tokens = " + std::to_string(plan.max_tokens) +
         "\ntimeout = " + Duration(plan.timeout_ns) + "\n";
  if (plan.sentinel) out += "sentinel = true\n";
  if (plan.salt_per_block) out += "salt = \"block\"\n";
  if (plan.keep_answer) out += "keep_answer = true\n";
  // Not written when it is the usual one, so that plans of earlier versions keep their hash.
  if (plan.sample_every_ns != Plan().sample_every_ns) {
    out += "sample_every = " + Duration(plan.sample_every_ns) + "\n";
  }
  if (plan.verify) out += "verify = true\n";
  if (plan.require_ttft_ns) {
    out += "require_ttft = " + Duration(*plan.require_ttft_ns) + "\n";
  }
  if (plan.session_ns) out += "session = " + Duration(*plan.session_ns) + "\n";
  AppendTarget(plan.target, out);
  for (const Condition& condition : plan.conditions) AppendCondition(plan, condition, out);
  for (const results::HypothesisRow& row : plan.hypotheses) AppendHypothesis(row, out);
  return out;
}

std::string TargetText(const TargetSpec& target) {
  if (target.kind == TargetKind::kBuiltin) return "builtin";
  if (target.kind == TargetKind::kCommand) return "cmd:" + target.command;
  if (target.kind == TargetKind::kUrl) return target.url;
  return std::string(TargetKindName(target.kind)) + ":" + target.url;
}

bool WantsSentinel(const Plan& plan) {
  const auto needs = [](const std::string& text) {
    return text.find("cotenant_slowdown") != std::string::npos;
  };
  return plan.sentinel || plan.require_ttft_ns ||
         std::any_of(plan.hypotheses.begin(), plan.hypotheses.end(),
                     [&](const results::HypothesisRow& row) {
                       return needs(row.metric) ||
                              std::any_of(row.guards.begin(), row.guards.end(), needs);
                     });
}

std::string Sha256Hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  CHECK(EVP_Digest(text.data(), text.size(), digest.data(), &length, EVP_sha256(), nullptr) == 1);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (unsigned i = 0; i < length; ++i) {
    out += kDigits[digest[i] >> 4U];
    out += kDigits[digest[i] & 15U];
  }
  return out;
}

std::string PlanHash(const Plan& plan) { return Sha256Hex(CanonicalPlan(plan)); }

bool PlanOverrides::Any() const {
  return target || model || model_file || repeat || seed || !only.empty() || idle || require_ttft ||
         !paths.empty();
}

Status ApplyOverrides(const PlanOverrides& overrides, Plan& plan) {
  if (!overrides.Any()) return {};
  if (overrides.repeat) {
    if (*overrides.repeat < 1 || *overrides.repeat > kRepeatLimit) {
      return Error(ErrorCode::kUsage, "--repeat must be a whole number from 1 to " +
                                          std::to_string(kRepeatLimit) + ", not " +
                                          std::to_string(*overrides.repeat));
    }
    plan.repeat = *overrides.repeat;
    for (Condition& condition : plan.conditions) condition.repeat.reset();
  }
  if (overrides.seed) plan.seed = overrides.seed;
  if (overrides.require_ttft) {
    const Result<int64_t> ns = ParseDuration(*overrides.require_ttft);
    if (!ns.ok()) return ns.error().WithContext("--require-ttft");
    if (*ns == 0) return Error(ErrorCode::kUsage, "--require-ttft must be above 0");
    plan.require_ttft_ns = *ns;
  }
  RETURN_IF_ERROR(OverrideTarget(overrides, plan.target));
  if (overrides.idle) RETURN_IF_ERROR(ReplaceIdle(*overrides.idle, plan));
  if (!overrides.only.empty()) RETURN_IF_ERROR(KeepOnly(overrides.only, plan));
  RETURN_IF_ERROR(CheckFeasible(plan, ""));
  plan.toml = CanonicalPlan(plan);
  return {};
}

std::vector<results::ConditionRow> ConditionRows(const Plan& plan) {
  std::vector<results::ConditionRow> rows;
  for (const Condition& condition : plan.conditions) {
    results::ConditionRow row;
    row.name = condition.name;
    row.base = condition.base;
    row.changed = condition.changed;
    row.compound = condition.compound;
    row.idle_ns = condition.idle_ns;
    for (const auto& [layer, value] : condition.state) {
      row.state[std::string(LayerName(layer))] = value;
    }
    for (const FactorRow& factor : Factors()) {
      const std::string value = factor.value(condition);
      // The idle time has a column of its own.
      if (!value.empty() && factor.name != "idle") row.state[std::string(factor.name)] = value;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<Preset> FindPreset(std::string_view name) {
  const std::vector<Preset> presets = Presets();
  std::vector<std::string_view> names;
  std::string all;
  for (const Preset& preset : presets) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
    all += (all.empty() ? "" : ", ") + std::string(preset.name);
  }
  std::string message = "unknown preset " + TomlString(name);
  const std::string nearest = NearestName(name, names);
  if (!nearest.empty()) message += " (did you mean " + TomlString(nearest) + "?)";
  return Error(ErrorCode::kUsage, message + "; there are: " + all);
}

}  // namespace rouse::lab
