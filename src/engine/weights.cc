// Weights: the computing half of a model file.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

#include "engine/llama_runtime.h"
#include "engine/model.h"
#include "llama.h"
#if ROUSE_ENGINE_EDITS
#include "rouse-edits.h"
#endif

// Of the library's inside: all tensors of a model by name. Weak, since only static builds are sure
// to show it.
[[gnu::weak]] const std::vector<std::pair<std::string, ggml_tensor*>>&
// NOLINTNEXTLINE(readability-identifier-naming)
llama_internal_get_tensor_map(const llama_model* model);

namespace rouse::engine {
namespace {

// While it lives, headers are read without the vocabulary's arrays, where the library can.
class VocabularySkipped {
 public:
#if ROUSE_ENGINE_EDITS
  explicit VocabularySkipped(bool skip) { rouse_skip_vocabulary(skip); }
  ~VocabularySkipped() { rouse_skip_vocabulary(false); }
#else
  explicit VocabularySkipped(bool /*skip*/) {}
  ~VocabularySkipped() = default;
#endif
  VocabularySkipped(const VocabularySkipped&) = delete;
  VocabularySkipped& operator=(const VocabularySkipped&) = delete;
};

constexpr int64_t kPageBytes = 4096;

// One file's tensors in memory: all at one distance from where they are in the file, or not mapped.
struct Placement {
  const std::byte* file_start = nullptr;
  int64_t first = 0;
  int64_t last = 0;

