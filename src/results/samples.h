// What the operating system told again and again while one attempt ran: totals over time, and which
// parts of the model file were in the page cache. In an attempt it stands as its JSON text
// (`Attempt::samples_json`), since a report of ten thousand attempts looks into few of them; this
// is its typed form. docs/results_format.md has the fields, docs/method.md how they are taken.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rouse::results {

struct Samples {
  // When each was taken, ascending, relative to the intended send time. The first is from before
  // it, the last from after the end of the answer.
  std::vector<int64_t> at_ns;
  // Row of the metric catalogue -> growth since the first sample, one value for each of `at_ns`.
  std::map<std::string, std::vector<std::optional<int64_t>>, std::less<>> totals;
  // For each of `at_ns` one digit for each equal part of the model file, its first byte first:
  // 0 none of the pages that were looked at is resident, 9 all, between them the nearest of 1 to 8.
  // Empty as a whole where it could not be read.
  std::vector<std::string> page_cache;
};

// The share of the file that one text of `page_cache` tells; 0 for an empty one.
double ResidentShare(std::string_view strip);

// One line. A page_cache text that equals the one before it is written as "".
std::string SamplesJson(const Samples& samples);

// kUsage for what is not such an object: other types, lists of unequal length, times that go back.
Result<Samples> ParseSamples(std::string_view json);

}  // namespace rouse::results
