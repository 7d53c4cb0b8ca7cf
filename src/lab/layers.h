// The state layers that an experiment can set: one table with every layer's name and values. Which
// kinds of target can set a layer, and how that is proved, is the table in lab/targets.h. The plan
// parser, the state code and `rouse doctor` all read these two; nothing else lists layers.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rouse::lab {

// Rows of the table in lab/targets.cc, in its order.
enum class TargetKind { kBuiltin, kCommand, kUrl, kLlamaServer, kOllama, kLlamaSwap, kVllm };
std::string_view TargetKindName(TargetKind kind);  // "builtin", "command", "url", "ollama"

enum class Layer {
  kConnection,
  kPrefixCache,
  kModel,
  kProcess,
  kPageCache,
  kCompileCache,
  kMemoryPressure,
  kBackground,
};
inline constexpr int kLayerCount = 8;

struct LayerRow {
  Layer layer;
  std::string_view name;
  // The values that are words, separated by blanks. A layer may accept more (see extra).
  std::string_view words;
  // What else is accepted, in words for an error message, or "".
  std::string_view extra;
  // The value that a root condition has when it does not name this layer.
  std::string_view default_value;
};

// In the order of the enum, which is the order in which a person reads them.
std::span<const LayerRow> Layers();
const LayerRow& RowOf(Layer layer);
std::string_view LayerName(Layer layer);
std::optional<Layer> LayerFromName(std::string_view name);

// Whether targets of this kind can set the layer away from its default (lab/targets.h).
bool CanSet(const LayerRow& row, TargetKind kind);

// The value in its stored form ("warm", "0.5", "268435456"), or the sentence "expected ..." as an
// error of kUsage. `text` is what the plan says (a number is passed as its shortest text).
Result<std::string> NormalizeLayerValue(Layer layer, std::string_view text);

// A value of page_cache: warm, and held there by a process of ours that has the pages locked.
inline constexpr std::string_view kLockedPages = "locked";

// "warm" and "locked" -> 1, "cold" -> 0, "0.5" -> 0.5: the wanted resident share of the file.
double WantedPageCacheShare(std::string_view value);

}  // namespace rouse::lab
