#include "gguf/tensor_table.h"

#include <algorithm>
#include <string_view>
#include <tuple>

namespace rouse::gguf {
namespace {

Error Corrupt(const Header& header, const std::string& sentence) {
  return {ErrorCode::kCorrupt, header.path + " " + sentence};
}

Status CheckNamesAreUnique(const Header& header) {
  std::vector<std::string_view> names;
  names.reserve(header.tensors.size());
  for (const Tensor& tensor : header.tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return {};
  return Corrupt(header, "is damaged in its header: tensor \"" + std::string(*twice) +
                             "\" stands there twice");
}

}  // namespace

std::optional<int64_t> TensorBytes(const std::vector<int64_t>& dims, const TensorType& type) {
  // 2^62 leaves room for adding an offset and padding.
  constexpr int64_t kLimit = int64_t{1} << 62;
  if ((dims.empty() ? 1 : dims[0]) % type.block_elements != 0) return std::nullopt;
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) return std::nullopt;
    if (dim > 0 && elements > kLimit / dim) return std::nullopt;
    elements *= dim;
  }
  const int64_t blocks = elements / type.block_elements;
  if (blocks > kLimit / type.block_bytes) return std::nullopt;
  return blocks * type.block_bytes;
}

std::string ShapeText(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (const int64_t dim : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + "]";
}

Status PlaceTensors(Header& header) {
  if (header.tensors.empty()) return {};
  RETURN_IF_ERROR(CheckNamesAreUnique(header));
  std::ranges::sort(header.tensors, [](const Tensor& a, const Tensor& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  // Offsets are at most 2^61 and sizes at most 2^62: sums do not overflow.
  int64_t needed_bytes = header.data_offset;
  for (Tensor& tensor : header.tensors) {
    if (tensor.offset % header.alignment != 0) {
      return Corrupt(header, "is damaged in its header: tensor \"" + tensor.name +
                                 "\" begins at byte " + std::to_string(tensor.offset) +
                                 " of the tensor data, which is not a multiple of " +
                                 std::to_string(header.alignment));
    }
    tensor.offset += header.data_offset;
    if (tensor.offset < needed_bytes && tensor.bytes > 0) {
      return Corrupt(header, "is damaged in its header: tensor \"" + tensor.name +
                                 "\" overlaps the one before it");
    }
    needed_bytes = std::max(needed_bytes, tensor.offset + tensor.bytes);
  }
  if (needed_bytes > header.file_bytes) {
    return Corrupt(header, "is cut off: its tensors need " + std::to_string(needed_bytes) +
                               " bytes, the file has " + std::to_string(header.file_bytes));
  }
  return {};
}

}  // namespace rouse::gguf
