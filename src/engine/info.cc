// What `rouse --version` tells about the engine.
#include "engine/engine.h"
#include "engine/llama_runtime.h"
#include "llama.h"

namespace rouse::engine {

EngineInfo GetEngineInfo() {
  EnsureRuntime();
  EngineInfo info;
  info.name = "llama.cpp";
  info.version = llama_version();
  info.gpu_offload = llama_supports_gpu_offload();
  for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    info.backends.push_back(std::string(ggml_backend_dev_name(device)) + ": " +
                            ggml_backend_dev_description(device));
  }
  for (size_t i = 0; i < ggml_backend_reg_count(); ++i) {
    ggml_backend_reg_t registry = ggml_backend_reg_get(i);
    const auto get_features = reinterpret_cast<ggml_backend_get_features_t>(
        ggml_backend_reg_get_proc_address(registry, "ggml_backend_get_features"));
    if (get_features == nullptr) continue;
    for (ggml_backend_feature* feature = get_features(registry);
         feature != nullptr && feature->name != nullptr; ++feature) {
      const std::string value = feature->value == nullptr ? "" : feature->value;
      if (value == "0") continue;
      info.cpu_features.push_back(value == "1" ? feature->name
                                               : std::string(feature->name) + "=" + value);
    }
  }
  return info;
}

}  // namespace rouse::engine
