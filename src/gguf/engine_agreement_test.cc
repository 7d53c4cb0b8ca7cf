// The engine's own GGUF reader as a second implementation: both must tell the same of a real model
// (where there is one) and of files that our writer made.
#include <gguf.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "gguf/header.h"
#include "gguf/test_bytes.h"
#include "gguf/writer.h"

namespace rouse::gguf {
namespace {

struct FreeGguf {
  void operator()(gguf_context* context) const { gguf_free(context); }
};
using EngineFile = std::unique_ptr<gguf_context, FreeGguf>;

EngineFile EngineRead(const std::string& path) {
  return EngineFile(gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
}

void ExpectSameEntry(const Entry& entry, const gguf_context* engine, int64_t id) {
  SCOPED_TRACE(entry.key);
  const gguf_type type = gguf_get_kv_type(engine, id);
  ASSERT_EQ(static_cast<uint32_t>(entry.type), static_cast<uint32_t>(type));
  if (type == GGUF_TYPE_ARRAY) {
    EXPECT_EQ(static_cast<uint64_t>(entry.count), gguf_get_arr_n(engine, id));
    EXPECT_EQ(static_cast<uint32_t>(entry.element_type),
              static_cast<uint32_t>(gguf_get_arr_type(engine, id)));
  } else if (type == GGUF_TYPE_STRING) {
    EXPECT_EQ(std::get<std::string>(entry.value), gguf_get_val_str(engine, id));
  } else if (type == GGUF_TYPE_UINT32) {
    EXPECT_EQ(std::get<uint64_t>(entry.value), gguf_get_val_u32(engine, id));
  } else if (type == GGUF_TYPE_FLOAT32) {
    EXPECT_EQ(std::get<double>(entry.value), static_cast<double>(gguf_get_val_f32(engine, id)));
  } else if (type == GGUF_TYPE_BOOL) {
    EXPECT_EQ(std::get<bool>(entry.value), gguf_get_val_bool(engine, id));
  }
}

void ExpectSame(const std::string& path) {
  const Result<Header> header = ReadHeader(path);
  ASSERT_TRUE(header.ok()) << header.error().message();
  const EngineFile engine = EngineRead(path);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(header->version, gguf_get_version(engine.get()));
  EXPECT_EQ(static_cast<size_t>(header->alignment), gguf_get_alignment(engine.get()));
  EXPECT_EQ(static_cast<size_t>(header->data_offset), gguf_get_data_offset(engine.get()));
  ASSERT_EQ(static_cast<int64_t>(header->metadata.size()), gguf_get_n_kv(engine.get()));
  for (const Entry& entry : header->metadata) {
    const int64_t id = gguf_find_key(engine.get(), entry.key.c_str());
    ASSERT_GE(id, 0) << entry.key;
    ExpectSameEntry(entry, engine.get(), id);
  }
  ASSERT_EQ(static_cast<int64_t>(header->tensors.size()), gguf_get_n_tensors(engine.get()));
  for (const Tensor& tensor : header->tensors) {
    const int64_t id = gguf_find_tensor(engine.get(), tensor.name.c_str());
    ASSERT_GE(id, 0) << tensor.name;
    EXPECT_EQ(static_cast<size_t>(tensor.offset - header->data_offset),
              gguf_get_tensor_offset(engine.get(), id));
    EXPECT_EQ(static_cast<size_t>(tensor.bytes), gguf_get_tensor_size(engine.get(), id));
    EXPECT_EQ(tensor.type->id, static_cast<uint32_t>(gguf_get_tensor_type(engine.get(), id)));
  }
}

TEST(EngineAgreement, OnTheDefaultModel) {
  const char* const home = std::getenv("HOME");
  const char* const cache = std::getenv("ROUSE_CACHE");
  const std::string folder = cache != nullptr ? cache : std::string(home) + "/.cache/rouse";
  const std::string path = folder + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not there (./dev run fetches it)";
  ExpectSame(path);
}

TEST(EngineAgreement, OnAFileOfOurWriter) {
  const TestFolder folder;
  const std::string path = folder.path() + "/m.gguf";
  Writer writer(path);
  writer.AddString("general.architecture", "llama");
  writer.AddUint32("llama.block_count", 2);
  writer.AddFloat32("eps", 1e-5F);
  writer.AddBool("flag", true);
  writer.AddStrings("tokens", std::vector<std::string>{"a", "", "ccc"});
  writer.AddInts("types", std::vector<int32_t>{1, -2, 3});
  writer.AddTensor("token_embd.weight", {64, 7}, kTypeQ8_0);
  writer.AddTensor("blk.0.attn_q.weight", {256, 3, 2}, kTypeQ6_K);
  writer.AddTensor("output_norm.weight", {5}, kTypeF32);
  ASSERT_TRUE(writer.BeginData().ok());
  const std::vector<std::byte> data(static_cast<size_t>(writer.DataBytes()));
  ASSERT_TRUE(writer.WriteData(data).ok());
  ASSERT_TRUE(writer.Finish().ok());
  ExpectSame(path);
}

TEST(EngineAgreement, TheEngineRefusesWhatWeRefuse) {
  const TestFolder folder;
  TestBytes overlap;
  overlap.Head(2, 0).TensorRow("a", {16}, 0, 0).TensorRow("b", {8}, 0, 32).PadTo(32).Zeros(64);
  const std::string whole = SoundFile().str();
  for (const std::string& bytes :
       {overlap.str(), whole.substr(0, 60), std::string("<html>"), std::string("GGUF")}) {
    const std::string path = folder.Write("m.gguf", bytes);
    EXPECT_FALSE(ReadHeader(path).ok());
    EXPECT_EQ(EngineRead(path), nullptr);
  }
}

}  // namespace
}  // namespace rouse::gguf
