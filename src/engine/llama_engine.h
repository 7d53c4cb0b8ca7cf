// LlamaEngine: Engine on llama.cpp's library. Private to src/engine; see engine.h for the contract.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/chat_template.h"
#include "engine/context.h"
#include "engine/engine.h"
#include "engine/model.h"

namespace rouse::engine {

class LlamaEngine final : public Engine {
 public:
  explicit LlamaEngine(EngineOptions options);
  ~LlamaEngine() override;

  void StartLoad(LoadOptions options) override;
  Result<LoadReport> FinishLoad() override;
  Status Sleep() override;
  void Unload() override;
  Result<std::string> Improve(std::stop_token stop) override;
  Result<std::string> ApplyTemplate(std::string_view messages_json,
                                    const TemplateOptions& options) override;
  Result<std::vector<Token>> Tokenize(std::string_view text,
                                      const TokenizeOptions& options) override;
  Result<GenerateReport> Generate(const GenerateRequest& request, const Sink& sink,
                                  std::stop_token stop) override;
  std::shared_ptr<const EngineFacts> Facts() const override;

 private:
  struct FileFacts;   // what the header told
  class StepLog;      // collects and passes on the steps of one Load()
  struct Generation;  // the state of one Generate()

  Result<LoadReport> RunLoad(std::stop_token stop, const StepObserver& observer);
  Result<FileFacts> ReadFile(StepLog& log) const;
  Status LoadParts(StepLog& log, std::stop_token stop);
  Status LoadWeights(const FileFacts& file, StepLog& log, const std::stop_token& stop);
  Status LoadPlain(const FileFacts& file, StepLog& log, const std::stop_token& stop,
                   const std::string& reason);
  Status MakeContext(StepLog& log);
  Status ParseTemplates(const FileFacts& file, StepLog& log);
  void DropWeights();

  Status CheckRequest(const GenerateRequest& request) const;
  Result<bool> Prefill(Generation& generation);
  Status Answer(Generation& generation);
  bool Deliver(Generation& generation, std::string_view text);

  // Applies `change` to a copy of the facts and publishes it.
  template <typename Change>
  void Publish(const Change& change);

  const EngineOptions options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> template_;        // null: not parsed yet, or unusable
  std::unique_ptr<ChatTemplate> tools_template_;  // the model's own one for requests with tools
  std::string template_problem_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Context> context_;  // destroyed before weights_
  std::optional<Result<LoadReport>> loaded_;

  mutable std::mutex facts_mutex_;  // held for the copy of a pointer only
  std::shared_ptr<const EngineFacts> facts_;
};

template <typename Change>
void LlamaEngine::Publish(const Change& change) {
  auto next = std::make_shared<EngineFacts>(*Facts());
  change(*next);
  const std::lock_guard lock(facts_mutex_);
  facts_ = std::move(next);
}

}  // namespace rouse::engine
