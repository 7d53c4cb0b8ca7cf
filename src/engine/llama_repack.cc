// LlamaEngine: the repacked layout, built while nobody waits. The mapped weights go on answering
// until the new ones are there and have been checked; both are in memory only meanwhile.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/units.h"
#include "engine/host.h"
#include "engine/llama_engine.h"

namespace rouse::engine {
namespace {

// Left free for everybody else when a second copy of the weights is made.
constexpr int64_t kReserveBytes = int64_t{512} << 20;
// Long enough that the layouts' speeds differ, short enough for an idle moment.
constexpr int64_t kProbeTokens = 32;
// Layouts round differently: logits that correlate less than this are not the same model's.
constexpr double kLeastCorrelation = 0.99;

struct Probe {
  std::vector<float> logits;
  int64_t duration_ns = 0;  // of the second of two equal prefills, whose pages are there
};

// Computes tokens that every vocabulary has, in a small context of its own. Empty: stopped.
Result<std::optional<Probe>> RunProbe(const Weights& weights, EngineOptions options,
                                      const std::stop_token& stop) {
  options.context_tokens = 2 * kProbeTokens;
  options.batch_tokens = kProbeTokens;
  ASSIGN_OR_RETURN(const std::unique_ptr<Context> context, Context::Create(weights, options));
  std::vector<Token> tokens(
      static_cast<size_t>(std::min(kProbeTokens, weights.vocabulary_tokens())));
  std::iota(tokens.begin(), tokens.end(), 0);
  Probe probe;
  for (int round = 0; round < 2; ++round) {
    context->Clear();
    const MonoTime start = MonoNow();
    ASSIGN_OR_RETURN(const bool complete, context->Decode(tokens, stop));
    if (!complete) return std::optional<Probe>();
    probe.duration_ns = MonoNow() - start;
  }
  ASSIGN_OR_RETURN(const std::span<const float> logits, context->Logits());
  probe.logits.assign(logits.begin(), logits.end());
  return std::optional<Probe>(std::move(probe));
}

// Pearson's, 0 where either holds something that is no number.
double Correlation(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || a.empty()) return 0;
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i] - mean_a;
    const double y = b[i] - mean_b;
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  const double correlation = ab / std::sqrt(aa * bb);
  return std::isfinite(correlation) ? correlation : 0;
}

}  // namespace

std::optional<int64_t> RepackBreakEven(int64_t build_ns, int64_t mapped_ns, int64_t repacked_ns,
                                       int64_t tokens) {
  if (build_ns <= 0 || tokens <= 0 || repacked_ns >= mapped_ns) return std::nullopt;
  const double saved = static_cast<double>(mapped_ns - repacked_ns) / static_cast<double>(tokens);
  return static_cast<int64_t>(std::ceil(static_cast<double>(build_ns) / saved));
}

bool LlamaEngine::WantsRepackedLater() const {
  return options_.repack == RepackMode::kAuto && !repack_tried_ && !mappings_.empty() &&
         context_ != nullptr && !weights_->plain() && Facts()->tier == Tier::kReady;
}

// Of RepackMode::kAuto, before a copy of so many bytes is made.
Status LlamaEngine::CheckRoomForRepacked(int64_t weights_bytes) const {
  const std::optional<int64_t> available = AvailableMemoryBytes(options_.system_root);
  const int64_t needed = weights_bytes + kReserveBytes;
  if (!available.has_value() || needed <= *available) return {};
  return Error(ErrorCode::kExhausted, "repacking would need " + FormatBytes(needed) + ", and " +
                                          FormatBytes(*available) + " are available");
}

Result<std::string> LlamaEngine::Repack(const std::stop_token& stop) {
  const Error stopped(ErrorCode::kInterrupted, "repacking was stopped");
  if (const Status room = CheckRoomForRepacked(weights_->tensor_bytes()); !room.ok()) {
    repack_tried_ = true;
    return room.error();
  }
  const MonoTime start = MonoNow();
  Result<std::unique_ptr<Weights>> loaded =
      Weights::Load(WeightsOptions(/*plain=*/false, /*repack=*/true), stop);
  const int64_t build_ns = MonoNow() - start;
  if (stop.stop_requested()) return stopped;
  repack_tried_ = true;  // unless it was stopped, once is enough
  RETURN_IF_ERROR(loaded.ok() ? Status() : Status(loaded.error()));
  std::unique_ptr<Weights> repacked = std::move(loaded).value();
  if (repacked->private_bytes().value_or(0) == 0) {
    return "no weight of this model has another layout for this processor";
  }
  ASSIGN_OR_RETURN(const std::optional<Probe> mapped_probe, RunProbe(*weights_, options_, stop));
  ASSIGN_OR_RETURN(const std::optional<Probe> probe, RunProbe(*repacked, options_, stop));
  if (!mapped_probe.has_value() || !probe.has_value()) {
    repack_tried_ = false;
    return stopped;
  }
  RETURN_IF_ERROR(repacked->CheckGuard());
  if (Correlation(mapped_probe->logits, probe->logits) < kLeastCorrelation) {
    return Error(ErrorCode::kInternal,
                 "the repacked weights compute something else than the mapped ones; not used");
  }
  const std::optional<int64_t> break_even =
      RepackBreakEven(build_ns, mapped_probe->duration_ns, probe->duration_ns, kProbeTokens);
  Publish([&](EngineFacts& facts) { facts.repack_break_even_tokens = break_even; });
  if (!break_even.has_value()) return "the repacked layout is no faster here; not used";
  return SwapIn(std::move(repacked), stop);
}

// Between requests: nobody computes. What was held is computed anew, since the layouts round
// differently, as long as nobody waits.
Result<std::string> LlamaEngine::SwapIn(std::unique_ptr<Weights> weights,
                                        const std::stop_token& stop) {
  ASSIGN_OR_RETURN(std::unique_ptr<Context> context, Context::Create(*weights, options_));
  const std::vector<Token> held = context_->held();
  DropPrefixes();
  DropContext();
  UnmapWeights();
  weights_ = std::move(weights);
  repack_ = true;
  TellMappings();
  PublishWeights();
  context_ = std::move(context);
  PublishContext();
  std::string told = "repacked " + FormatBytes(weights_->private_bytes().value_or(0));
  if (!held.empty()) {
    ASSIGN_OR_RETURN(const bool complete, context_->Decode(held, stop));
    told += complete ? ", and computed the prefix again" : "";
    Publish([&](EngineFacts& facts) { facts.prefix_tokens = std::ssize(context_->held()); });
  }
  EnterTier(Tier::kReady);
  return told;
}

}  // namespace rouse::engine
