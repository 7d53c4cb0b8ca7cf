// LlamaEngine: load, unload, template, tokenizer and facts. Generate() is in llama_generate.cc.
//
// A load is two chains in parallel (engine.md): the tokenizer on a thread of its own, and
// header -> weights -> context -> template on the owner's. Both are done before Load() returns: a
// helper that still ran would take a core from the prefill, whose threads wait for each other
// spinning.
#include "engine/llama_engine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "engine/llama_runtime.h"
#include "gguf/split.h"

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

struct LlamaEngine::FileFacts {
  int64_t bytes = 0;  // of all parts
  std::string architecture;
  std::optional<std::string> name;
  int64_t vocabulary_tokens = 0;
  std::optional<std::string> chat_template;
  std::optional<std::string> tools_template;
};

// Steps come from two threads.
class LlamaEngine::StepLog {
 public:
  explicit StepLog(const StepObserver& observer) : observer_(observer) {}

  void Add(Stage stage, std::string name, MonoTime start, std::optional<int64_t> bytes = {}) {
    const Step step = {stage, std::move(name), start, MonoNow(), bytes};
    const std::lock_guard lock(mutex_);
    steps_.push_back(step);
    if (observer_) observer_(step);
  }

  std::vector<Step> Take() {
    std::sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) {
      return a.start != b.start ? a.start < b.start : a.end < b.end;
    });
    return std::move(steps_);
  }

 private:
  const StepObserver& observer_;
  std::mutex mutex_;
  std::vector<Step> steps_;
};

