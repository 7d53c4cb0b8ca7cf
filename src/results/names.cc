// The names under which enumerators are stored and printed. One table per enumeration, in the
// enumeration's order.
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "results/attempt.h"
#include "results/stage_words.h"

namespace rouse::results {
namespace {

constexpr std::array<std::string_view, kOutcomeCount> kOutcomes = {
    "ok",        "no_token",      "http_error",        "stream_error",
    "malformed", "truncated",     "not_streamed",      "connect_error",
    "timeout",   "target_exited", "state_not_reached", "interrupted"};

constexpr std::array<std::string_view, kStageCount> kStages = {
    "queue",   "process_start", "weights",   "runtime_init", "tokenize",
    "prefill", "first_decode",  "transport", "unattributed"};

constexpr std::array<std::string_view, 4> kSources = {"client", "server", "os", "derived"};

template <typename Enum, size_t kCount>
std::optional<Enum> Find(const std::array<std::string_view, kCount>& names, std::string_view name) {
  for (size_t index = 0; index < kCount; ++index) {
    if (names[index] == name) return static_cast<Enum>(index);
  }
  return std::nullopt;
}

}  // namespace

std::string_view OutcomeName(Outcome outcome) { return kOutcomes[static_cast<size_t>(outcome)]; }

std::optional<Outcome> OutcomeFromName(std::string_view name) {
  return Find<Outcome>(kOutcomes, name);
}

bool CountsInSample(Outcome outcome) {
  return outcome != Outcome::kStateNotReached && outcome != Outcome::kInterrupted;
}

std::string_view StageWords(Stage stage) {
  constexpr std::array<std::string_view, kStageCount> kWords = {
      "queue",   "process start", "weights",   "runtime init", "tokenizer",
      "prefill", "first decode",  "transport", "unattributed"};
  return kWords[static_cast<size_t>(stage)];
}
std::string_view StageName(Stage stage) { return kStages[static_cast<size_t>(stage)]; }

std::optional<Stage> StageFromName(std::string_view name) { return Find<Stage>(kStages, name); }

std::string_view StageSourceName(StageSource source) {
  return kSources[static_cast<size_t>(source)];
}

std::optional<StageSource> StageSourceFromName(std::string_view name) {
  return Find<StageSource>(kSources, name);
}

}  // namespace rouse::results
