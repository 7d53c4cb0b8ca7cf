// Checks the options of an engine and makes it.
#include <limits>

#include "engine/llama_engine.h"
#include "llama.h"

namespace rouse::engine {
namespace {

Error Bad(const std::string& message) { return {ErrorCode::kUsage, message}; }

Status CheckOptions(const EngineOptions& options) {
  if (options.model_path.empty()) return Bad("--model is missing");
  if (options.context_tokens < 0 || options.context_tokens > std::numeric_limits<int32_t>::max()) {
    return Bad("--context must be 0 (as long as the model was trained for) to 2147483647");
  }
  if (options.threads < 0 || options.threads > GGML_MAX_N_THREADS) {
    return Bad("--threads must be 0 (one per core) to " + std::to_string(GGML_MAX_N_THREADS));
  }
  if (options.batch_tokens < 1 || options.batch_tokens > 65536) {
    return Bad("--batch must be 1 to 65536");
  }
  for (const auto& [flag, type] : {std::pair("--cache-type-k", &options.cache_type_k),
                                   std::pair("--cache-type-v", &options.cache_type_v)}) {
    if (!IsCacheType(*type)) {
      return Bad(std::string(flag) + " " + *type +
                 " is none of f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl");
    }
  }
  const bool plain_v = options.cache_type_v == "f16" || options.cache_type_v == "f32" ||
                       options.cache_type_v == "bf16";
  if (!plain_v && options.flash_attention == FlashAttention::kOff) {
    return Bad("--cache-type-v " + options.cache_type_v + " needs --flash-attn on or auto");
  }
  if (options.gpu_layers < -1) return Bad("--gpu-layers must be -1 (all) or more");
  if (options.gpu_layers != 0 && !llama_supports_gpu_offload()) {
    return Bad("--gpu-layers must be 0: this build of the engine has no GPU backend");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Engine>> MakeLlamaEngine(EngineOptions options) {
  RETURN_IF_ERROR(CheckOptions(options));
  return std::unique_ptr<Engine>(std::make_unique<LlamaEngine>(std::move(options)));
}

}  // namespace rouse::engine
