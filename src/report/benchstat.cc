// Format: "Go Benchmark Data Format" (golang.org/design/14313-benchmark-format). Lines that are
// neither a benchmark nor "key: value" are ignored by its readers: they hold what it cannot say.
#include "report/benchstat.h"

#include <map>
#include <set>

#include "base/terminal_text.h"
#include "report/sample.h"

namespace rouse::report {
namespace {

using results::Attempt;

// One word; the format gives '/', '-', '=' and blanks a meaning.
std::string WordOf(const std::string& name) {
  std::string word;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || (static_cast<unsigned char>(c) >= 0x80);
    if (plain) {
      word += c;
    } else if (!word.ends_with('_')) {
      word += '_';
    }
  }
  word = SafeText(word);
  return word.empty() ? "_" : word;
}

void AppendLine(const Attempt& attempt, const std::string& word, std::string& out) {
  out += "BenchmarkTTFT/condition=" + word + " 1 " + std::to_string(*attempt.ttft_ns) + " ns/op";
  if (attempt.ttfc_ns) out += " " + std::to_string(*attempt.ttfc_ns) + " ttfc-ns/op";
  for (int i = 0; i < results::kStageCount; ++i) {
    const std::optional<int64_t> ns = attempt.stages[static_cast<size_t>(i)].ns;
    if (!ns) continue;
    out += " " + std::to_string(*ns) + " " +
           std::string(results::StageName(static_cast<results::Stage>(i))) + "-ns/op";
  }
  const auto read = attempt.counters.find("target_read_bytes");
  if (read != attempt.counters.end() && read->second) {
    out +=
        " " +
        std::visit([](auto n) { return std::to_string(static_cast<int64_t>(n)); }, *read->second) +
        " read-B/op";
  }
  out += "\n";
}

}  // namespace

std::string BenchstatText(const results::Run& run, std::span<const Attempt> attempts) {
  std::string out = "# rouse run " + std::to_string(run.id.value_or(0)) + ", " +
                    SafeText(run.name) + ", plan " +
                    (run.plan_hash.empty() ? "none" : SafeText(run.plan_hash)) + "\n";
  std::set<std::string> words;
  for (const ConditionAttempts& condition : ByCondition(run, attempts)) {
    const std::string base = WordOf(condition.name);
    std::string word = base;
    for (int number = 2; !words.insert(word).second; ++number) {
      word = base + "_" + std::to_string(number);
    }
    int64_t left_out = 0;
    for (const Attempt* const attempt : condition.attempts) {
      if (!results::CountsInSample(attempt->outcome)) continue;
      if (attempt->outcome != results::Outcome::kOk || !attempt->ttft_ns) {
        ++left_out;
        continue;
      }
      AppendLine(*attempt, word, out);
    }
    if (left_out > 0) {
      out += "# left out of " + word +
             ", since this format has no failures: " + std::to_string(left_out) + "\n";
    }
  }
  return out;
}

}  // namespace rouse::report
