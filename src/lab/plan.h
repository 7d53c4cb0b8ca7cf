// A plan: what is to be measured, under which states, how often, and what is expected. Parsed from
// TOML (docs/plan.md) or taken from a preset, which is a plan file inside the binary.
//
// A plan is checked completely before anything runs: unknown keys and values, impossible
// combinations, the one-change rule along `base` chains. It does not run anything (lab/experiment).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/layers.h"
#include "results/run.h"

namespace rouse::lab {

struct TargetSpec {
  TargetKind kind = TargetKind::kBuiltin;
  std::string model = "smollm2-135m";  // builtin: a name or a GGUF file; else the request's "model"
  std::string model_file;              // command, url: a local file, for page-cache proofs
  int64_t context = 2048;
  std::string command;  // "my-server --port {port} --model {model}"
  std::string url;      // "http://127.0.0.1:8080"
  // command: the variable that names the directory of its compiled kernels ("CUDA_CACHE_PATH").
  std::string compile_cache_env;
  std::string api = "openai-chat";  // a name of the wire's table of apis
  std::vector<std::string> args;    // appended to the built-in server's or command's arguments
  std::map<std::string, std::string> headers_env;  // header -> environment variable that holds it
  // builtin, command: directories that a condition's `path` may name (lab/model_copy.h).
  std::map<std::string, std::string> paths;
};

struct Condition {
  std::string name;
  std::string base;       // "" for a root
  std::string changed;    // what it changes: a layer or a factor ("idle"); several: "a, b"
  bool compound = false;  // declared to change several things together
  std::map<Layer, std::string> state;  // every layer, inherited and default values included
  std::optional<int64_t> idle_ns;
  std::optional<int64_t> repeat;  // instead of the experiment's
  // Of the whole prompt, as the server counts it; empty: the plan's prompt as it is.
  std::optional<int64_t> prompt_tokens;
  int64_t concurrency = 1;  // requests sent at the same moment; one of them is measured
  std::vector<std::string> target_args;
  std::string path;  // a name of the target's paths; "" = where the model's file is
  int line = 0;

  const std::string& Value(Layer layer) const { return state.at(layer); }
};

struct Plan {
  std::string name;
  int64_t repeat = 6;
  std::optional<uint64_t> seed;
  std::string prompt = "Reply with one word: what colour is the sky?";
  int64_t max_tokens = 8;
  int64_t timeout_ns = 600'000'000'000;
  // Run the co-tenant sentinel (lab/contention.h); a guard on cotenant_slowdown asks for it too.
  bool sentinel = false;
  // One salt for all conditions of a block, so that their answers can be compared.
  bool salt_per_block = false;
  bool keep_answer = false;  // store the answers' text, not only its hash
  // How often an attempt is sampled (lab/sampler.h); 0: not at all.
  int64_t sample_every_ns = 20'000'000;
  bool verify = false;  // after the attempts, the cases of lab/verify.h
  // The TTFT that must hold after every idle time (stats/claim.h).
  std::optional<int64_t> require_ttft_ns;
  // A run pauses before a block that would not end within this time since it was begun or resumed.
  std::optional<int64_t> session_ns;
  TargetSpec target;
  std::vector<Condition> conditions;
  std::vector<results::HypothesisRow> hypotheses;
  std::string toml;  // as it was written
};

// Every error is one of kUsage and begins "FILE:LINE: ".
Result<Plan> ParsePlan(std::string_view toml, std::string_view file_name);

// The plan as TOML with every default written out, keys in a fixed order and no comments. Parsing
// it gives the same plan, so two plans mean the same exactly when these texts are equal.
std::string CanonicalPlan(const Plan& plan);
// The target in one line, as --target takes it: "builtin", "cmd:...", "http://...",
// "ollama:http://".
std::string TargetText(const TargetSpec& target);
// Whether attempts run the sentinel: the plan says so, or a guard needs its metric.
bool WantsSentinel(const Plan& plan);
// SHA-256 in hexadecimal: of a text, and of the plan's canonical form.
std::string Sha256Hex(std::string_view text);
std::string PlanHash(const Plan& plan);

// What the command line changes in a plan. Each is checked as the plan's own keys are.
struct PlanOverrides {
  std::optional<std::string> target;  // "builtin", URL, "cmd:COMMAND", or "KIND:URL"
  std::optional<std::string> model;
  std::optional<std::string> model_file;
  std::optional<int64_t> repeat;
  std::optional<uint64_t> seed;
  std::vector<std::string> only;            // condition names; empty = all
  std::optional<std::string> idle;          // "0s,1m,10m": replaces the conditions' idle times
  std::vector<std::string> paths;           // "NAME=DIR": added to the target's paths
  std::optional<std::string> require_ttft;  // "500ms"
  bool Any() const;
};
Status ApplyOverrides(const PlanOverrides& overrides, Plan& plan);
// Reads and parses, with what the command line changes (paths, the target) before the plan is held
// against what its target can do; a file that cannot be read is kNotFound or as the kernel says.
Result<Plan> LoadPlan(const std::string& path, const PlanOverrides& overrides = {});

// Whether the plan can be carried out on its kind of target; ParsePlan and ApplyOverrides call it.
Status CheckFeasible(const Plan& plan, std::string_view file_name);

// The same plan in the words of the results (conditions with their whole state).
std::vector<results::ConditionRow> ConditionRows(const Plan& plan);

struct Preset {
  std::string_view name;
  std::string_view summary;
  std::string_view toml;
};
// The presets of this binary; each is src/lab/presets/NAME.toml.
std::vector<Preset> Presets();
// An unknown name is kUsage and names the nearest one.
Result<Preset> FindPreset(std::string_view name);

}  // namespace rouse::lab
