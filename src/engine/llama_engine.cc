// LlamaEngine: names, facts, template and tokenizer.
#include "engine/llama_engine.h"

#include <utility>

#include "base/check.h"

namespace rouse::engine {

std::string_view StopReasonName(StopReason reason) {
  switch (reason) {
    case StopReason::kEnd:
      return "end";
    case StopReason::kStopText:
      return "stop_text";
    case StopReason::kLength:
      return "length";
    case StopReason::kCancelled:
      return "cancelled";
  }
  CHECK(false);
}

std::string_view TierName(Tier tier) {
  switch (tier) {
    case Tier::kUnloaded:
      return "unloaded";
    case Tier::kAsleep:
      return "asleep";
    case Tier::kReady:
      return "ready";
  }
  CHECK(false);
}

std::string_view LayerStateName(LayerState state) {
  switch (state) {
    case LayerState::kAbsent:
      return "absent";
    case LayerState::kLoading:
      return "loading";
    case LayerState::kReady:
      return "ready";
  }
  CHECK(false);
}

LlamaEngine::LlamaEngine(EngineOptions options)
    : options_(std::move(options)),
      shelf_(options_.kept_prefix_bytes),
      facts_(std::make_shared<EngineFacts>()) {
  Publish([](EngineFacts& facts) {
    const MonoTime now = MonoNow();
    facts.tokenizer.since = facts.weights.since = facts.context.since = now;
    facts.prefix_since = facts.tier_since = now;
  });
}

LlamaEngine::~LlamaEngine() {
  StopLoad();
  DropContext();
  UnmapWeights();
}

std::shared_ptr<const EngineFacts> LlamaEngine::Facts() const {
  const std::lock_guard lock(facts_mutex_);
  return facts_;
}

// Returns when there is a tokenizer, or when it is sure that this load won't bring one.
void LlamaEngine::WaitForTokenizer() {
  if (plan_ == nullptr) return;
  plan_->WaitFor("tokenizer");
  // A plain load has it only at its end, and a failed part leaves none: then the load's end
  // decides.
  if (!tokenizer_status_.ok() || Facts()->tokenizer.state != LayerState::kReady) WaitForLoad();
}

// Why there is no tokenizer or template, once it is sure that there is none.
Error LlamaEngine::NotThere() const {
  if (loaded_.has_value() && !loaded_->ok()) {
    return Error(ErrorCode::kState, loaded_->error().message());
  }
  return Error(ErrorCode::kState, options_.model_path + " has not been loaded yet");
}

Result<std::string> LlamaEngine::ApplyTemplate(std::string_view messages_json,
                                               const TemplateOptions& options) {
  WaitForTokenizer();
  if (plan_ != nullptr) plan_->WaitFor("template");
  // A part that was skipped, since another one failed, leaves neither a template nor a problem.
  if (template_ == nullptr && template_problem_.empty()) WaitForLoad();
  if (tokenizer_ == nullptr || (template_ == nullptr && template_problem_.empty())) {
    return NotThere();
  }
  if (template_ == nullptr) return Error(ErrorCode::kUnsupported, template_problem_);
  const bool has_tools = !options.tools_json.empty() && tools_template_ != nullptr;
  const ChatTemplate& chosen = has_tools ? *tools_template_ : *template_;
  return chosen.Render(messages_json, options,
                       {.bos = tokenizer_->bos_text(),
                        .eos = tokenizer_->eos_text(),
                        .strip_bos = tokenizer_->adds_bos(),
                        .strip_eos = tokenizer_->adds_eos()});
}

Result<std::vector<Token>> LlamaEngine::Tokenize(std::string_view text,
                                                 const TokenizeOptions& options) {
  WaitForTokenizer();
  if (tokenizer_ == nullptr) return NotThere();
  return tokenizer_->Tokenize(text, options);
}

}  // namespace rouse::engine
