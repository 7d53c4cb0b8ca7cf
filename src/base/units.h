// Durations and byte counts as people write and read them. Inside the program both are int64_t, in
// nanoseconds and bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rouse {

// "250us", "1.5s", "10m", "8h", "0s": a number and a unit (ns, us, ms, s, m, min, h, d), at least
// 0 and at most about 292 years. A number without a unit is an error, as is anything after the
// unit.
Result<int64_t> ParseDuration(std::string_view text);

// "1048576", "64KiB", "1.5GB", "2g": bytes; KB, MB, GB are powers of 1000, KiB, MiB, GiB and the
// bare letters k, m, g powers of 1024.
Result<int64_t> ParseBytes(std::string_view text);

// Three significant digits with a unit for people: "24.1 ms", "1.31 s", "9 h 11 min".
std::string FormatDuration(int64_t ns);

// A duration that somebody wrote, as one would: in whole units, the largest that fit: "20 s",
// "90 s", "1 min", "8 h". FormatDuration() is for what was measured.
std::string FormatWrittenDuration(int64_t ns);

// The same as ParseDuration() reads it: "20s", "90s", "10min", "8h", "1500us".
std::string WriteDuration(int64_t ns);

// "1 condition", "2 conditions": a count of things whose plural takes an s.
std::string FormatCount(int64_t count, std::string_view singular);

// "98.4 MB" (powers of 1000, as disks are sold).
std::string FormatBytes(int64_t bytes);

// The next nearest of `choices` to `text` by edit distance, or "" when none is near enough to be
// meant. For "unknown flag --promt; did you mean --prompt?".
std::string NearestName(std::string_view text, const std::string_view* choices, size_t count);

template <typename Container>
std::string NearestName(std::string_view text, const Container& choices) {
  return NearestName(text, std::data(choices), std::size(choices));
}

}  // namespace rouse