  bool Add(const std::byte* data, const gguf::Tensor& tensor) {
    const std::byte* const start = data - tensor.offset;
    if (file_start == nullptr) {
      *this = {start, tensor.offset, tensor.offset + tensor.bytes};
      return reinterpret_cast<uintptr_t>(start) % kPageBytes == 0;
    }
    first = std::min(first, tensor.offset);
    last = std::max(last, tensor.offset + tensor.bytes);
    return start == file_start;
  }
};

// Fills one override; the list ends with one whose key is empty. False: does not fit.
bool SetKey(llama_model_kv_override& entry, const std::string& key) {
  if (key.size() >= sizeof entry.key) return false;
  std::memcpy(entry.key, key.c_str(), key.size() + 1);
  return true;
}

bool FillOverrides(const Weights::Options& options,
                   std::array<llama_model_kv_override, 3>& overrides) {
  overrides = {};
  overrides[0].tag = LLAMA_KV_OVERRIDE_TYPE_STR;
  constexpr std::string_view kNoVocabulary = "no_vocab";
  std::memcpy(overrides[0].val_str, kNoVocabulary.data(), kNoVocabulary.size());
  overrides[1].tag = LLAMA_KV_OVERRIDE_TYPE_INT;
  overrides[1].val_i64 = *options.vocabulary_tokens;
  return SetKey(overrides[0], "tokenizer.ggml.model") &&
         SetKey(overrides[1], options.architecture + ".vocab_size");
}

// "135M", "1.2B": parameters as people name them.
std::string ShortCount(int64_t count) {
  std::array<char, 32> text{};
  const double n = static_cast<double>(count);
  if (count >= 10'000'000'000) {
    std::snprintf(text.data(), text.size(), "%.0fB", n / 1e9);
  } else if (count >= 1'000'000'000) {
    std::snprintf(text.data(), text.size(), "%.1fB", n / 1e9);
  } else {
    std::snprintf(text.data(), text.size(), "%.0fM", n / 1e6);
  }
  return text.data();
}

// The library calls back before it reads a tensor, and when all are there.
struct Progress {
  std::stop_token stop;
  std::unique_ptr<LoadGuard> guard;  // null: nothing is read from a mapping
};

std::unique_ptr<LoadGuard> GuardFor(const Weights::Options& options) {
  if (!options.map_file || (!options.repack && options.gpu_layers == 0)) return nullptr;
  std::vector<std::string> paths = options.other_parts;
  paths.push_back(options.path);
  return std::make_unique<LoadGuard>(std::move(paths));
}

// What this engine can't do with a model, or "".
std::string Unusable(const llama_model* model) {
  if (!llama_model_has_decoder(model)) return "it has no decoder, so it can't generate text";
  if (llama_model_has_encoder(model)) return "encoder-decoder models are not supported";
  if (llama_model_is_diffusion(model)) return "diffusion models are not supported";
  return "";
}

}  // namespace

Weights::Weights(std::shared_ptr<llama_model> model) : model_(std::move(model)) {}

Result<std::unique_ptr<Weights>> Weights::Load(const Options& options, std::stop_token stop) {
  const LogCollector log;
  const std::string what = "cannot load " + options.path + ": ";
  try {
    const AbortGuard guard;
    const VocabularySkipped skipped(options.vocabulary_tokens.has_value());
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = options.gpu_layers;
    params.load_mode = options.map_file ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE;
    params.use_extra_bufts = options.repack;
    Progress progress = {.stop = std::move(stop), .guard = GuardFor(options)};
    params.progress_callback = [](float, void* user) {
      const auto* const one = static_cast<const Progress*>(user);
      if (one->guard != nullptr) one->guard->Look();
      return !one->stop.stop_requested();
    };
    params.progress_callback_user_data = &progress;
    std::array<llama_model_kv_override, 3> overrides;
    if (options.vocabulary_tokens.has_value()) {
      if (!FillOverrides(options, overrides)) {
        return Error(ErrorCode::kUnsupported, what + "its architecture's name is too long");
      }
      params.kv_overrides = overrides.data();
    }
    std::shared_ptr<llama_model> model(llama_model_load_from_file(options.path.c_str(), params),
                                       [](llama_model* m) { llama_model_free(m); });
    if (progress.guard != nullptr) {
      progress.guard->LookAgain();
      if (const Status whole = progress.guard->Check(); !whole.ok()) {
        progress.guard = nullptr;  // before what it guards is unmapped
        return whole.error();
      }
    }
    if (model == nullptr) {
      if (progress.stop.stop_requested()) {
        return Error(ErrorCode::kInterrupted, "loading " + options.path + " was stopped");
      }
      return LoadError(what, log.Reason("no reason given"));
    }
    if (const std::string reason = Unusable(model.get()); !reason.empty()) {
      return Error(ErrorCode::kUnsupported, what + reason);
    }
    std::unique_ptr<Weights> weights(new Weights(std::move(model)));
    weights->guard_ = std::move(progress.guard);
    weights->path_ = options.path;
    weights->plain_ = !options.vocabulary_tokens.has_value();
    if (const std::optional<int64_t> all = log.BufferBytes("model")) {
      weights->mapped_bytes_ = log.BufferBytes("model", "Mapped").value_or(0);
      weights->private_bytes_ = *all - *weights->mapped_bytes_;
    }
    return weights;
  } catch (const std::exception& e) {
    return LoadError(what, e.what());
  }
}

std::vector<FileMapping> Weights::Mappings(const std::vector<gguf::Header>& parts) const {
  if (llama_internal_get_tensor_map == nullptr) return {};
  std::map<std::string_view, std::pair<size_t, const gguf::Tensor*>> in_files;
  for (size_t part = 0; part < parts.size(); ++part) {
    for (const gguf::Tensor& tensor : parts[part].tensors) in_files[tensor.name] = {part, &tensor};
  }
  std::vector<Placement> placements(parts.size());
  for (const auto& [name, tensor] : llama_internal_get_tensor_map(model_.get())) {
    const auto found = in_files.find(name);
    if (found == in_files.end() || tensor->buffer == nullptr || tensor->data == nullptr) continue;
    if (!std::string_view(ggml_backend_buffer_name(tensor->buffer)).ends_with("_Mapped")) continue;
    const auto& [part, in_file] = found->second;
    if (!placements[part].Add(static_cast<const std::byte*>(tensor->data), *in_file)) return {};
  }
  std::vector<FileMapping> mappings;
  for (size_t part = 0; part < parts.size(); ++part) {
    const Placement& placed = placements[part];
    if (placed.file_start == nullptr) continue;
    // The library unmaps what lies before the first and behind the last tensor, in whole pages.
    const int64_t begin = placed.first / kPageBytes * kPageBytes;
    const int64_t end =
        std::min((placed.last + kPageBytes - 1) / kPageBytes * kPageBytes, parts[part].file_bytes);
    mappings.push_back({.path = parts[part].path,
                        .address = placed.file_start + begin,
                        .file_offset = begin,
                        .bytes = end - begin});
  }
  return mappings;
}

int64_t Weights::vocabulary_tokens() const {
  return llama_vocab_n_tokens(llama_model_get_vocab(model_.get()));
}
int64_t Weights::trained_context_tokens() const { return llama_model_n_ctx_train(model_.get()); }
int64_t Weights::layers() const { return llama_model_n_layer(model_.get()); }
int64_t Weights::embedding_length() const { return llama_model_n_embd(model_.get()); }
int64_t Weights::parameters() const {
  return static_cast<int64_t>(llama_model_n_params(model_.get()));
}
int64_t Weights::tensor_bytes() const {
  return static_cast<int64_t>(llama_model_size(model_.get()));
}
// Not llama_model_desc(): that one guesses a size class from the number of layers.
std::string Weights::description() const {
  std::array<char, 128> arch{};
  llama_model_meta_val_str(model_.get(), "general.architecture", arch.data(), arch.size());
  return std::string(arch.data()) + " " + ShortCount(parameters()) + " " +
         llama_ftype_name(llama_model_ftype(model_.get()));
}
bool Weights::state_is_recurrent() const {
  return llama_model_is_recurrent(model_.get()) || llama_model_is_hybrid(model_.get());
}
int64_t Weights::sliding_window_tokens() const { return llama_model_n_swa(model_.get()); }

}  // namespace rouse::engine
