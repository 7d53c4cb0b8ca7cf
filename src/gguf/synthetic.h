// Writes a whole synthetic model: a file of a real model's shape, quantization and vocabulary size,
// with random weights. It loads and decodes like the real one and takes the same time and memory;
// what it says is noise. For measuring, where a real model of that size is not at hand.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rouse::gguf {

struct SyntheticSpec {
  std::string like = "llama-1b";    // a name of SyntheticShapes()
  std::string quant = "q4_0";       // q4_0, q8_0 or f16
  std::string vocabulary = "128k";  // 128k or 32k
  uint64_t seed = 1;
};

struct SyntheticReport {
  int64_t file_bytes = 0;
  int64_t parameters = 0;  // weights in all tensors
  int64_t vocabulary_size = 0;
  int64_t duration_ns = 0;  // of writing and syncing the tensor data
};

// Tensor bytes written so far and in all.
using SyntheticProgressFn = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

// The same spec gives the same bytes everywhere. The file appears only when it is whole and on
// disk. kUsage for an unknown name (with the nearest one), kIo for a full disk (file and bytes),
// kInterrupted when cancelled; nothing is left behind then.
Result<SyntheticReport> WriteSynthetic(const std::string& path, const SyntheticSpec& spec,
                                       const SyntheticProgressFn& progress = {},
                                       const std::atomic<bool>* cancel = nullptr);

}  // namespace rouse::gguf
