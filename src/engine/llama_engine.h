// LlamaEngine: Engine on llama.cpp's library. Private to src/engine; see engine.h for the contract.
// Its parts: llama_engine.cc (template, tokenizer, facts), llama_load.cc (the start plan),
// llama_sleep.cc (sleep, unload, what is done when nobody waits), llama_repack.cc,
// llama_generate.cc.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/chat_template.h"
#include "engine/context.h"
#include "engine/engine.h"
#include "engine/model.h"
#include "engine/model_file.h"
#include "engine/prefix_shelf.h"
#include "engine/start_plan.h"

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
  struct Generation;  // the state of one Generate()
  using Bytes = Result<std::optional<int64_t>>;

  // The parts of a load, each on a thread of the plan.
  void AddParts();
  Bytes ReadFile();
  Bytes LoadTokenizer();
  Bytes LoadWeights(const std::stop_token& stop);
  Weights::Options WeightsOptions(bool plain, bool repack) const;
  Status LoadWeightsApart(const std::stop_token& stop);
  Status LoadWeightsPlainly(const std::stop_token& stop, const std::string& reason);
  void TellMappings();
  void PublishWeights();
  void PublishContext();
  Bytes MakeContext();
  Bytes ParseTemplates();

  // In the calling thread, before a plan is made.
  void ForgetReplacedFile();
  bool Wake();
  // On the plan's last thread.
  void EndLoad(Status status);
  Status CheckLoaded(const Status& status);
  void ShareTokenizer(bool loaded);
  void EnterTier(Tier tier);
  bool WantsRepackedNow(std::optional<int64_t> prompt_tokens) const;

  void WaitForTokenizer();
  Error NotThere() const;
  void WaitForLoad();
  void StopLoad();

  void DropWeights();
  void DropContext();
  void KeepPrefixes();
  void DropPrefixes();
  void UnmapWeights();
  Result<std::string> LockLeading(const std::stop_token& stop);
  bool WantsRepackedLater() const;
  Status CheckRoomForRepacked(int64_t weights_bytes) const;
  Result<std::string> Repack(const std::stop_token& stop);
  Result<std::string> SwapIn(std::unique_ptr<Weights> weights, const std::stop_token& stop);

  Status CheckRequest(const GenerateRequest& request) const;
  Result<bool> Prefill(Generation& generation);
  int64_t ReusePrefix(Generation& generation);
  Status Answer(Generation& generation);
  bool Deliver(Generation& generation, std::string_view text);

  // Applies `change` to a copy of the facts and publishes it. Any thread.
  template <typename Change>
  void Publish(const Change& change);

  const EngineOptions options_;
  // Written by the plan's parts, read by the owner when the part has ended.
  std::unique_ptr<FileFacts> file_;
  std::vector<FileIdentity> identities_;  // of the files that was made from
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool tokenizer_shared_ = false;  // another engine of this process had loaded it
  bool look_for_shared_ = false;   // this load does
  Status tokenizer_status_;
  std::unique_ptr<ChatTemplate> template_;        // null: not parsed yet, or unusable
  std::unique_ptr<ChatTemplate> tools_template_;  // the model's own one for requests with tools
  std::string template_problem_;
  std::unique_ptr<Weights> weights_;
  std::vector<FileMapping> mappings_;  // of weights_
  bool mappings_told_ = false;         // to the watcher
  std::unique_ptr<Context> context_;   // destroyed before weights_

  PrefixShelf shelf_;
  std::optional<LeadingLock> leading_;  // empty: not begun
  bool leading_done_ = false;

  LoadOptions load_;  // of the load that runs
  LoadReport report_;
  bool repack_ = false;        // this load's weights
  bool repack_tried_ = false;  // since the last load
  std::optional<Result<LoadReport>> loaded_;
  std::unique_ptr<StartPlan> plan_;  // while a load runs, and until it is joined

  mutable std::mutex facts_mutex_;
  std::shared_ptr<const EngineFacts> facts_;
};

// Prompt tokens from which repacking while loading pays: what the layout saves in a prefill of
// `tokens` tokens against what building it takes. Empty: never.
std::optional<int64_t> RepackBreakEven(int64_t build_ns, int64_t mapped_ns, int64_t repacked_ns,
                                       int64_t tokens);

struct LlamaEngine::FileFacts {
  std::vector<gguf::Header> parts;
  int64_t bytes = 0;  // of all parts
  std::string architecture;
  std::optional<std::string> name;
  int64_t vocabulary_tokens = 0;
  std::optional<std::string> chat_template;
  std::optional<std::string> tools_template;
};

template <typename Change>
void LlamaEngine::Publish(const Change& change) {
  const std::lock_guard lock(facts_mutex_);
  auto next = std::make_shared<EngineFacts>(*facts_);
  change(*next);
  facts_ = std::move(next);
}

}  // namespace rouse::engine
