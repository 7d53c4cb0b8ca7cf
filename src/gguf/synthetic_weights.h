// Random weights, quickly: bytes of a tensor that the engine reads as small finite numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rouse::gguf {

// Blocks are filled whole: f32, f16, q4_0 and q8_0.
bool CanFill(uint32_t type);

// Fills `bytes` (whole blocks of `type`) with random weights of mean about 0 and standard deviation
// about `deviation`; the block at `first_block` of the tensor begins at bytes[0]. What a block
// holds depends on seed and block number alone. 3-5 GB/s on one core.
void FillRandom(uint32_t type, double deviation, uint64_t seed, int64_t first_block,
                std::span<std::byte> bytes);

// IEEE half precision, rounded to nearest; for values from 2^-24 to 65504.
uint16_t HalfFromFloat(float value);

}  // namespace rouse::gguf
