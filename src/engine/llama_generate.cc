// LlamaEngine::Generate(): prefix, prefill, and the loop of choosing, giving out and computing.
#include <algorithm>
#include <utility>

#include "engine/llama_engine.h"
#include "engine/sampler.h"
#include "engine/text_gate.h"

namespace rouse::engine {

struct LlamaEngine::Generation {
  const GenerateRequest& request;
  const Sink& sink;
  std::stop_token stop;
  Sampler sampler;
  TextGate gate;
  GenerateReport report;
  int64_t tokens_since_piece = 0;
  MonoTime sampled = {};
};

Status LlamaEngine::CheckRequest(const GenerateRequest& request) const {
  if (context_ == nullptr || tokenizer_ == nullptr || Facts()->tier != Tier::kReady) {
    return Error(ErrorCode::kState, options_.model_path + " is not loaded");
  }
  const int64_t count = std::ssize(request.prompt);
  if (count == 0) return Error(ErrorCode::kUsage, "the prompt is empty");
  if (count >= context_->tokens_limit()) {
    return Error(ErrorCode::kUsage, "the prompt has " + std::to_string(count) +
                                        " tokens, and the context has room " + "for " +
                                        std::to_string(context_->tokens_limit()) +
                                        " (prompt and answer together; rouse serve --context)");
  }
  for (const Token token : request.prompt) {
    if (token < 0 || token >= tokenizer_->size()) {
      return Error(ErrorCode::kUsage, "the prompt has token " + std::to_string(token) +
                                          ", and the model's tokens are 0 to " +
                                          std::to_string(tokenizer_->size() - 1));
    }
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty()) return Error(ErrorCode::kUsage, "a stop string is empty");
  }
  return {};
}

Result<GenerateReport> LlamaEngine::Generate(const GenerateRequest& request, const Sink& sink,
                                             std::stop_token stop) {
  GenerateReport report;
  report.start = MonoNow();
  WaitForLoad();
  RETURN_IF_ERROR(CheckRequest(request));
  std::vector<Token> banned = tokenizer_->SuppressedTokens();
  if (request.ignore_end) {
    const std::vector<Token>& ends = tokenizer_->EndTokens();
    banned.insert(banned.end(), ends.begin(), ends.end());
  }
  ASSIGN_OR_RETURN(Sampler sampler, Sampler::Make(request.sampling, std::move(banned)));
  report.seed = sampler.seed();
  report.prompt_tokens = std::ssize(request.prompt);
  Generation generation = {.request = request,
                           .sink = sink,
                           .stop = std::move(stop),
                           .sampler = std::move(sampler),
                           .gate = TextGate(request.stop),
                           .report = std::move(report),
                           .sampled = {}};

  const auto run = [&]() -> Status {
    ASSIGN_OR_RETURN(const bool complete, Prefill(generation));
    if (!complete) {
      generation.report.stop_reason = StopReason::kCancelled;
      return {};
    }
    return Answer(generation);
  };
  const Status status = run();
  if (!status.ok()) context_->Clear();
  const std::optional<int64_t> resident = ResidentBytes();
  const int64_t prefix_bytes = context_->StateBytes();
  Publish([&](EngineFacts& facts) {
    facts.prefix_tokens = std::ssize(context_->held());
    facts.prefix_bytes = prefix_bytes;
    facts.prefix_since = MonoNow();
    facts.ready_cost.process_bytes = resident;
  });
  if (!status.ok()) return status.error();
  generation.report.end = MonoNow();
  return std::move(generation.report);
}

// Keeps, or brings back, as much of the prompt as there is. Returns how many tokens.
int64_t LlamaEngine::ReusePrefix(Generation& generation) {
  if (!generation.request.cache_prompt) return context_->KeepPrefix(0);
  const std::vector<Token>& prompt = generation.request.prompt;
  int64_t common = CommonPrefix(prompt, context_->held());
  if (const KeptPrefix* kept = shelf_.Find(prompt, common)) {
    common =
        context_->RestoreState(kept->tokens, kept->state) ? CommonPrefix(prompt, kept->tokens) : 0;
  }
  // The last token is always computed: its output is what the answer begins with.
  return context_->KeepPrefix(std::min(common, std::ssize(prompt) - 1));
}

Result<bool> LlamaEngine::Prefill(Generation& generation) {
  GenerateReport& report = generation.report;
  const MonoTime start = MonoNow();
  const int64_t kept = ReusePrefix(generation);
  report.prefill_start = MonoNow();
  report.cached_tokens = kept;
  report.steps.push_back({Stage::kPrefill, "prefix", start, report.prefill_start, {}});
  const auto rest = std::span(generation.request.prompt).subspan(static_cast<size_t>(kept));
  ASSIGN_OR_RETURN(const bool complete, context_->Decode(rest, generation.stop));
  if (complete) {
    report.prefill_end = MonoNow();
    report.steps.push_back(
        {Stage::kPrefill, "prefill", report.prefill_start, *report.prefill_end, {}});
  }
  return complete;
}

Status LlamaEngine::Answer(Generation& generation) {
  GenerateReport& report = generation.report;
  const int64_t max_tokens = generation.request.max_tokens;
  report.stop_reason = StopReason::kLength;
  while (max_tokens < 0 || report.generated_tokens < max_tokens) {
    if (generation.stop.stop_requested()) {
      report.stop_reason = StopReason::kCancelled;
      break;
    }
    ASSIGN_OR_RETURN(const std::span<const float> logits, context_->Logits());
    ASSIGN_OR_RETURN(const Token token, generation.sampler.Sample(logits));
    generation.sampled = MonoNow();
    if (!report.first_token.has_value()) report.first_token = generation.sampled;
    ++report.generated_tokens;
    ++generation.tokens_since_piece;
    if (tokenizer_->EndsAnswer(token)) {
      report.stop_reason = StopReason::kEnd;
      break;
    }
    TextGate::Passed passed = generation.gate.Push(tokenizer_->AnswerBytes(token));
    const bool wanted = Deliver(generation, std::move(passed.text));
    if (passed.stopped_by.has_value()) {
      report.stop_reason = StopReason::kStopText;
      report.stop_text = *passed.stopped_by;
      break;
    }
    if (!wanted) {
      report.stop_reason = StopReason::kCancelled;
      break;
    }
    if (report.generated_tokens == max_tokens ||
        std::ssize(context_->held()) >= context_->tokens_limit()) {
      break;
    }
    ASSIGN_OR_RETURN(const bool complete, context_->Decode(std::span(&token, 1), generation.stop));
    if (!complete) {
      report.stop_reason = StopReason::kCancelled;
      break;
    }
  }
  if (report.stop_reason != StopReason::kCancelled) {
    Deliver(generation, generation.gate.Finish());
  }
  return {};
}

bool LlamaEngine::Deliver(Generation& generation, std::string_view text) {
  if (text.empty()) return true;
  const bool wanted = !generation.sink || generation.sink({.text = text,
                                                           .tokens = generation.tokens_since_piece,
                                                           .sampled = generation.sampled});
  if (!generation.report.first_piece.has_value()) generation.report.first_piece = MonoNow();
  generation.tokens_since_piece = 0;
  return wanted;
}

}  // namespace rouse::engine
