// The tensor types that a GGUF file can name: how many weights one block holds, and its bytes.
// Source: the public GGUF specification and ggml's type table (ggml 0.5.0); tensor_type_test.cc
// and the cross-check with the engine's reader hold the two equal. No arithmetic on weights here.
#pragma once

#include <cstdint>
#include <string_view>

namespace rouse::gguf {

struct TensorType {
  uint32_t id = 0;        // as it stands in the file
  std::string_view name;  // "q4_0"
  int64_t block_elements = 1;
  int64_t block_bytes = 0;
};

inline constexpr uint32_t kTypeF32 = 0;
inline constexpr uint32_t kTypeF16 = 1;
inline constexpr uint32_t kTypeQ4_0 = 2;
inline constexpr uint32_t kTypeQ8_0 = 8;
inline constexpr uint32_t kTypeQ6_K = 14;

// The type with this number, or nullptr when there is none, or when it was removed from GGUF.
const TensorType* FindTensorType(uint32_t id);

}  // namespace rouse::gguf
