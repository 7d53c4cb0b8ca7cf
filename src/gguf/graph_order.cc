// GraphOrder: groups the tensors of a file by the step of a forward pass that needs them, going by
// the names that the GGUF specification gives them.
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "gguf/header.h"
#include "gguf/tensor_table.h"

namespace rouse::gguf {
namespace {

// Order of a group: the kind first, then the block's number.
enum Kind { kEmbedding, kBlock, kOutput, kOther };
using Place = std::pair<Kind, int64_t>;

std::optional<int64_t> BlockNumber(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end != name.data() + name.size() && *end == '.';
  return whole && number >= 0 ? std::optional(number) : std::nullopt;
}

Place PlaceOf(std::string_view name) {
  if (const std::optional<int64_t> block = BlockNumber(name)) return {kBlock, *block};
  for (const std::string_view prefix :
       {"token_embd", "position_embd", "token_types", "rope_", "per_layer_"}) {
    if (name.starts_with(prefix)) return {kEmbedding, 0};
  }
  for (const std::string_view prefix : {"output", "cls"}) {
    if (name.starts_with(prefix)) return {kOutput, 0};
  }
  return {kOther, 0};
}

std::string NameOf(const Place& place) {
  switch (place.first) {
    case kEmbedding:
      return "embedding";
    case kBlock:
      return "blk." + std::to_string(place.second);
    case kOutput:
      return "output";
    case kOther:
      break;
  }
  return "other";
}

void AddRange(Group& group, const Tensor& tensor, int64_t alignment) {
  if (tensor.bytes == 0) return;
  if (!group.ranges.empty()) {
    FileRange& last = group.ranges.back();
    if (tensor.offset <= AlignUp(last.offset + last.bytes, alignment)) {
      last.bytes = tensor.offset + tensor.bytes - last.offset;
      return;
    }
  }
  group.ranges.push_back({tensor.offset, tensor.bytes});
}

}  // namespace

std::vector<Group> GraphOrder(const Header& header) {
  std::map<Place, Group> groups;
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    const Tensor& tensor = header.tensors[i];
    Group& group = groups[PlaceOf(tensor.name)];
    group.tensors.push_back(i);
    group.bytes += tensor.bytes;
    AddRange(group, tensor, header.alignment);
  }
  std::vector<Group> ordered;
  ordered.reserve(groups.size());
  for (auto& [place, group] : groups) {
    group.name = NameOf(place);
    ordered.push_back(std::move(group));
  }
  return ordered;
}

}  // namespace rouse::gguf
