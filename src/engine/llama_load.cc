// LlamaEngine's start plan: header, tokenizer, weights, context and template, each begun when what
// it needs is there (docs/decisions/0011-start-plan.md). Its threads are gone before FinishLoad()
// returns: a helper that still ran would take a core from the prefill, whose threads wait for each
// other spinning.
#include <algorithm>
#include <utility>

#include "engine/host.h"
#include "engine/llama_engine.h"
#include "engine/llama_runtime.h"
#include "engine/shared_tokenizers.h"
#include "gguf/split.h"

namespace rouse::engine {
namespace {

// The tokenizer beside all that hangs on the weights. The former has a helper of its own.
constexpr int kThreads = 2;

// Numbers that the library only checks on its threads of compute, where a failed check can't be
// turned into an error.
Status CheckNumbers(const gguf::Header& header) {
  for (const gguf::Entry& entry : header.metadata) {
    if (!entry.key.ends_with("epsilon")) continue;
    const std::optional<double> value = header.FindFloat(entry.key);
    if (value.has_value() && !(*value >= 0 && *value < 1e6)) {
      return Error(ErrorCode::kCorrupt,
                   header.path + ": " + entry.key + " is " + std::to_string(*value));
    }
  }
  return {};
}

}  // namespace

void LlamaEngine::StartLoad(LoadOptions options) {
  WaitForLoad();
  loaded_.reset();
  load_ = std::move(options);
  report_ = {};
  report_.start = MonoNow();
  report_.from = Facts()->tier;
  ForgetReplacedFile();
  if (!leading_.has_value()) leading_done_ = false;  // where memory was short, it may not be now
  report_.tokenizer_kept = tokenizer_ != nullptr;
  if (Wake()) return;
  if (weights_ == nullptr) {
    const bool repack = WantsRepackedNow(load_.prompt_tokens);
    // The layouts round differently: KV of the one is not what the other would have computed.
    if (repack != repack_) DropPrefixes();
    repack_ = repack;
    repack_tried_ = repack;
  }
  plan_ = std::make_unique<StartPlan>();
  AddParts();
  plan_->Start(kThreads, load_.stop, load_.observer,
               [this](const Status& status) { EndLoad(status); });
}

Result<LoadReport> LlamaEngine::FinishLoad() {
  WaitForLoad();
  if (!loaded_.has_value()) return Error(ErrorCode::kState, "no load was started");
  return *std::exchange(loaded_, std::nullopt);
}

// Frees what a failed load has made: here and not where it failed, since the owner may have been
// using the tokenizer meanwhile.
void LlamaEngine::WaitForLoad() {
  if (plan_ == nullptr) return;
  plan_->Join();
  plan_ = nullptr;
  if (loaded_.has_value() && loaded_->ok()) return;
  if (tokenizer_ != nullptr && weights_ != nullptr &&
      tokenizer_->size() != weights_->vocabulary_tokens()) {
    tokenizer_ = nullptr;
  }
  DropWeights();
}

void LlamaEngine::StopLoad() {
  if (plan_ == nullptr) return;
  plan_->RequestStop();
  WaitForLoad();
}

// What is kept of a file is worth nothing when another one has taken its place, and its mapping is
// a trap when it was cut.
void LlamaEngine::ForgetReplacedFile() {
  if (file_ == nullptr) return;
  for (size_t i = 0; i < identities_.size(); ++i) {
    if (IdentifyFile(file_->parts[i].path) == identities_[i]) continue;
    DropWeights();
    tokenizer_ = nullptr;
    template_ = nullptr;
    tools_template_ = nullptr;
    template_problem_.clear();
    DropPrefixes();
    leading_.reset();
    leading_done_ = false;
    file_ = nullptr;
    Publish([](EngineFacts& facts) {
      if (facts.tokenizer.state == LayerState::kReady) {
        facts.tokenizer = {LayerState::kAbsent, MonoNow(), {}};
      }
      facts.locked_bytes.reset();
      facts.locked_problem.clear();
      facts.repack_break_even_tokens.reset();
    });
    return;
  }
}

// True when nothing had to be loaded.
bool LlamaEngine::Wake() {
  if (tokenizer_ == nullptr || weights_ == nullptr || context_ == nullptr) return false;
  EndLoad({});
  return true;
}

void LlamaEngine::AddParts() {
  const auto add = [this](Stage stage, std::string name, std::vector<std::string> needs,
                          std::function<Bytes(const std::stop_token&)> run) {
    plan_->Add({stage, std::move(name), std::move(needs), std::move(run)});
  };
  tokenizer_status_ = {};
  if (!RuntimeIsReady()) {
    add(Stage::kRuntimeInit, "backends", {}, [](const std::stop_token&) {
      EnsureRuntime();
      return Bytes(std::nullopt);
    });
  }
  if (tokenizer_ == nullptr && options_.split_tokenizer) {
    Publish([](EngineFacts& facts) { facts.tokenizer = {LayerState::kLoading, MonoNow(), {}}; });
    // Where another engine may have the same one, it is worth while to look first.
    std::vector<std::string> needs = {"backends"};
    look_for_shared_ = SharedTokenizers::Instance().Any();
    if (look_for_shared_) needs.emplace_back("header");
    add(Stage::kTokenize, "tokenizer", std::move(needs),
        [this](const std::stop_token&) { return LoadTokenizer(); });
  }
  if (file_ == nullptr) {
    add(Stage::kWeights, "header", {}, [this](const std::stop_token&) { return ReadFile(); });
  }
  if (weights_ == nullptr) {
    add(Stage::kWeights, "weights", {"header", "backends"},
        [this](const std::stop_token& stop) { return LoadWeights(stop); });
  }
  if (context_ == nullptr) {
    add(Stage::kRuntimeInit, "context", {"weights"},
        [this](const std::stop_token&) { return MakeContext(); });
  }
  if (template_ == nullptr && template_problem_.empty()) {
    add(Stage::kTokenize, "template", {"header"},
        [this](const std::stop_token&) { return ParseTemplates(); });
  }
}

// Its failure is not the load's: a plain load may bring a tokenizer, and an error of the header
// says more about the same broken file.
LlamaEngine::Bytes LlamaEngine::LoadTokenizer() {
  SharedTokenizers& shared = SharedTokenizers::Instance();
  tokenizer_ = look_for_shared_ && file_ != nullptr ? shared.Find(file_->parts.front()) : nullptr;
  tokenizer_shared_ = tokenizer_ != nullptr;
  if (!tokenizer_shared_) {
    Result<std::unique_ptr<Tokenizer>> loaded = Tokenizer::Load(options_.model_path);
    if (!loaded.ok()) {
      tokenizer_status_ = loaded.error();
      return std::optional<int64_t>();
    }
    tokenizer_ = std::move(loaded).value();
  }
  Publish([&](EngineFacts& facts) {
    facts.tokenizer = {LayerState::kReady, MonoNow(), {}};
    facts.tokenizer_shared = tokenizer_shared_;
    facts.vocabulary_tokens = tokenizer_->size();
  });
  return std::optional<int64_t>();
}

LlamaEngine::Bytes LlamaEngine::ReadFile() {
  ASSIGN_OR_RETURN(std::vector<gguf::Header> parts, gguf::ReadAllParts(options_.model_path));
  CHECK(!parts.empty());
  auto file = std::make_unique<FileFacts>();
  identities_.clear();
  for (const gguf::Header& part : parts) {
    file->bytes += part.file_bytes;
    const std::optional<FileIdentity> identity = IdentifyFile(part.path);
    if (!identity.has_value()) return Error(ErrorCode::kNotFound, "no such file: " + part.path);
    identities_.push_back(*identity);
  }
  const gguf::Header& header = parts.front();
  RETURN_IF_ERROR(CheckNumbers(header));
  file->architecture = header.Architecture();
  file->name = header.FindString("general.name");
  file->vocabulary_tokens = header.VocabularySize();
  file->chat_template = header.FindString("tokenizer.chat_template");
  file->tools_template = header.FindString("tokenizer.chat_template.tool_use");
  const int64_t bytes = header.data_offset;
  file->parts = std::move(parts);
  file_ = std::move(file);
  return std::optional<int64_t>(bytes);
}

LlamaEngine::Bytes LlamaEngine::LoadWeights(const std::stop_token& stop) {
  Publish([](EngineFacts& facts) { facts.weights = {LayerState::kLoading, MonoNow(), {}}; });
  if (!options_.split_tokenizer) {
    RETURN_IF_ERROR(LoadWeightsPlainly(stop, "split_tokenizer is off"));
  } else if (file_->vocabulary_tokens == 0) {
    RETURN_IF_ERROR(LoadWeightsPlainly(stop, "the file has no token array"));
  } else {
    const Status apart = LoadWeightsApart(stop);
    if (!apart.ok()) {
      if (apart.error().code() != ErrorCode::kUnsupported) return apart.error();
      // Some architecture may want its vocabulary after all; then the plain way works.
      RETURN_IF_ERROR(LoadWeightsPlainly(stop, apart.error().message()));
    }
  }
  TellMappings();
  PublishWeights();
  return std::optional<int64_t>(file_->bytes);
}

Weights::Options LlamaEngine::WeightsOptions(bool plain, bool repack) const {
  Weights::Options options = {.path = options_.model_path,
                              .other_parts = {},
                              .architecture = file_->architecture,
                              .vocabulary_tokens = std::nullopt,
                              .gpu_layers = options_.gpu_layers,
                              .map_file = options_.map_file,
                              .repack = repack};
  if (!plain) options.vocabulary_tokens = file_->vocabulary_tokens;
  for (size_t i = 1; i < file_->parts.size(); ++i) {
    options.other_parts.push_back(file_->parts[i].path);
  }
  return options;
}

Status LlamaEngine::LoadWeightsApart(const std::stop_token& stop) {
  ASSIGN_OR_RETURN(weights_, Weights::Load(WeightsOptions(/*plain=*/false, repack_), stop));
  Publish([](EngineFacts& facts) { facts.plain_load_reason.clear(); });
  return {};
}

Status LlamaEngine::LoadWeightsPlainly(const std::stop_token& stop, const std::string& reason) {
  ASSIGN_OR_RETURN(weights_, Weights::Load(WeightsOptions(/*plain=*/true, repack_), stop));
  Publish([&](EngineFacts& facts) { facts.plain_load_reason = reason; });
  return {};
}

void LlamaEngine::TellMappings() {
  mappings_ = weights_->Mappings(file_->parts);
  PreferLargePages(mappings_);
  weights_->EndGuard();  // from here on it is the watcher who looks
  if (options_.watcher == nullptr || mappings_.empty()) return;
  mappings_told_ = true;
  options_.watcher->Mapped(mappings_);
}

void LlamaEngine::PublishWeights() {
  const Weights& weights = *weights_;
  Publish([&](EngineFacts& facts) {
    const std::optional<int64_t> mapped = weights.mapped_bytes();
    const std::optional<int64_t> own = weights.private_bytes();
    std::optional<int64_t> held;
    if (mapped && own) held = *mapped + *own;
    facts.model_name = file_->name;
    facts.architecture = file_->architecture;
    facts.weights = {LayerState::kReady, MonoNow(), held};
    facts.weights_mapped_bytes = mapped;
    facts.weights_private_bytes = own;
    facts.repacked = repack_ && own.value_or(0) > 0;
    facts.description = weights.description();
    facts.parameters = weights.parameters();
    facts.weights_bytes = weights.tensor_bytes();
    facts.trained_context_tokens = weights.trained_context_tokens();
    facts.embedding_length = weights.embedding_length();
  });
}

LlamaEngine::Bytes LlamaEngine::MakeContext() {
  Publish([](EngineFacts& facts) { facts.context = {LayerState::kLoading, MonoNow(), {}}; });
  ASSIGN_OR_RETURN(context_, Context::Create(*weights_, options_));
  PublishContext();
  return Facts()->context.bytes;
}

void LlamaEngine::PublishContext() {
  const Context& context = *context_;
  const std::optional<int64_t> kv = context.kv_bytes();
  const std::optional<int64_t> compute = context.compute_bytes();
  std::optional<int64_t> held;
  if (kv && compute) held = *kv + *compute;
  Publish([&](EngineFacts& facts) {
    facts.context = {LayerState::kReady, MonoNow(), held};
    facts.context_tokens = context.tokens_limit();
    facts.threads = context.threads();
    facts.flash_attention = context.flash_attention();
    facts.cache_type_k = context.cache_type_k();
    facts.cache_type_v = context.cache_type_v();
    facts.kv_bytes = kv;
    facts.compute_bytes = compute;
    facts.prefix_tokens = 0;
    facts.prefix_bytes.reset();
    facts.prefix_since = MonoNow();
  });
}

// A template that can't be used does not fail the load: plain completions work without it.
LlamaEngine::Bytes LlamaEngine::ParseTemplates() {
  const std::string& source =
      file_->chat_template.has_value() ? *file_->chat_template : ChatTemplate::DefaultSource();
  Result<std::unique_ptr<ChatTemplate>> parsed = ChatTemplate::Parse(source);
  if (parsed.ok()) {
    template_ = std::move(parsed).value();
  } else {
    template_problem_ = parsed.error().message();
  }
  if (file_->tools_template.has_value()) {
    Result<std::unique_ptr<ChatTemplate>> tools = ChatTemplate::Parse(*file_->tools_template);
    if (tools.ok()) tools_template_ = std::move(tools).value();
  }
  Publish([&](EngineFacts& facts) {
    facts.has_chat_template = file_->chat_template.has_value() && template_ != nullptr;
  });
  return std::optional<int64_t>();
}

// What no single part can tell.
Status LlamaEngine::CheckLoaded(const Status& status) {
  // A failure that came before the stop is no consequence of it.
  const bool failed = !status.ok() && status.error().code() != ErrorCode::kInterrupted;
  if (failed) return status;
  if (!status.ok() || load_.stop.stop_requested()) {
    return Error(ErrorCode::kInterrupted, "loading " + options_.model_path + " was stopped");
  }
  if (tokenizer_ == nullptr) {
    if (!weights_->plain()) return tokenizer_status_;
    ASSIGN_OR_RETURN(tokenizer_, Tokenizer::FromPlainLoad(*weights_));
  }
  for (size_t i = 0; i < identities_.size(); ++i) {
    if (IdentifyFile(file_->parts[i].path) == identities_[i]) continue;
    return Error(ErrorCode::kCorrupt, file_->parts[i].path + " changed while it was loaded");
  }
  if (tokenizer_->size() != weights_->vocabulary_tokens()) {
    return Error(ErrorCode::kCorrupt, options_.model_path + " changed while it was loaded");
  }
  return {};
}

void LlamaEngine::EndLoad(Status status) {
  if (plan_ != nullptr) {
    status = CheckLoaded(status);
    report_.steps = plan_->TakeSteps();
    ShareTokenizer(status.ok());
  }
  report_.end = MonoNow();
  if (status.ok()) {
    report_.split_tokenizer = !weights_->plain();
    EnterTier(Tier::kReady);
    loaded_ = report_;
  } else {
    loaded_ = status.error();
  }
  Publish([&](EngineFacts& facts) {
    const LayerState state = tokenizer_ != nullptr ? LayerState::kReady : LayerState::kAbsent;
    if (facts.tokenizer.state != state) facts.tokenizer = {state, MonoNow(), {}};
    if (tokenizer_ != nullptr) facts.vocabulary_tokens = tokenizer_->size();
  });
  if (const LoadDone done = std::exchange(load_.done, {})) done(*loaded_);
}

// Names a shared one as such, and lets others share one that this load made.
void LlamaEngine::ShareTokenizer(bool loaded) {
  for (Step& step : report_.steps) {
    if (step.name == "tokenizer" && tokenizer_shared_) step.name = "tokenizer (shared)";
  }
  if (!loaded || tokenizer_shared_ || report_.tokenizer_kept || tokenizer_->shares_weights())
    return;
  SharedTokenizers::Instance().Add(file_->parts.front(), identities_.front(), tokenizer_);
}

void LlamaEngine::EnterTier(Tier tier) {
  const std::optional<int64_t> resident = ResidentBytes();
  Publish([&](EngineFacts& facts) {
    if (tier == Tier::kReady && report_.from != Tier::kReady) {
      EngineFacts::TierCost& from =
          report_.from == Tier::kAsleep ? facts.asleep_cost : facts.unloaded_cost;
      from.wake_ns = report_.end - report_.start;
    }
    EngineFacts::TierCost& cost = tier == Tier::kReady    ? facts.ready_cost
                                  : tier == Tier::kAsleep ? facts.asleep_cost
                                                          : facts.unloaded_cost;
    cost.process_bytes = resident;
    if (facts.tier != tier) facts.tier_since = MonoNow();
    facts.tier = tier;
  });
}

}  // namespace rouse::engine
