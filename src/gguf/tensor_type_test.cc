#include "gguf/tensor_type.h"

#include <ggml.h>
#include <gtest/gtest.h>

namespace rouse::gguf {
namespace {

TEST(FindTensorType, AgreesWithTheEngineOnEveryNumber) {
  int known = 0;
  for (uint32_t id = 0; id < GGML_TYPE_COUNT; ++id) {
    const auto engine_type = static_cast<ggml_type>(id);
    const TensorType* const type = FindTensorType(id);
    const int64_t engine_block = ggml_blck_size(engine_type);
    ASSERT_EQ(type == nullptr, engine_block == 0) << id;
    if (type == nullptr) continue;
    ++known;
    EXPECT_EQ(type->name, ggml_type_name(engine_type));
    EXPECT_EQ(type->block_elements, engine_block) << type->name;
    EXPECT_EQ(type->block_bytes, static_cast<int64_t>(ggml_type_size(engine_type))) << type->name;
  }
  EXPECT_EQ(known, 35);
}

TEST(FindTensorType, KnowsNoNumberBeyondTheTable) {
  EXPECT_EQ(FindTensorType(GGML_TYPE_COUNT), nullptr);
  EXPECT_EQ(FindTensorType(0xffffffffU), nullptr);
}

}  // namespace
}  // namespace rouse::gguf
