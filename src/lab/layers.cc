#include "lab/layers.h"

#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "base/units.h"

namespace rouse::lab {
namespace {

// One row per layer.
constexpr std::array<LayerRow, kLayerCount> kLayers{{
    {.layer = Layer::kConnection,
     .name = "connection",
     .words = "fresh reused",
     .extra = "",
     .default_value = "fresh"},
    {.layer = Layer::kPrefixCache,
     .name = "prefix_cache",
     .words = "empty hit",
     .extra = "",
     .default_value = "empty"},
    {.layer = Layer::kModel,
     .name = "model",
     .words = "loaded asleep unloaded",
     .extra = "",
     .default_value = "loaded"},
    {.layer = Layer::kProcess,
     .name = "process",
     .words = "running new",
     .extra = "",
     .default_value = "running"},
    {.layer = Layer::kPageCache,
     .name = "page_cache",
     .words = "warm cold locked",
     .extra = "or the resident share of the leading part, such as 0.5",
     .default_value = "warm"},
    {.layer = Layer::kCompileCache,
     .name = "compile_cache",
     .words = "kept empty",
     .extra = "",
     .default_value = "kept"},
    {.layer = Layer::kMemoryPressure,
     .name = "memory_pressure",
     .words = "none",
     .extra = "or the bytes that a ballast process holds, such as \"2GiB\"",
     .default_value = "none"},
    {.layer = Layer::kBackground,
     .name = "background",
     .words = "none cpu disk requests model",
     .extra = "",
     .default_value = "none"},
}};

Error BadValue(const LayerRow& row, std::string_view text) {
  std::vector<std::string_view> words = SplitAt(row.words, ' ');
  std::string expected;
  for (const std::string_view word : words) {
    if (!expected.empty()) expected += " or ";
    expected += "\"" + std::string(word) + "\"";
  }
  if (!row.extra.empty()) expected += ", " + std::string(row.extra);
  std::string message = "layer \"" + std::string(row.name) + "\" has no value \"" +
                        std::string(text) + "\"; expected " + expected;
  const std::string nearest = NearestName(text, words);
  if (!nearest.empty()) message += " (did you mean \"" + nearest + "\"?)";
  return Error(ErrorCode::kUsage, message);
}

std::optional<double> ParseShare(std::string_view text) {
  double share = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, share);
  if (status != std::errc() || rest != end || !(share >= 0) || share > 1) return std::nullopt;
  return share;
}

std::string ShortestNumber(double value) {
  std::array<char, 32> text{};
  const auto [end, status] = std::to_chars(text.data(), text.data() + text.size(), value);
  CHECK(status == std::errc());
  return {text.data(), end};
}

}  // namespace

std::span<const LayerRow> Layers() { return kLayers; }

const LayerRow& RowOf(Layer layer) {
  const LayerRow& row = kLayers[static_cast<size_t>(layer)];
  CHECK(row.layer == layer);
  return row;
}

std::string_view LayerName(Layer layer) { return RowOf(layer).name; }

std::optional<Layer> LayerFromName(std::string_view name) {
  for (const LayerRow& row : kLayers) {
    if (row.name == name) return row.layer;
  }
  return std::nullopt;
}

Result<std::string> NormalizeLayerValue(Layer layer, std::string_view text) {
  const LayerRow& row = RowOf(layer);
  for (const std::string_view word : SplitAt(row.words, ' ')) {
    if (word == text) return std::string(text);
  }
  if (layer == Layer::kPageCache) {
    const std::optional<double> share = ParseShare(text);
    if (!share) return BadValue(row, text);
    if (*share == 0) return std::string("cold");
    if (*share == 1) return std::string("warm");
    return ShortestNumber(*share);
  }
  if (layer == Layer::kMemoryPressure) {
    const Result<int64_t> bytes = ParseBytes(text);
    if (!bytes.ok()) return BadValue(row, text);
    return *bytes == 0 ? std::string("none") : std::to_string(*bytes);
  }
  return BadValue(row, text);
}

double WantedPageCacheShare(std::string_view value) {
  if (value == "warm" || value == kLockedPages) return 1;
  if (value == "cold") return 0;
  const std::optional<double> share = ParseShare(value);
  CHECK(share.has_value());
  return *share;
}

}  // namespace rouse::lab
