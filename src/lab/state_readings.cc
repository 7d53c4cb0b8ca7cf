// What each layer is, read back and judged. Bringing it about is in lab/states.cc.
#include <array>
#include <cstdio>

#include "base/units.h"
#include "lab/compile_cache_proof.h"
#include "lab/factor_proofs.h"
#include "lab/states.h"
#include "lab/targets.h"

namespace rouse::lab {
namespace {

using results::LayerReading;
using results::LayerReadings;

// The contract's bounds of page_cache.
constexpr double kWarmAtLeast = 0.99;
constexpr double kColdAtMost = 0.01;
constexpr double kFractionWithin = 0.02;

// Two salts may begin with the same digits by chance, which a cache of many prompts then finds.
constexpr int64_t kChanceTokens = 2;

std::string Name(Layer layer) { return std::string(LayerName(layer)); }

std::string Percent(double ratio) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %%", ratio * 100);
  return text.data();
}

bool IsNew(const Condition& condition) { return condition.Value(Layer::kProcess) == "new"; }
bool HasProcess(const StateContext& context) { return RowOf(context.target.kind()).owns_process; }

LayerReading ReadPageCache(StateContext& context, const Condition& condition) {
  LayerReading reading;
  reading.wanted = condition.Value(Layer::kPageCache);
  const std::string file = context.target.model_file();
  if (file.empty()) {
    reading.detail = "no model_file is known, so its pages cannot be read back";
    return reading;
  }
  const double wanted = WantedPageCacheShare(reading.wanted);
  const Result<PageCache::Share> share = context.page_cache.Read(file, wanted);
  if (!share.ok()) {
    reading.detail = share.error().message();
    // A state that was asked for and cannot be proved is not reached.
    if (reading.wanted != "warm") reading.reached = false;
    return reading;
  }
  reading.value = share->ratio;
  reading.proof = share->proof;
  if (share->bounds) {
    reading.proof += ", between " + Percent(share->bounds->first) + " and " +
                     Percent(share->bounds->second) + "; the file's owner or root reads it exactly";
  }
  // An estimate has to hold at both ends of its interval.
  const auto [low, high] = share->bounds.value_or(std::pair(share->ratio, share->ratio));
  if (wanted == 1) {
    reading.reached = low >= kWarmAtLeast;
  } else if (wanted == 0) {
    reading.reached = high <= kColdAtMost;
  } else {
    reading.reached = wanted - low <= kFractionWithin && high - wanted <= kFractionWithin;
  }
  reading.detail = Percent(share->ratio) + " of " + FormatBytes(share->file_bytes) + " resident";
  reading.strip_json = StripJson(share->parts);
  if (reading.wanted != kLockedPages) return reading;
  const int64_t locked = context.page_lock == nullptr ? 0 : context.page_lock->locked_bytes();
  reading.proof += " and VmLck of rouse";
  reading.detail += ", " + FormatBytes(locked) + " locked";
  reading.reached = *reading.reached && locked >= share->file_bytes;
  return reading;
}

std::string Describe(const ProcessIdentity& identity) {
  return "pid " + std::to_string(identity.pid) + ", started at tick " +
         std::to_string(identity.start_ticks);
}

LayerReading ReadProcess(StateContext& context, const Condition& condition) {
  LayerReading reading;
  reading.wanted = condition.Value(Layer::kProcess);
  const std::optional<ProcessIdentity> identity = context.target.Identity();
  reading.proof = "pid and start time";
  if (IsNew(condition)) {
    reading.value = std::string(identity ? "running" : "none");
    reading.reached = !identity.has_value();
    reading.detail = identity ? "the old process still runs: " + Describe(*identity)
                              : "it is started by the request";
  } else if (!HasProcess(context)) {
    // Somebody else's: seen where it runs on this machine, and never judged.
    if (!identity) reading.proof = "";
    if (identity) reading.value = std::string("running");
    reading.detail = identity ? Describe(*identity) + ", not started by rouse"
                              : "the server's process is not ours";
  } else {
    reading.value = std::string(identity ? "running" : "none");
    reading.reached = identity.has_value();
    reading.detail = identity ? Describe(*identity) : "the server " + context.target.ExitText();
  }
  return reading;
}

LayerReading JudgeNewProcess(StateContext& context, const Preparation& preparation) {
  LayerReading reading;
  reading.wanted = "new";
  reading.proof = "pid and start time";
  const std::optional<ProcessIdentity> identity = context.target.Identity();
  if (!identity) {
    reading.value = std::string("none");
    reading.reached = false;
    reading.detail = "the server " + context.target.ExitText();
    return reading;
  }
  const bool fresh = identity != preparation.previous_process;
  reading.value = std::string(fresh ? "new" : "running");
  reading.reached = fresh;
  reading.detail = Describe(*identity);
  return reading;
}

LayerReading JudgePrefix(StateContext& context, const Condition& condition,
                         const Preparation& preparation, const results::Attempt& attempt) {
  LayerReading reading;
  reading.wanted = condition.Value(Layer::kPrefixCache);
  reading.proof = "cached tokens of the answer";
  if (!attempt.tokens.cached) {
    reading.detail = "the server does not report cached tokens";
    return reading;
  }
  const int64_t cached = *attempt.tokens.cached;
  reading.detail = std::to_string(cached) + " cached tokens";
  if (reading.wanted == "empty") {
    const int64_t forced = preparation.setup.forbid_prefix
                               ? 0
                               : preparation.forced_prefix_tokens.value_or(0) + kChanceTokens;
    reading.value = std::string(cached <= forced ? "empty" : "hit");
    reading.reached = cached <= forced;
    reading.detail += ", at most " + std::to_string(forced) + " can come before the salts differ";
    return reading;
  }
  const int64_t block = RowOf(context.target.kind()).block_tokens;
  if (!attempt.tokens.prompt) return reading;
  const bool hit = cached >= *attempt.tokens.prompt - block;
  reading.value = std::string(hit ? "hit" : "empty");
  reading.reached = hit;
  reading.detail += " of " + std::to_string(*attempt.tokens.prompt);
  return reading;
}

LayerReading JudgeConnection(const Condition& condition, const results::Attempt& attempt) {
  LayerReading reading;
  reading.wanted = condition.Value(Layer::kConnection);
  reading.proof = "the request's own socket";
  if (!attempt.connection.reused) return reading;
  reading.value = std::string(*attempt.connection.reused ? "reused" : "fresh");
  reading.reached = *attempt.connection.reused == (reading.wanted == "reused");
  if (reading.reached == false) {
    reading.detail =
        "the server had closed the kept connection: it does so after each streamed answer, or "
        "after "
        "less time than there was between the two requests; \"fresh\" is what its clients get";
  }
  return reading;
}

}  // namespace

