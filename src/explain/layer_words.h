// The state layers as people read them: what each is called, which value has what the others lack,
// and what is said of a request that met one of those. The only table of these words: contrasts,
// causes, the terminal's ladder and the page take theirs from here.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace rouse::explain {

struct LayerWords {
  std::string_view layer;
  std::string_view warmer;  // the value that has what the others lack
  std::string_view colder;  // values that lack it, blank-separated
  // What is lost, as a thing that has a price: "loaded model +33 ms". "": nothing of the server's
  // is lost, something is added by others.
  std::string_view name;
  std::string_view lost;  // the same as a sentence: "the model was not loaded"
};

inline constexpr std::array<LayerWords, 8> kLayerWords{{
    {"connection", "reused", "fresh", "kept connection", "the connection was a new one"},
    {"prefix_cache", "hit", "empty", "prompt prefix", "the prompt's prefix was not cached"},
    {"model", "loaded", "asleep unloaded", "loaded model", "the model was not loaded"},
    {"process", "running", "new none", "process", "the server's process was new"},
    {"page_cache", "warm", "cold", "page cache", "the model's file was not in the page cache"},
    {"compile_cache", "kept", "empty", "compiled kernels", "the compiled kernels were gone"},
    {"memory_pressure", "none", "", "", "memory was short"},
    {"background", "none", "", "", "other work ran beside the request"},
}};

struct ValueWords {
  std::string_view layer;
  std::string_view value;
  std::string_view met;  // what a request met, where LayerWords::lost would say something else
};

inline constexpr std::array<ValueWords, 2> kValueWords{{
    {"model", "asleep", "the model was asleep"},
    {"page_cache", "locked", "the file's pages were locked in memory"},
}};

// "" where the layer's own words hold.
constexpr std::string_view MetWords(std::string_view layer, std::string_view value) {
  for (const ValueWords& row : kValueWords) {
    if (row.layer == layer && row.value == value) return row.met;
  }
  return "";
}

// Null for what is no layer ("idle", "prompt_tokens", several together).
constexpr const LayerWords* FindLayerWords(std::string_view layer) {
  const auto* const found = std::find_if(kLayerWords.begin(), kLayerWords.end(),
                                         [&](const LayerWords& row) { return row.layer == layer; });
  return found == kLayerWords.end() ? nullptr : found;
}

// Of a layer that is in the table.
constexpr std::string_view LostWords(std::string_view layer) { return FindLayerWords(layer)->lost; }

// Whether `value`, as it was read back, is one that lacks the layer.
constexpr bool IsColder(std::string_view layer, std::string_view value) {
  const LayerWords* const row = FindLayerWords(layer);
  if (row == nullptr || value.empty()) return false;
  for (std::string_view rest = row->colder; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == value) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

}  // namespace rouse::explain
