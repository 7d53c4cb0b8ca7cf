// Small synthetic models of several shapes, for tests: they load and compute like real ones, what
// they say is noise. 2 to 10 MB each.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "gguf/synthetic_shape.h"
#include "gguf/synthetic_vocabulary.h"
#include "gguf/synthetic_weights.h"
#include "gguf/tensor_table.h"
#include "gguf/writer.h"

namespace rouse::engine {

inline std::vector<gguf::SyntheticShape> SmallShapes() {
  gguf::SyntheticShape llama = {.name = "llama",
                                .description = "llama-shaped",
                                .architecture = "llama",
                                .pre_tokenizer = "llama-bpe",
                                .embedding = 256,
                                .blocks = 3,
                                .heads = 4,
                                .kv_heads = 2,
                                .head_dim = 64,
                                .feed_forward = 512,
                                .context = 4096};
  gguf::SyntheticShape qwen = llama;
  qwen.name = "qwen";
  qwen.architecture = "qwen2";
  qwen.pre_tokenizer = "qwen2";
  qwen.attention_bias = true;
  gguf::SyntheticShape moe = llama;
  moe.name = "moe";
  moe.experts = 4;
  moe.experts_used = 2;
  return {llama, qwen, moe};
}

// The file's path; the caller removes it.
inline std::string WriteSmallModel(const gguf::SyntheticShape& shape,
                                   uint32_t type = gguf::kTypeQ4_0) {
  const std::string path = testing::TempDir() + "rouse-small-" + std::string(shape.name) + "-" +
                           std::to_string(getpid()) + ".gguf";
  constexpr int64_t kTokens = 2048;
  constexpr uint64_t kSeed = 3;
  gguf::Writer writer(path);
  writer.AddString("general.architecture", shape.architecture);
  writer.AddString("general.name", shape.description);
  writer.AddUint32("general.file_type", type == gguf::kTypeQ4_0 ? 2 : 1);
  gguf::AddShapeMetadata(shape, kTokens, writer);
  gguf::AddVocabularyMetadata(gguf::MakeVocabulary(kTokens, kSeed), shape.pre_tokenizer, writer);
  const std::vector<gguf::SyntheticTensor> tensors = gguf::SyntheticTensors(shape, type, kTokens);
  for (const gguf::SyntheticTensor& tensor : tensors) {
    writer.AddTensor(tensor.name, tensor.dims, tensor.type);
  }
  EXPECT_TRUE(writer.BeginData().ok());
  uint64_t seed = kSeed;
  for (const gguf::SyntheticTensor& tensor : tensors) {
    const int64_t bytes = *gguf::TensorBytes(tensor.dims, *gguf::FindTensorType(tensor.type));
    std::vector<std::byte> data(static_cast<size_t>((bytes + 31) / 32 * 32));
    const std::span<std::byte> whole = std::span(data).first(static_cast<size_t>(bytes));
    if (tensor.kind == gguf::WeightKind::kOnes) {
      const float one = 1;
      for (size_t i = 0; i < whole.size(); i += sizeof one)
        std::memcpy(&whole[i], &one, sizeof one);
    } else {
      gguf::FillRandom(tensor.type, 0.06, seed++, 0, whole);
    }
    EXPECT_TRUE(writer.WriteData(data).ok());
  }
  EXPECT_TRUE(writer.Finish().ok());
  return path;
}

}  // namespace rouse::engine
