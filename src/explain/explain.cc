#include "explain/explain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>

#include "base/terminal_text.h"
#include "base/units.h"
#include "explain/layer_words.h"
#include "explain/next_step.h"
#include "results/stage_words.h"

namespace rouse::explain {
namespace {

using results::Attempt;
using results::Stage;
using Group = std::vector<const Attempt*>;

constexpr double kWarm = 0.99;

Group ReferenceAttempts(std::span<const Attempt> attempts, const std::string& condition,
                        const Attempt* except) {
  Group group;
  for (const Attempt& attempt : attempts) {
    if (&attempt != except && attempt.condition == condition && CanBeReference(attempt)) {
      group.push_back(&attempt);
    }
  }
  return group;
}

Result<Reference> FindReference(const results::Run& run, std::span<const Attempt> attempts,
                                const Attempt& attempt, const std::string& against) {
  if (!against.empty()) {
    const Group group = ReferenceAttempts(attempts, against, &attempt);
    if (group.empty()) {
      return Error(ErrorCode::kUsage,
                   "the run has no successful attempt of \"" + against + "\" to compare with");
    }
    return Reference{against, "asked for", ProfileOf(group)};
  }
  for (const results::ConditionRow& row : run.conditions) {
    if (row.name != attempt.condition || row.base.empty()) continue;
    const Group group = ReferenceAttempts(attempts, row.base, &attempt);
    if (!group.empty()) return Reference{row.base, "its base", ProfileOf(group)};
  }
  const Group peers = ReferenceAttempts(attempts, attempt.condition, &attempt);
  if (!peers.empty()) {
    return Reference{attempt.condition, "the other attempts of its condition", ProfileOf(peers)};
  }
  return Reference{};
}

std::string Word(const results::LayerReadings& readings, const std::string& layer) {
  const auto found = readings.find(layer);
  if (found == readings.end()) return "";
  if (const double* const share = std::get_if<double>(&found->second.value)) return Percent(*share);
  const std::string* const word = std::get_if<std::string>(&found->second.value);
  return word == nullptr ? "" : *word;
}

bool ColdWord(const std::string& layer, const LayerView& view) {
  if (view.share) return *view.share < kWarm;
  return IsColder(layer, view.word);
}

std::vector<LayerRow> LayersOf(const Attempt& attempt, const Profile& subject,
                               const Profile& usual) {
  std::vector<LayerRow> rows;
  for (const auto& [layer, view] : subject.layers) {
    LayerRow row;
    row.layer = layer;
    row.before = Word(attempt.state_before, layer);
    row.at_send = Word(attempt.state_at_send, layer);
    row.after = Word(attempt.state_after, layer);
    row.proof = view.proof;
    row.cold = !view.proof.empty() && ColdWord(layer, view);
    if (const LayerView* const other = usual.Layer(layer)) {
      row.usual = other->share ? Percent(*other->share) : other->word;
      row.changed = view.share && other->share ? std::fabs(*view.share - *other->share) > 0.02
                                               : view.word != other->word;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::optional<Stage> LargestStage(const Profile& profile) {
  std::optional<Stage> largest;
  double most = 0;
  for (int i = 0; i < results::kStageCount; ++i) {
    const std::optional<double> value = profile.Stage(static_cast<Stage>(i));
    if (!value || *value <= most) continue;
    most = *value;
    largest = static_cast<Stage>(i);
  }
  return largest;
}

// What helps against a stage that is left when every layer is warm.
std::string_view WhatCan(Stage stage) {
  switch (stage) {
    case Stage::kPrefill:
      return "; a shorter prompt, one whose beginning is cached, or faster computing can.";
    case Stage::kFirstDecode:
      return "; a smaller model or faster computing can.";
    case Stage::kTokenize:
      return "; a shorter prompt can.";
    case Stage::kQueue:
      return "; fewer requests at a time can.";
    case Stage::kTransport:
      return "; a nearer client can.";
    default:
      return ".";
  }
}

// What no kept layer can take away: the prefix and the connection are the request's own.
std::string BoundaryOf(const Profile& warm, const std::string& who) {
  const std::optional<Stage> stage = LargestStage(warm);
  if (!warm.ttft_ns || !stage) return "";
  bool known = false;
  for (const std::string_view layer : {"page_cache", "model", "process"}) {
    const LayerView* const view = warm.Layer(layer);
    if (view == nullptr) continue;
    if (ColdWord(std::string(layer), *view)) return "";
    known = true;
  }
  if (!known) return "";  // nobody read whether anything was warm
  const double share = *warm.Stage(*stage) / *warm.ttft_ns;
  return who + " " + Ms(*warm.ttft_ns) + " with every layer of the server warm, " + Percent(share) +
         " of it " + std::string(StageWords(*stage)) + ". Keeping more warm cannot save that" +
         std::string(WhatCan(*stage));
}

std::string ReadingWords(const Case& each) {
  const std::optional<double> read = each.subject.Counter("target_read_bytes");
  if (!read) return "";
  const std::optional<double> weights = each.subject.Stage(Stage::kWeights);
  std::string words = "The server read " + Bytes(*read) + " from the disk";
  if (*read < 1024 * 1024) return words + ": reading explains nothing here.";
  if (!each.disk_bytes_per_s) {
    return words +
           ". No other attempt of this run met a cold file, so the disk's rate is not known.";
  }
  const double needed = *read / *each.disk_bytes_per_s * 1e9;
  words += ", which at " + Bytes(*each.disk_bytes_per_s) + "/s (this run's attempts that met a " +
           "cold file) takes " + Ms(needed);
  if (weights) {
    const double both = *weights + each.subject.Stage(Stage::kPrefill).value_or(0);
    words += "; weights took " + Ms(*weights) + ", weights and prefill together " + Ms(both);
    words += needed >= 0.5 * *weights && needed <= 1.5 * both
                 ? ": the read accounts for it"
                 : ": the read does not account for it";
  }
  return words + ".";
}

// Causes whose evidence is a state or a count that was read back, not a time or a counter.
bool IsReadBack(CauseId cause) {
  return cause == CauseId::kNewProcess || cause == CauseId::kPageCacheCold ||
         cause == CauseId::kModelUnloaded || cause == CauseId::kLongPrompt ||
         cause == CauseId::kPrefixLost;
}

std::string ClockWords(double excess_ns) {
  return "Clocks could explain at most " + Ms(std::min(kClockRampNs, excess_ns)) +
         " of the excess: the kernel raises a frequency in steps of at most 10 ms.";
}

void FillAttribution(const results::Run& run, std::span<const Attempt> attempts,
                     const Attempt& attempt, const Profile& subject,
                     std::span<const Contrast> contrasts, AttemptExplanation& result) {
  const Case each{.subject = subject,
                  .reference = result.reference.profile,
                  .excess_ns = *result.excess_ns,
                  .model_bytes = ModelBytes(run),
                  .disk_bytes_per_s = DiskRate(run, attempts, &attempt)};
  result.reading = ReadingWords(each);
  result.within_reference = WithinReference(subject, result.reference.profile);
  if (*result.excess_ns <= 0) return;
  result.clocks = ClockWords(*result.excess_ns);
  Attribution attribution = Attribute(each);
  if (result.within_reference) {
    // A difference that the reference shows by itself needs no cause from counters; a layer or a
    // prompt that was read back as another one is a difference all the same.
    std::erase_if(attribution.claims, [](const Claim& claim) { return !IsReadBack(claim.cause); });
    result.within_reference = attribution.claims.empty();
    attribution.without_cost.clear();
    attribution.unattributed_ns = attribution.excess_ns;
    for (const Claim& claim : attribution.claims) attribution.unattributed_ns -= claim.claimed_ns;
  }
  result.attribution = std::move(attribution);
  if (result.attribution->claims.empty()) return;
  const std::string_view layer = RowOf(result.attribution->claims.front().cause).layer;
  for (const Contrast& contrast : contrasts) {
    // Only a contrast that this attempt is a part of says something about this attempt.
    if (contrast.grade == Grade::kProved && contrast.layer == layer &&
        contrast.condition == attempt.condition && contrast.base == result.reference.condition) {
      result.proved_by = contrast.condition + " against " + contrast.base;
    }
  }
}

const results::ConditionRow* WarmRoot(const results::Run& run) {
  const results::ConditionRow* root = nullptr;
  for (const results::ConditionRow& row : run.conditions) {
    if (!row.base.empty()) continue;
    if (root == nullptr || row.name == "warm") root = &row;
  }
  return root;
}

}  // namespace

std::vector<std::string> ColdLayers(const Attempt& attempt) {
  const Attempt* const only = &attempt;
  std::vector<std::string> cold;
  for (const auto& [layer, view] : ProfileOf({&only, 1}).layers) {
    if (!view.proof.empty() && ColdWord(layer, view)) cold.push_back(layer);
  }
  return cold;
}

Result<AttemptExplanation> ExplainAttempt(const results::Run& run,
                                          std::span<const Attempt> attempts, int64_t id,
                                          const std::string& against) {
  const auto found = std::find_if(attempts.begin(), attempts.end(),
                                  [id](const Attempt& each) { return each.id == id; });
  if (found == attempts.end()) {
    return Error(ErrorCode::kUsage, "the run has no attempt " + std::to_string(id));
  }
  const Attempt& attempt = *found;
  AttemptExplanation result;
  result.run = run.id.value_or(0);
  result.attempt = id;
  result.condition = attempt.condition;
  result.outcome = attempt.outcome;
  result.outcome_detail = attempt.outcome_detail;
  ASSIGN_OR_RETURN(result.reference, FindReference(run, attempts, attempt, against));
  const std::array<const Attempt*, 1> one = {&attempt};
  const Profile subject = ProfileOf(one);
  result.ttft_ns = subject.ttft_ns;
  result.layers = LayersOf(attempt, subject, result.reference.profile);
  const std::vector<Contrast> contrasts = FindContrasts(run, attempts);
  if (result.ttft_ns && result.reference.profile.ttft_ns) {
    result.excess_ns = *result.ttft_ns - *result.reference.profile.ttft_ns;
    FillAttribution(run, attempts, attempt, subject, contrasts, result);
  }
  result.boundary = BoundaryOf(subject, "This attempt took");
  result.next = NextAfterAttempt(run, result, contrasts);
  return result;
}

Result<RunExplanation> ExplainRun(const results::Run& run, std::span<const Attempt> attempts) {
  RunExplanation result;
  result.run = run.id.value_or(0);
  result.name = run.name;
  result.target = run.target;
  for (const Attempt& attempt : attempts) {
    if (attempt.prime) continue;
    ++result.attempts;
    if (attempt.outcome == results::Outcome::kStateNotReached) ++result.not_reached;
    if (results::CountsInSample(attempt.outcome) && attempt.outcome != results::Outcome::kOk) {
      ++result.failed;
    }
  }
  if (result.attempts == 0) {
    return Error(ErrorCode::kState,
                 "run " + std::to_string(result.run) + " holds no attempt to explain");
  }
  result.contrasts = FindContrasts(run, attempts);
  if (const results::ConditionRow* const root = WarmRoot(run)) {
    result.warm_condition = root->name;
    result.warm = ProfileOf(ReferenceAttempts(attempts, root->name, nullptr));
    result.boundary = BoundaryOf(result.warm, "\"" + root->name + "\" takes");
  }
  result.next = NextAfterRun(run, result.contrasts);
  return result;
}

namespace {

// Words of GET /state (server/state.cc). An empty prefix cache is what every new prompt meets.
void LayerFinding(const std::string& layer, const std::string& value,
                  std::vector<ServerFinding>& findings) {
  const bool cold = value == "absent" || value == "loading" || value == "failed";
  findings.push_back({layer, cold, layer + ": " + value + ", as the server says"});
}

}  // namespace

ServerExplanation ExplainServer(const ServerFacts& facts) {
  ServerExplanation result;
  result.url = facts.url;
  for (const auto& [layer, value] : facts.layers) {
    if (layer != "page_cache") LayerFinding(layer, value, result.findings);
  }
  if (facts.resident_ratio) {
    const bool cold = *facts.resident_ratio < kWarm;
    std::string words = "page cache: " + Percent(*facts.resident_ratio) + " of the model's file";
    if (facts.model_bytes && cold) {
      words += ", " + Bytes((1 - *facts.resident_ratio) * *facts.model_bytes) +
               " would come from the disk";
    }
    result.findings.push_back({"page_cache", cold, words});
  }
  if (facts.queue_waiting) {
    result.findings.push_back(
        {"queue", *facts.queue_waiting > 0,
         "queue: " + std::to_string(*facts.queue_waiting) + " requests are waiting"});
  }
  if (facts.process_age_ns) {
    result.findings.push_back(
        {"process", false, "process: started " + FormatDuration(*facts.process_age_ns) + " ago"});
  }
  if (facts.swap_bytes.value_or(0) > 0) {
    result.findings.push_back(
        {"swap", true,
         "swap: " + FormatBytes(*facts.swap_bytes) + " of the server are swapped out"});
  }
  std::stable_sort(
      result.findings.begin(), result.findings.end(),
      [](const ServerFinding& a, const ServerFinding& b) { return a.cold && !b.cold; });
  const auto cold = std::count_if(result.findings.begin(), result.findings.end(),
                                  [](const ServerFinding& finding) { return finding.cold; });
  if (!facts.tells_state) {
    result.headline = "This server does not tell its state (" + facts.why_not + ").";
    result.cannot_tell.emplace_back("whether its model is loaded: only a request would tell");
  } else if (cold == 0) {
    result.headline = "Nothing is cold: the next request meets every layer warm.";
  } else {
    result.headline = "The next request meets " + std::to_string(cold) + " cold layer" +
                      (cold == 1 ? "" : "s") + ".";
  }
  if (facts.eta_first_token_ns) {
    result.headline +=
        " The server expects its first token after " + Ms(*facts.eta_first_token_ns) + ".";
  }
  result.cannot_tell.emplace_back(
      "what the prompt's prefix would hit, and what a layer costs here");
  result.next = {"No request was sent. This measures what each layer costs on this server:",
                 "rouse measure --target " + ShellQuoted(facts.url)};
  return result;
}

}  // namespace rouse::explain
