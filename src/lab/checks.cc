#include "lab/checks.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/time.h"
#include "base/units.h"
#include "lab/timeline.h"

namespace rouse::lab {
namespace {

using results::Attempt;

void Warn(Attempt& attempt, std::string code, std::string message) {
  attempt.warnings.push_back({std::move(code), std::move(message)});
}

void CheckMarks(Attempt& attempt) {
  const results::Marks& marks = attempt.marks;
  const std::array<std::pair<const char*, results::OptionalNs>, 9> order = {
      {{"send_start", marks.send_start},
       {"connected", marks.connected},
       {"request_sent", marks.request_sent},
       {"response_headers", marks.response_headers},
       {"first_byte", marks.first_byte},
       {"first_event", marks.first_event},
       {"first_token", marks.first_token},
       {"last_token", marks.last_token},
       {"end", marks.end}}};
  const char* last_name = "";
  results::OptionalNs last;
  for (const auto& [name, mark] : order) {
    if (!mark) continue;
    if (last && *mark < *last) {
      Warn(attempt, "marks_out_of_order",
           std::string(name) + " (" + FormatDuration(*mark) + ") lies before " + last_name + " (" +
               FormatDuration(*last) + ")");
    }
    last = mark;
    last_name = name;
  }
}

// A token cannot come before the connection stood and its request had time to travel.
void CheckTtft(Attempt& attempt) {
  if (!attempt.ttft_ns) return;
  if (*attempt.ttft_ns <= 0) {
    Warn(attempt, "ttft_not_positive", "the first token came at or before the intended send");
  } else if (attempt.marks.connected && *attempt.ttft_ns <= *attempt.marks.connected) {
    Warn(attempt, "ttft_below_connect", "the first token came before the connection stood");
  }
}

std::optional<int64_t> ReadBytes(const Attempt& attempt) {
  const auto counter = attempt.counters.find("target_read_bytes");
  if (counter == attempt.counters.end() || !counter->second) return std::nullopt;
  const int64_t* const value = std::get_if<int64_t>(&*counter->second);
  return value == nullptr ? std::nullopt : std::optional<int64_t>(*value);
}

void CheckReads(const Condition& condition, std::optional<int64_t> file_bytes, Attempt& attempt) {
  const std::optional<int64_t> read = ReadBytes(attempt);
  if (!read || !file_bytes || *file_bytes <= 0 || !attempt.ttft_ns) return;
  const std::string& wanted = condition.Value(Layer::kPageCache);
  const std::string what = "the server read " + FormatBytes(*read) + " of the file's " +
                           FormatBytes(*file_bytes) + " from the disk";
  if ((wanted == "warm" || wanted == kLockedPages) && *read > *file_bytes / 100) {
    Warn(attempt, "read_with_warm_page_cache",
         what + " although the file was in the page cache: something else was cold");
  }
  if (wanted == "cold" && *read < *file_bytes / 2) {
    Warn(attempt, "no_read_with_cold_page_cache",
         what +
             ": it reads another file or another way (direct I/O, another process), or did not "
             "need the rest");
  }
}

void CheckStages(bool tells_timeline, Attempt& attempt) {
  if (!attempt.ttft_ns) return;
  const results::OptionalNs sum = StageSum(attempt.stages);
  if (sum != attempt.ttft_ns) {
    Warn(attempt, "stages_do_not_sum",
         "the stages sum to " + FormatDuration(sum.value_or(0)) + ", the TTFT is " +
             FormatDuration(*attempt.ttft_ns));
  }
  const results::OptionalNs rest =
      attempt.stages[static_cast<size_t>(results::Stage::kUnattributed)].ns;
  const int64_t bound = std::max<int64_t>(*attempt.ttft_ns / 50, kNsPerMs);
  if (tells_timeline && rest && *rest > bound) {
    Warn(attempt, "unattributed_large",
         FormatDuration(*rest) + " of " + FormatDuration(*attempt.ttft_ns) +
             " belong to no stage, more than 2 % or 1 ms");
  }
}

void CheckPrefix(const Condition& condition, Attempt& attempt) {
  if (condition.Value(Layer::kPrefixCache) != "empty") return;
  const auto reading = attempt.state_after.find(std::string(LayerName(Layer::kPrefixCache)));
  if (reading == attempt.state_after.end() || reading->second.reached.value_or(true)) return;
  Warn(attempt, "cached_tokens_with_empty_prefix",
       "the prefix cache was to be empty, but the answer reports " + reading->second.detail);
}

// An emptied cache of a server that compiles is filled by the answer.
void CheckCompileCache(const Condition& condition, Attempt& attempt) {
  if (condition.Value(Layer::kCompileCache) != "empty" || !attempt.ttft_ns) return;
  const auto reading = attempt.state_after.find(std::string(LayerName(Layer::kCompileCache)));
  if (reading == attempt.state_after.end()) return;
  const std::string* const value = std::get_if<std::string>(&reading->second.value);
  if (value == nullptr || *value != "empty") return;
  Warn(attempt, "compile_cache_unused",
       "the server has answered and written nothing into the directory that compile_cache_env "
       "names: it compiles nothing, or keeps it elsewhere; \"empty\" then changes nothing");
}

}  // namespace

void FlagImpossibleValues(const Condition& condition, std::optional<int64_t> file_bytes,
                          bool tells_timeline, Attempt& attempt) {
  CheckMarks(attempt);
  CheckTtft(attempt);
  CheckReads(condition, file_bytes, attempt);
  CheckStages(tells_timeline, attempt);
  CheckPrefix(condition, attempt);
  CheckCompileCache(condition, attempt);
}

}  // namespace rouse::lab
