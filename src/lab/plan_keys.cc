#include "lab/plan_keys.h"

#include <array>
#include <limits>

#include "base/strings.h"
#include "base/units.h"
#include "lab/plan_section.h"
#include "lab/targets.h"
#include "wire/request.h"
#include "wire/url.h"

namespace rouse::lab {
namespace {

constexpr int64_t kTokensLimit = 1 << 24;
constexpr int64_t kConcurrencyLimit = 256;
constexpr int64_t kShortestSampling = 5'000'000;

Names ApiChoices() {
  const auto names = wire::ApiNames();
  return {names.begin(), names.end()};
}
Names SaltChoices() { return {"attempt", "block"}; }
Names StatisticChoices() { return {"median", "p90", "p95", "mean"}; }
Names ExpectChoices() { return {"decrease", "increase", "equal"}; }

// What a value does to one member, by its type.
template <auto member, typename Into>
Status Text(const KeyValue& value, const Place& /*place*/, Into& into) {
  into.*member = value.text;
  return {};
}
template <auto member, typename Into>
Status Number(const KeyValue& value, const Place& /*place*/, Into& into) {
  into.*member = value.number;
  return {};
}
template <auto member, typename Into>
Status Flag(const KeyValue& value, const Place& /*place*/, Into& into) {
  into.*member = value.flag;
  return {};
}
template <auto member, typename Into>
Status List(const KeyValue& value, const Place& /*place*/, Into& into) {
  into.*member = value.texts;
  return {};
}
template <auto member, typename Into>
Status Table(const KeyValue& value, const Place& /*place*/, Into& into) {
  into.*member = value.table;
  return {};
}
// The same for a hypothesis, whose values lie one level deeper.
template <auto member>
Status RowText(const KeyValue& value, const Place& /*place*/, RawHypothesis& into) {
  into.row.*member = value.text;
  return {};
}

Status SetSeed(const KeyValue& value, const Place& /*place*/, Plan& plan) {
  plan.seed = static_cast<uint64_t>(value.number);
  return {};
}

Status SetPrompt(const KeyValue& value, const Place& place, Plan& plan) {
  if (TrimBlanks(value.text).empty()) return place.Fail(" must not be empty");
  plan.prompt = value.text;
  return {};
}

Status SetTimeout(const KeyValue& value, const Place& place, Plan& plan) {
  if (value.number == 0) return place.Fail(" must be above 0");
  plan.timeout_ns = value.number;
  return {};
}

Status SetSampling(const KeyValue& value, const Place& place, Plan& plan) {
  if (value.number != 0 && value.number < kShortestSampling) {
    return place.Fail(" must be at least 5ms, or \"0s\" for none: oftener, it would disturb");
  }
  plan.sample_every_ns = value.number;
  return {};
}

Status SetRequirement(const KeyValue& value, const Place& place, Plan& plan) {
  if (value.number == 0) return place.Fail(" must be above 0");
  plan.require_ttft_ns = value.number;
  return {};
}

Status SetSalt(const KeyValue& value, const Place& /*place*/, Plan& plan) {
  plan.salt_per_block = value.text == "block";
  return {};
}

const std::array<Key<Plan>, 13> kExperimentKeys{{
    {{.name = "name",
      .type = KeyType::kName,
      .meaning = "name of the run",
      .needed = "a name of its own"},
     Text<&Plan::name>},
    {{.name = "repeat",
      .type = KeyType::kInteger,
      .meaning = "attempts per condition",
      .low = 1,
      .high = kRepeatLimit},
     Number<&Plan::repeat>},
    {{.name = "seed",
      .type = KeyType::kInteger,
      .meaning = "draws the order; drawn, stored and printed when it is not given",
      .low = 0,
      .high = std::numeric_limits<int64_t>::max()},
     SetSeed},
    {{.name = "prompt", .expected = "a string", .meaning = "the user's message"}, SetPrompt},
    {{.name = "max_tokens",
      .type = KeyType::kInteger,
      .meaning = "of the answer",
      .low = 1,
      .high = 1'000'000},
     Number<&Plan::max_tokens>},
    {{.name = "timeout",
      .type = KeyType::kDuration,
      .expected = "a duration such as \"10m\"",
      .meaning = "of one request, of a start and of a load"},
     SetTimeout},
    {{.name = "sentinel",
      .type = KeyType::kBoolean,
      .meaning = "run the co-tenant sentinel beside every request"},
     Flag<&Plan::sentinel>},
    {{.name = "salt",
      .type = KeyType::kChoice,
      .meaning = "what gets a number of its own at the beginning of the prompt: every attempt, or "
                 "every block, so that answers within a block can be compared",
      .choices = SaltChoices},
     SetSalt},
    {{.name = "keep_answer",
      .type = KeyType::kBoolean,
      .meaning = "store the text of the answers too, not only their hash"},
     Flag<&Plan::keep_answer>},
    {{.name = "sample_every",
      .type = KeyType::kDuration,
      .expected = "a duration such as \"20ms\"",
      .meaning = "faults, reads, pressure and page cache are sampled so often during an attempt; "
                 "\"0s\": not at all"},
     SetSampling},
    {{.name = "verify",
      .type = KeyType::kBoolean,
      .meaning =
          "after the attempts, make faults: the server has to refuse clearly, come back, and "
          "lose nothing; the hypotheses are the benefit that has to be seen as well"},
     Flag<&Plan::verify>},
    {{.name = "require_ttft",
      .type = KeyType::kDuration,
      .expected = "a duration such as \"500ms\"",
      .meaning =
          "the first token must come within it after every idle time; the run ends with warm, "
          "bounded cold start or not held"},
     SetRequirement},
    {{.name = "session",
      .type = KeyType::kDuration,
      .expected = "a duration such as \"10h\"",
      .meaning = "the run pauses before a block that would not end within it; --resume goes on"},
     Number<&Plan::session_ns>},
}};

Status SetKind(const KeyValue& value, const Place& /*place*/, TargetSpec& spec) {
  spec.kind = *TargetKindFromName(value.text);
  return {};
}

Status SetPaths(const KeyValue& value, const Place& place, TargetSpec& spec) {
  for (const auto& [name, directory] : value.table) {
    if (const std::string why = WhyNotAPath(name, directory); !why.empty()) {
      return place.Fail(": " + why);
    }
  }
  spec.paths = value.table;
  return {};
}

Status SetUrl(const KeyValue& value, const Place& place, TargetSpec& spec) {
  const Result<wire::Url> url = wire::ParseUrl(value.text);
  if (!url.ok()) return place.Fail(": " + url.error().message());
  spec.url = value.text;
  return {};
}

const std::array<Key<TargetSpec>, 11> kTargetKeys{{
    {{.name = "kind",
      .type = KeyType::kChoice,
      .meaning = "what kind of server is measured",
      .choices = TargetKindNames},
     SetKind},
    {{.name = "model",
      .expected = "a model's name or a GGUF file",
      .meaning = "a name that `rouse models` lists or a GGUF file; for a URL the request's model"},
     Text<&TargetSpec::model>},
    {{.name = "model_file",
      .expected = "the path of a local file",
      .meaning = "the local file whose pages are the page cache layer",
      .scope = KeyScope::kGivenApi},
     Text<&TargetSpec::model_file>},
    {{.name = "context",
      .type = KeyType::kInteger,
      .meaning = "tokens of prompt and answer together",
      .low = 16,
      .high = kTokensLimit,
      .scope = KeyScope::kBuiltin},
     Number<&TargetSpec::context>},
    {{.name = "command",
      .expected = "a command line",
      .meaning = "started without a shell; {port} and {model} are filled in",
      .needed = "\"my-server --port {port} --model {model}\"",
      .scope = KeyScope::kCommand},
     Text<&TargetSpec::command>},
    {{.name = "url",
      .expected = "a URL such as \"http://127.0.0.1:8080\"",
      .meaning = "base or endpoint of a server that runs already",
      .needed = "\"http://127.0.0.1:8080\"",
      .scope = KeyScope::kUrl},
     SetUrl},
    {{.name = "api",
      .type = KeyType::kChoice,
      .meaning = "the format of the requests",
      .choices = ApiChoices},
     Text<&TargetSpec::api>},
    {{.name = "args",
      .type = KeyType::kTexts,
      .meaning = "added to the arguments of the server",
      .scope = KeyScope::kStarted},
     List<&TargetSpec::args>},
    {{.name = "headers_env",
      .type = KeyType::kTable,
      .expected = "a table of header name to the name of an environment variable",
      .meaning = "request header = name of the environment variable that holds its value",
      .scope = KeyScope::kGivenApi},
     Table<&TargetSpec::headers_env>},
    {{.name = "compile_cache_env",
      .expected = "the name of an environment variable",
      .meaning = "the variable that tells the server where to keep compiled kernels",
      .scope = KeyScope::kCommand},
     Text<&TargetSpec::compile_cache_env>},
    {{.name = "paths",
      .type = KeyType::kTable,
      .expected = "a table of names to directories",
      .meaning = "directories that a condition's path may name, where the model's file is put, or "
                 "simulated disks such as simulated:200MB/s",
      .scope = KeyScope::kStarted},
     SetPaths},
}};

Status SetState(const KeyValue& value, const Place& /*place*/, RawCondition& raw) {
  for (const auto& [name, text] : value.table) raw.state[*LayerFromName(name)] = text;
  return {};
}

const std::array<Key<RawCondition>, 10> kConditionKeys{{
    {{.name = "name",
      .type = KeyType::kName,
      .meaning = "name of the condition",
      .needed = "a name of its own"},
     Text<&RawCondition::name>},
    {{.name = "base",
      .expected = "the name of another condition",
      .meaning = "the condition above that this one differs from in one thing"},
     Text<&RawCondition::base>},
    {{.name = "state",
      .type = KeyType::kState,
      .expected = "a table such as { page_cache = \"cold\" }",
      .meaning = "the state of the layers right before the request"},
     SetState},
    {{.name = "idle",
      .type = KeyType::kDuration,
      .expected = "a duration such as \"10m\"",
      .meaning = "time without any contact before the request"},
     Number<&RawCondition::idle_ns>},
    {{.name = "prompt_tokens",
      .type = KeyType::kInteger,
      .meaning = "length of the whole prompt as the server counts it",
      .low = 1,
      .high = kTokensLimit},
     Number<&RawCondition::prompt_tokens>},
    {{.name = "concurrency",
      .type = KeyType::kInteger,
      .meaning = "requests that are sent at the same moment; one of them is measured",
      .low = 1,
      .high = kConcurrencyLimit},
     Number<&RawCondition::concurrency>},
    {{.name = "target_args",
      .type = KeyType::kTexts,
      .meaning = "arguments of the server for this condition"},
     List<&RawCondition::target_args>},
    {{.name = "path",
      .expected = "a name of paths in [target]",
      .meaning = "the directory from which the server loads the model's file"},
     Text<&RawCondition::path>},
    {{.name = "repeat",
      .type = KeyType::kInteger,
      .meaning = "attempts, instead of the experiment's number",
      .low = 1,
      .high = kRepeatLimit},
     Number<&RawCondition::repeat>},
    {{.name = "compound",
      .type = KeyType::kBoolean,
      .meaning = "says that several changes are meant together"},
     Flag<&RawCondition::compound>},
}};

Status SetConfidence(const KeyValue& value, const Place& /*place*/, RawHypothesis& raw) {
  raw.row.confidence = value.share;
  return {};
}

Status SetGuards(const KeyValue& value, const Place& place, RawHypothesis& raw) {
  raw.row.guards = value.texts;
  for (const std::string& guard : value.texts) {
    RETURN_IF_ERROR(CheckGuard(guard, place.file, place.line, place.title));
  }
  return {};
}

const std::array<Key<RawHypothesis>, 9> kHypothesisKeys{{
    {{.name = "name",
      .type = KeyType::kName,
      .meaning = "name of the hypothesis",
      .needed = "a name of its own"},
     RowText<&results::HypothesisRow::name>},
    {{.name = "metric",
      .type = KeyType::kChoice,
      .meaning = "ttft, ttfc or a name of the metric catalogue",
      .choices = HypothesisMetrics},
     RowText<&results::HypothesisRow::metric>},
    {{.name = "statistic",
      .type = KeyType::kChoice,
      .meaning = "what is compared",
      .choices = StatisticChoices},
     RowText<&results::HypothesisRow::statistic>},
    {{.name = "treatment",
      .expected = "the name of a condition",
      .meaning = "the condition that should differ",
      .needed = "the name of a condition"},
     RowText<&results::HypothesisRow::treatment>},
    {{.name = "control",
      .expected = "the name of a condition",
      .meaning = "the condition that it is compared with",
      .needed = "the name of a condition"},
     RowText<&results::HypothesisRow::control>},
    {{.name = "expect",
      .type = KeyType::kChoice,
      .meaning = "the expected direction",
      .needed = "decrease, increase or equal",
      .choices = ExpectChoices},
     RowText<&results::HypothesisRow::expect>},
    {{.name = "margin",
      .expected = "\"100ms\" or \"10%\"",
      .meaning = "the smallest change worth having, above 0, in the metric's unit or as a share",
      .needed = "the smallest change worth having, \"100ms\" or \"10%\""},
     RowText<&results::HypothesisRow::margin>},
    {{.name = "confidence", .type = KeyType::kShare, .meaning = "of the interval"}, SetConfidence},
    {{.name = "guard",
      .type = KeyType::kTexts,
      .meaning = "bounds that must hold on the treatment too, such as \"failure_rate<=0.05\""},
     SetGuards},
}};

}  // namespace

bool InScope(KeyScope scope, TargetKind kind) {
  const bool started = RowOf(kind).owns_process;
  switch (scope) {
    case KeyScope::kEvery:
      return true;
    case KeyScope::kBuiltin:
      return kind == TargetKind::kBuiltin;
    case KeyScope::kCommand:
      return kind == TargetKind::kCommand;
    case KeyScope::kStarted:
      return started;
    case KeyScope::kUrl:
      return !started;
    case KeyScope::kGivenApi:
      return kind != TargetKind::kBuiltin;
  }
  return true;
}

std::span<const Key<Plan>> ExperimentKeys() { return kExperimentKeys; }
std::span<const Key<TargetSpec>> TargetKeys() { return kTargetKeys; }
std::span<const Key<RawCondition>> ConditionKeys() { return kConditionKeys; }
std::span<const Key<RawHypothesis>> HypothesisKeys() { return kHypothesisKeys; }

Names SectionNames() { return {"experiment", "target", "condition", "hypothesis"}; }

}  // namespace rouse::lab
