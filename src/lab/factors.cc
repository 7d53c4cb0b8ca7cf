#include "lab/factors.h"

#include <array>

#include "base/units.h"
#include "lab/plan_internal.h"

namespace rouse::lab {
namespace {

std::string Idle(const Condition& condition) {
  const int64_t idle_ns = condition.idle_ns.value_or(0);
  return idle_ns == 0 ? "" : FormatWrittenDuration(idle_ns);
}

std::string PromptTokens(const Condition& condition) {
  return condition.prompt_tokens ? std::to_string(*condition.prompt_tokens) : "";
}

std::string Concurrency(const Condition& condition) {
  return condition.concurrency == 1 ? "" : std::to_string(condition.concurrency);
}

std::string TargetArgs(const Condition& condition) {
  return condition.target_args.empty() ? "" : ArgumentsText(condition.target_args);
}

std::string Path(const Condition& condition) { return condition.path; }

constexpr std::array<FactorRow, 5> kFactors{{
    {.name = "idle",
     .value = Idle,
     .set = "no contact with the server, the file or the GPU for that time",
     .proof = "what is read without contact right before the request"},
    {.name = "prompt_tokens",
     .value = PromptTokens,
     .set = "text made up to that length, measured with requests of one token",
     .proof = "prompt tokens that the server reports with the answer, within 1 % or 4 tokens"},
    {.name = "concurrency",
     .value = Concurrency,
     .set = "that many requests with salts of their own at one moment, one of them measured",
     .proof = "marks of all: each was sent before the measured first token and ended after its "
              "send"},
    {.name = "target_args",
     .value = TargetArgs,
     .set = "the server is started anew with them",
     .proof = "/proc/PID/cmdline of the server"},
    {.name = "path",
     .value = Path,
     .set = "the model's file is put into that directory, and the server started with it; for a "
            "simulated disk in a control group whose reads are limited",
     .proof = "/proc/PID/cmdline of the server, the content of the file, the group's limit"},
}};

}  // namespace

std::span<const FactorRow> Factors() { return kFactors; }

std::string ArgumentsText(const std::vector<std::string>& arguments) {
  return TomlArray(arguments);
}

}  // namespace rouse::lab
