#include "gguf/tensor_type.h"

#include <array>

namespace rouse::gguf {
namespace {

// Bytes of a block, by its parts: h = 2-byte half-precision scale, then packed weights.
// Removed numbers (4, 5, 31-33, 36-38) are absent: no reader accepts them any more.
constexpr auto kTypes = std::to_array<TensorType>({
    {0, "f32", 1, 4},
    {1, "f16", 1, 2},
    {2, "q4_0", 32, 2 + 16},
    {3, "q4_1", 32, 2 + 2 + 16},
    {6, "q5_0", 32, 2 + 4 + 16},
    {7, "q5_1", 32, 2 + 2 + 4 + 16},
    {8, "q8_0", 32, 2 + 32},
    {9, "q8_1", 32, 2 + 2 + 32},
    {10, "q2_K", 256, 2 + 2 + 16 + 64},
    {11, "q3_K", 256, 2 + 64 + 32 + 12},
    {12, "q4_K", 256, 2 + 2 + 12 + 128},
    {13, "q5_K", 256, 2 + 2 + 12 + 128 + 32},
    {14, "q6_K", 256, 2 + 16 + 192},
    {15, "q8_K", 256, 4 + 256 + 32},
    {16, "iq2_xxs", 256, 2 + 64},
    {17, "iq2_xs", 256, 2 + 64 + 8},
    {18, "iq3_xxs", 256, 2 + 96},
    {19, "iq1_s", 256, 2 + 32 + 16},
    {20, "iq4_nl", 32, 2 + 16},
    {21, "iq3_s", 256, 2 + 104 + 4},
    {22, "iq2_s", 256, 2 + 64 + 16},
    {23, "iq4_xs", 256, 2 + 2 + 4 + 128},
    {24, "i8", 1, 1},
    {25, "i16", 1, 2},
    {26, "i32", 1, 4},
    {27, "i64", 1, 8},
    {28, "f64", 1, 8},
    {29, "iq1_m", 256, 32 + 16 + 8},
    {30, "bf16", 1, 2},
    {34, "tq1_0", 256, 2 + 4 + 48},
    {35, "tq2_0", 256, 2 + 64},
    {39, "mxfp4", 32, 1 + 16},
    {40, "nvfp4", 64, 4 + 32},
    {41, "q1_0", 128, 2 + 16},
    {42, "q2_0", 64, 2 + 16},
});

}  // namespace

const TensorType* FindTensorType(uint32_t id) {
  for (const TensorType& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

}  // namespace rouse::gguf
