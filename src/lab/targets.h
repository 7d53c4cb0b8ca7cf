// The kinds of target: one table that says of each kind which layers it can set, how, and how that
// is proved. Plan checks, the state code, `rouse doctor` and the documents (docs/method.md) follow
// it; a new kind of server is one row here and, when it has calls of its own, one adapter in
// lab/managed_target.cc.
//
// No kind is ever detected by asking: a request could wake the server under test. What a server is
// has to be said, by `kind` in the plan or `--target KIND:URL`.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lab/layers.h"

namespace rouse::lab {

struct TargetLayer {
  std::string_view set;    // how; "" = only the default value
  std::string_view proof;  // what is read back; "" = nothing can
  std::string_view limit;  // what is not possible and why, or ""
};

struct TargetRow {
  TargetKind kind;
  std::string_view name;  // of `kind` in a plan, and of the prefix in "--target NAME:URL"
  std::string_view summary;
  // Whether rouse starts and ends its process.
  bool owns_process;
  // Whether it takes "cache_prompt": false, which forbids the prefix cache.
  bool takes_cache_prompt;
  // Most tokens that a prefix hit may evaluate again: the server's cache block.
  int block_tokens;
  std::array<TargetLayer, kLayerCount> layers;  // in the order of the enum

  const TargetLayer& On(Layer layer) const { return layers.at(static_cast<size_t>(layer)); }
  bool Sets(Layer layer) const { return !On(layer).set.empty(); }
};

std::span<const TargetRow> Targets();
const TargetRow& RowOf(TargetKind kind);
std::optional<TargetKind> TargetKindFromName(std::string_view name);
std::vector<std::string_view> TargetKindNames();

}  // namespace rouse::lab
