#include "lab/compile_cache_proof.h"

#include <string>
#include <variant>

#include "base/units.h"

namespace rouse::lab {

using results::LayerReading;
using results::LayerReadings;

void AddCompileCache(StateContext& context, const Condition& condition, bool before,
                     LayerReadings& readings) {
  const CompileCache* const cache = context.target.compile_cache();
  if (cache == nullptr) return;
  LayerReading& reading = readings[std::string(LayerName(Layer::kCompileCache))];
  reading.wanted = condition.Value(Layer::kCompileCache);
  reading.proof = "bytes in its directory";
  const Result<CompileCache::Contents> contents = cache->Read();
  if (!contents.ok()) {
    reading.detail = contents.error().message();
    if (before && reading.wanted == "empty") reading.reached = false;
    return;
  }
  reading.value = std::string(contents->bytes == 0 ? "empty" : "kept");
  reading.detail = FormatBytes(contents->bytes) + " in " + std::to_string(contents->files) +
                   " files of " + cache->directory();
  // An empty one that is "kept" is no failure: this server may compile nothing.
  if (before && reading.wanted == "empty") reading.reached = contents->bytes == 0;
}

void JudgeKeptCompileCache(const Preparation& preparation, const results::Attempt& attempt,
                           LayerReadings& readings) {
  if (attempt.prime) return;
  const auto after = readings.find(std::string(LayerName(Layer::kCompileCache)));
  const auto before = preparation.readings.find(std::string(LayerName(Layer::kCompileCache)));
  if (after == readings.end() || before == preparation.readings.end()) return;
  if (after->second.wanted != "kept") return;
  const std::string* const was = std::get_if<std::string>(&before->second.value);
  const std::string* const is = std::get_if<std::string>(&after->second.value);
  if (was == nullptr || is == nullptr || *was != "empty" || *is != "kept") return;
  after->second.reached = false;
  after->second.detail =
      "it was empty before the request, which has filled it: " + after->second.detail;
}

}  // namespace rouse::lab