LayerReadings ReadWithoutContact(StateContext& context, const Condition& condition,
                                 const Preparation& /*preparation*/) {
  LayerReadings readings;
  AddCompileCache(context, condition, true, readings);
  readings[Name(Layer::kPageCache)] = ReadPageCache(context, condition);
  readings[Name(Layer::kProcess)] = ReadProcess(context, condition);
  AddLaunch(context, condition, readings);
  return readings;
}

LayerReadings ReadAfter(StateContext& context, const Condition& condition,
                        const Preparation& preparation, const results::Attempt& attempt) {
  LayerReadings readings;
  AddCompileCache(context, condition, false, readings);
  JudgeKeptCompileCache(preparation, attempt, readings);
  // The request itself warms pages and loads the model: what is read now is the new state, not a
  // judgement of the old one.
  LayerReading page_cache = ReadPageCache(context, condition);
  page_cache.reached.reset();
  readings[Name(Layer::kPageCache)] = page_cache;
  readings[Name(Layer::kProcess)] =
      IsNew(condition) ? JudgeNewProcess(context, preparation) : ReadProcess(context, condition);
  LayerReading model;
  model.wanted = condition.Value(Layer::kModel);
  const Result<ServerState> state = context.target.ReadState();
  if (state.ok() && state->model_loaded) {
    model.value = state->ModelWord();
    model.proof = "the server's state";
  }
  readings[Name(Layer::kModel)] = model;
  readings[Name(Layer::kPrefixCache)] = JudgePrefix(context, condition, preparation, attempt);
  readings[Name(Layer::kConnection)] = JudgeConnection(condition, attempt);
  AddLaunch(context, condition, readings);
  context.told_state = state.ok() ? state->json : "";
  AddToldArguments(condition, context.told_state, readings);
  AddPromptTokens(condition, attempt, readings);
  return readings;
}

}  // namespace rouse::lab
