#include "gguf/synthetic_shape.h"

#include <array>

namespace rouse::gguf {
namespace {

// Dimensions: the published configurations of Llama 3.2 1B and 3B and of Qwen2.5 0.5B. The mixture
// has no model behind it; it is Mixtral's layout (8 experts, 2 used) at a size for two cores. The
// tiny one is for tests.
constexpr auto kShapes = std::to_array<SyntheticShape>({
    {.name = "llama-1b",
     .description = "Llama 3.2 1B",
     .architecture = "llama",
     .pre_tokenizer = "llama-bpe",
     .embedding = 2048,
     .blocks = 16,
     .heads = 32,
     .kv_heads = 8,
     .head_dim = 64,
     .feed_forward = 8192,
     .rope_base = 500'000.0F,
     .norm_epsilon = 1e-5F,
     .context = 131'072},
    {.name = "llama-3b",
     .description = "Llama 3.2 3B",
     .architecture = "llama",
     .pre_tokenizer = "llama-bpe",
     .embedding = 3072,
     .blocks = 28,
     .heads = 24,
     .kv_heads = 8,
     .head_dim = 128,
     .feed_forward = 8192,
     .rope_base = 500'000.0F,
     .norm_epsilon = 1e-5F,
     .context = 131'072},
    {.name = "qwen-0.5b",
     .description = "Qwen2.5 0.5B",
     .architecture = "qwen2",
     .pre_tokenizer = "qwen2",
     .embedding = 896,
     .blocks = 24,
     .heads = 14,
     .kv_heads = 2,
     .head_dim = 64,
     .feed_forward = 4864,
     .attention_bias = true,
     .rope_base = 1'000'000.0F,
     .norm_epsilon = 1e-6F,
     .context = 32'768},
    {.name = "moe-small",
     .description = "a mixture of 8 experts, 2 used",
     .architecture = "llama",
     .pre_tokenizer = "llama-bpe",
     .embedding = 1024,
     .blocks = 12,
     .heads = 16,
     .kv_heads = 4,
     .head_dim = 64,
     .feed_forward = 2048,
     .experts = 8,
     .experts_used = 2,
     .rope_base = 500'000.0F,
     .norm_epsilon = 1e-5F,
     .context = 32'768},
    {.name = "tiny",
     .description = "a model for tests",
     .architecture = "llama",
     .pre_tokenizer = "llama-bpe",
     .embedding = 256,
     .blocks = 2,
     .heads = 4,
     .kv_heads = 2,
     .head_dim = 64,
     .feed_forward = 512,
     .context = 4096},
});

void AddBlock(const SyntheticShape& shape, int64_t index, uint32_t matrix_type,
              std::vector<SyntheticTensor>& tensors) {
  const std::string prefix = "blk." + std::to_string(index) + ".";
  const int64_t query = shape.heads * shape.head_dim;
  const int64_t key = shape.kv_heads * shape.head_dim;
  const auto matrix = [&](const char* name, std::vector<int64_t> dims) {
    tensors.push_back({prefix + name + ".weight", std::move(dims), matrix_type});
  };
  const auto projection = [&](const char* name, int64_t width) {
    matrix(name, {shape.embedding, width});
    if (shape.attention_bias) tensors.push_back({prefix + name + ".bias", {width}, kTypeF32});
  };
  const auto norm = [&](const char* name) {
    tensors.push_back({prefix + name + ".weight", {shape.embedding}, kTypeF32, WeightKind::kOnes});
  };
  norm("attn_norm");
  projection("attn_q", query);
  projection("attn_k", key);
  projection("attn_v", key);
  matrix("attn_output", {query, shape.embedding});
  norm("ffn_norm");
  if (shape.experts == 0) {
    matrix("ffn_gate", {shape.embedding, shape.feed_forward});
    matrix("ffn_up", {shape.embedding, shape.feed_forward});
    matrix("ffn_down", {shape.feed_forward, shape.embedding});
    return;
  }
  tensors.push_back({prefix + "ffn_gate_inp.weight", {shape.embedding, shape.experts}, kTypeF32});
  matrix("ffn_gate_exps", {shape.embedding, shape.feed_forward, shape.experts});
  matrix("ffn_up_exps", {shape.embedding, shape.feed_forward, shape.experts});
  matrix("ffn_down_exps", {shape.feed_forward, shape.embedding, shape.experts});
}

}  // namespace

std::span<const SyntheticShape> SyntheticShapes() { return kShapes; }

std::vector<SyntheticTensor> SyntheticTensors(const SyntheticShape& shape, uint32_t matrix_type,
                                              int64_t vocabulary_size) {
  std::vector<SyntheticTensor> tensors;
  tensors.push_back({"token_embd.weight", {shape.embedding, vocabulary_size}, matrix_type});
  for (int64_t i = 0; i < shape.blocks; ++i) AddBlock(shape, i, matrix_type, tensors);
  tensors.push_back({"output_norm.weight", {shape.embedding}, kTypeF32, WeightKind::kOnes});
  return tensors;
}

void AddShapeMetadata(const SyntheticShape& shape, int64_t vocabulary_size, Writer& writer) {
  const std::string prefix = std::string(shape.architecture) + ".";
  const auto add = [&](const char* key, int64_t value) {
    writer.AddUint32(prefix + key, static_cast<uint32_t>(value));
  };
  add("context_length", shape.context);
  add("embedding_length", shape.embedding);
  add("block_count", shape.blocks);
  add("feed_forward_length", shape.feed_forward);
  add("attention.head_count", shape.heads);
  add("attention.head_count_kv", shape.kv_heads);
  add("attention.key_length", shape.head_dim);
  add("attention.value_length", shape.head_dim);
  add("rope.dimension_count", shape.head_dim);
  add("vocab_size", vocabulary_size);
  writer.AddFloat32(prefix + "rope.freq_base", shape.rope_base);
  writer.AddFloat32(prefix + "attention.layer_norm_rms_epsilon", shape.norm_epsilon);
  if (shape.experts == 0) return;
  add("expert_count", shape.experts);
  add("expert_used_count", shape.experts_used);
}

}  // namespace rouse::gguf
