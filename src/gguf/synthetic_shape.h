// Shapes of well-known small models, for synthetic files: dimensions, metadata keys and the list of
// tensors in the order in which a forward pass uses them. No weights, no vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/writer.h"

namespace rouse::gguf {

struct SyntheticShape {
  std::string_view name;           // as on the command line
  std::string_view description;    // for people
  std::string_view architecture;   // "llama" or "qwen2"
  std::string_view pre_tokenizer;  // the engine's name of the text splitter
  int64_t embedding = 0;
  int64_t blocks = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t feed_forward = 0;  // of one expert
  int64_t experts = 0;       // 0 = dense
  int64_t experts_used = 0;
  bool attention_bias = false;
  float rope_base = 10'000.0F;
  float norm_epsilon = 1e-5F;
  int64_t context = 0;  // trained length
};

std::span<const SyntheticShape> SyntheticShapes();

enum class WeightKind { kOnes, kRandom };

struct SyntheticTensor {
  std::string name;
  std::vector<int64_t> dims;  // dims[0] is the input length of the product
  uint32_t type = 0;
  WeightKind kind = WeightKind::kRandom;
};

// All tensors of the shape; matrices have type `matrix_type`, vectors are f32. The output matrix is
// the embedding (tied), as in the models that the shapes come from.
std::vector<SyntheticTensor> SyntheticTensors(const SyntheticShape& shape, uint32_t matrix_type,
                                              int64_t vocabulary_size);

// The "<architecture>.*" keys.
void AddShapeMetadata(const SyntheticShape& shape, int64_t vocabulary_size, Writer& writer);

}  // namespace rouse::gguf