namespace {

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

LlamaEngine::LlamaEngine(EngineOptions options)
    : options_(std::move(options)), facts_(std::make_shared<EngineFacts>()) {
  Publish([](EngineFacts& facts) {
    const MonoTime now = MonoNow();
    facts.tokenizer.since = facts.weights.since = facts.context.since = facts.prefix_since = now;
  });
}

LlamaEngine::~LlamaEngine() = default;

std::shared_ptr<const EngineFacts> LlamaEngine::Facts() const {
  const std::lock_guard lock(facts_mutex_);
  return facts_;
}

void LlamaEngine::StartLoad(LoadOptions options) {
  loaded_ = RunLoad(std::move(options.stop), options.observer);
  if (options.done) options.done(*loaded_);
}

Result<LoadReport> LlamaEngine::FinishLoad() {
  if (!loaded_.has_value()) return Error(ErrorCode::kState, "no load was started");
  return *std::exchange(loaded_, std::nullopt);
}

Status LlamaEngine::Sleep() {
  return Error(ErrorCode::kUnsupported, "this build of the engine can't drop pages");
}

Result<std::string> LlamaEngine::Improve(std::stop_token /*stop*/) { return std::string(); }

Result<LoadReport> LlamaEngine::RunLoad(std::stop_token stop, const StepObserver& observer) {
  LoadReport report;
  report.start = MonoNow();
  report.tokenizer_kept = tokenizer_ != nullptr;
  StepLog log(observer);
  const MonoTime start = MonoNow();
  if (EnsureRuntime()) log.Add(Stage::kRuntimeInit, "backends", start);
  if (tokenizer_ == nullptr || weights_ == nullptr || context_ == nullptr) {
    RETURN_IF_ERROR(LoadParts(log, std::move(stop)));
  }
  report.split_tokenizer = !weights_->plain();
  report.steps = log.Take();
  report.end = MonoNow();
  return report;
}

Status LlamaEngine::LoadParts(StepLog& log, std::stop_token stop) {
  std::unique_ptr<Tokenizer> tokenizer;
  Status tokenizer_status;
  std::thread tokenizer_thread;
  if (tokenizer_ == nullptr && options_.split_tokenizer) {
    Publish([](EngineFacts& facts) { facts.tokenizer = {LayerState::kLoading, MonoNow(), {}}; });
    tokenizer_thread = std::thread([&] {
      const MonoTime start = MonoNow();
      Result<std::unique_ptr<Tokenizer>> loaded = Tokenizer::Load(options_.model_path);
      if (loaded.ok()) {
        tokenizer = std::move(loaded).value();
        log.Add(Stage::kTokenize, "tokenizer", start);
      } else {
        tokenizer_status = loaded.error();
      }
    });
  }

  const auto main_chain = [&]() -> Status {
    ASSIGN_OR_RETURN(const FileFacts file, ReadFile(log));
    RETURN_IF_ERROR(LoadWeights(file, log, stop));
    RETURN_IF_ERROR(MakeContext(log));
    return ParseTemplates(file, log);
  };
  Status status = main_chain();
  if (tokenizer_thread.joinable()) tokenizer_thread.join();
  if (tokenizer_ == nullptr) tokenizer_ = std::move(tokenizer);
  // The header's error says more than the library's about the same broken file.
  if (status.ok() && tokenizer_ == nullptr) {
    if (weights_->plain()) {
      Result<std::unique_ptr<Tokenizer>> shared = Tokenizer::FromPlainLoad(*weights_);
      if (!shared.ok()) {
        status = shared.error();
      } else {
        tokenizer_ = std::move(shared).value();
      }
    } else {
      status = tokenizer_status;
    }
  }
  if (status.ok() && stop.stop_requested()) {
    status = Error(ErrorCode::kInterrupted, "loading " + options_.model_path + " was stopped");
  }
  if (status.ok() && tokenizer_->size() != weights_->vocabulary_tokens()) {
    status = Error(ErrorCode::kCorrupt, options_.model_path + " changed while it was loaded");
    tokenizer_ = nullptr;
  }
  if (!status.ok()) DropWeights();
  Publish([&](EngineFacts& facts) {
    const LayerState state = tokenizer_ != nullptr ? LayerState::kReady : LayerState::kAbsent;
    if (facts.tokenizer.state != state) facts.tokenizer = {state, MonoNow(), {}};
    if (tokenizer_ != nullptr) facts.vocabulary_tokens = tokenizer_->size();
  });
  return status;
}

Result<LlamaEngine::FileFacts> LlamaEngine::ReadFile(StepLog& log) const {
  const MonoTime start = MonoNow();
  ASSIGN_OR_RETURN(const std::vector<gguf::Header> parts, gguf::ReadAllParts(options_.model_path));
  CHECK(!parts.empty());
  FileFacts file;
  for (const gguf::Header& part : parts) file.bytes += part.file_bytes;
  const gguf::Header& header = parts.front();
  RETURN_IF_ERROR(CheckNumbers(header));
  file.architecture = header.Architecture();
  file.name = header.FindString("general.name");
  file.vocabulary_tokens = header.VocabularySize();
  file.chat_template = header.FindString("tokenizer.chat_template");
  file.tools_template = header.FindString("tokenizer.chat_template.tool_use");
  log.Add(Stage::kWeights, "header", start, header.data_offset);
  return file;
}

Status LlamaEngine::LoadWeights(const FileFacts& file, StepLog& log, const std::stop_token& stop) {
  if (weights_ != nullptr) return {};
  Publish([](EngineFacts& facts) { facts.weights = {LayerState::kLoading, MonoNow(), {}}; });
  if (!options_.split_tokenizer) return LoadPlain(file, log, stop, "split_tokenizer is off");
  if (file.vocabulary_tokens == 0) {
    return LoadPlain(file, log, stop, "the file has no token array");
  }
  const MonoTime start = MonoNow();
  Weights::Options options = {.path = options_.model_path,
                              .architecture = file.architecture,
                              .vocabulary_tokens = file.vocabulary_tokens,
                              .gpu_layers = options_.gpu_layers,
                              .map_file = options_.map_file,
                              .repack = options_.repack == RepackMode::kOn};
  Result<std::unique_ptr<Weights>> loaded = Weights::Load(options, stop);
  if (!loaded.ok()) {
    if (loaded.error().code() == ErrorCode::kInterrupted) return loaded.error();
    // Some architecture may want its vocabulary after all; then the plain way works.
    return LoadPlain(file, log, stop, loaded.error().message());
  }
  weights_ = std::move(loaded).value();
  log.Add(Stage::kWeights, "weights", start, file.bytes);
  Publish([&](EngineFacts& facts) {
    facts.plain_load_reason.clear();
    facts.model_name = file.name;
    facts.architecture = file.architecture;
  });
  return {};
}

Status LlamaEngine::LoadPlain(const FileFacts& file, StepLog& log, const std::stop_token& stop,
                              const std::string& reason) {
  const MonoTime start = MonoNow();
  const Weights::Options options = {.path = options_.model_path,
                                    .architecture = file.architecture,
                                    .vocabulary_tokens = std::nullopt,
                                    .gpu_layers = options_.gpu_layers,
                                    .map_file = options_.map_file,
                                    .repack = options_.repack == RepackMode::kOn};
  ASSIGN_OR_RETURN(weights_, Weights::Load(options, stop));
  log.Add(Stage::kWeights, "weights", start, file.bytes);
  Publish([&](EngineFacts& facts) {
    facts.plain_load_reason = reason;
    facts.model_name = file.name;
    facts.architecture = file.architecture;
  });
  return {};
}

Status LlamaEngine::MakeContext(StepLog& log) {
  const Weights& weights = *weights_;
  Publish([&](EngineFacts& facts) {
    const std::optional<int64_t> mapped = weights.mapped_bytes();
    const std::optional<int64_t> own = weights.private_bytes();
    std::optional<int64_t> held;
    if (mapped && own) held = *mapped + *own;
    facts.weights = {LayerState::kReady, MonoNow(), held};
    facts.weights_mapped_bytes = mapped;
    facts.weights_private_bytes = own;
    facts.description = weights.description();
    facts.parameters = weights.parameters();
    facts.weights_bytes = weights.tensor_bytes();
    facts.trained_context_tokens = weights.trained_context_tokens();
    facts.embedding_length = weights.embedding_length();
    if (context_ == nullptr) facts.context = {LayerState::kLoading, MonoNow(), {}};
  });
  if (context_ != nullptr) return {};
  const MonoTime start = MonoNow();
  ASSIGN_OR_RETURN(context_, Context::Create(weights, options_));
  const Context& context = *context_;
  const std::optional<int64_t> kv = context.kv_bytes();
  const std::optional<int64_t> compute = context.compute_bytes();
  std::optional<int64_t> held;
  if (kv && compute) held = *kv + *compute;
  log.Add(Stage::kRuntimeInit, "context", start, held);
  Publish([&](EngineFacts& facts) {
    facts.context = {LayerState::kReady, MonoNow(), held};
    facts.context_tokens = context.tokens_limit();
    facts.threads = context.threads();
    facts.kv_bytes = kv;
    facts.compute_bytes = compute;
    facts.prefix_tokens = 0;
    facts.prefix_since = MonoNow();
  });
  return {};
}

// A template that can't be used does not fail the load: plain completions work without it.
Status LlamaEngine::ParseTemplates(const FileFacts& file, StepLog& log) {
  if (template_ != nullptr || !template_problem_.empty()) return {};
  const MonoTime start = MonoNow();
  const std::string& source =
      file.chat_template.has_value() ? *file.chat_template : ChatTemplate::DefaultSource();
  Result<std::unique_ptr<ChatTemplate>> parsed = ChatTemplate::Parse(source);
  if (parsed.ok()) {
    template_ = std::move(parsed).value();
  } else {
    template_problem_ = parsed.error().message();
  }
  if (file.tools_template.has_value()) {
    Result<std::unique_ptr<ChatTemplate>> tools = ChatTemplate::Parse(*file.tools_template);
    if (tools.ok()) tools_template_ = std::move(tools).value();
  }
  log.Add(Stage::kTokenize, "template", start);
  Publish([&](EngineFacts& facts) {
    facts.has_chat_template = file.chat_template.has_value() && template_ != nullptr;
  });
  return {};
}

void LlamaEngine::Unload() { DropWeights(); }

void LlamaEngine::DropWeights() {
  context_ = nullptr;
  // A tokenizer from a plain load would keep the weights in memory.
  if (tokenizer_ != nullptr && tokenizer_->shares_weights()) tokenizer_ = nullptr;
  weights_ = nullptr;
  Publish([&](EngineFacts& facts) {
    const MonoTime now = MonoNow();
    if (facts.weights.state != LayerState::kAbsent) facts.weights = {LayerState::kAbsent, now, {}};
    if (facts.context.state != LayerState::kAbsent) facts.context = {LayerState::kAbsent, now, {}};
    if (tokenizer_ == nullptr && facts.tokenizer.state == LayerState::kReady) {
      facts.tokenizer = {LayerState::kAbsent, now, {}};
    }
    if (facts.prefix_tokens != 0) facts.prefix_since = now;
    facts.prefix_tokens = 0;
    facts.context_tokens.reset();
    facts.threads.reset();
    facts.weights_mapped_bytes.reset();
    facts.weights_private_bytes.reset();
    facts.kv_bytes.reset();
    facts.compute_bytes.reset();
  });
}

Result<std::string> LlamaEngine::ApplyTemplate(std::string_view messages_json,
                                               const TemplateOptions& options) {
  if (tokenizer_ == nullptr) {
    return Error(ErrorCode::kState, options_.model_path + " has not been loaded yet");
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
  if (tokenizer_ == nullptr) {
    return Error(ErrorCode::kState, options_.model_path + " has not been loaded yet");
  }
  return tokenizer_->Tokenize(text, options);
}

}  // namespace rouse::engine
