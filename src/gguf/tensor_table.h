// Sizes and places of tensors: the arithmetic, and the checks that hold them against the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/header.h"

namespace rouse::gguf {

// `alignment` is a power of two.
constexpr int64_t AlignUp(int64_t value, int64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

// Bytes of a tensor without padding; nullopt for a negative dimension, a row that is not whole
// blocks, or a size beyond 2^62.
std::optional<int64_t> TensorBytes(const std::vector<int64_t>& dims, const TensorType& type);

// "[2048, 512]"
std::string ShapeText(const std::vector<int64_t>& dims);

// Takes tensor offsets relative to the data section; checks alignment, the file's end, overlaps and
// unique names; makes offsets absolute and sorts the table by them.
Status PlaceTensors(Header& header);

}  // namespace rouse::gguf
