// Exclusive stages by construction: the interval [0, TTFT] is cut at ascending points, each piece
// is given to exactly one stage, and what nobody claims is `unattributed`. So the sum closes
// whatever a server reports, and no stage can be negative.
#include "lab/timeline.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/units.h"

namespace rouse::lab {
namespace {

using results::Segment;
using results::Stage;
using results::StageSource;

class Ledger {
 public:
  explicit Ledger(int64_t total_ns) : rest_ns_(total_ns) {}

  void Give(Stage stage, int64_t ns, StageSource source) {
    CHECK(ns >= 0 && ns <= rest_ns_);
    results::StageTime& time = stages_[static_cast<size_t>(stage)];
    time.ns = time.ns.value_or(0) + ns;
    time.source = source;
    rest_ns_ -= ns;
  }
  // Known to be nothing, unless something was given.
  void Zero(Stage stage, StageSource source) { Give(stage, 0, source); }

  int64_t rest_ns() const { return rest_ns_; }

  results::Stages Close() {
    Give(Stage::kUnattributed, rest_ns_, StageSource::kDerived);
    return stages_;
  }

 private:
  int64_t rest_ns_;
  results::Stages stages_;
};

int64_t Clip(int64_t value, int64_t low, int64_t high) {
  return std::min(std::max(value, low), high);
}

// The segments inside [low, high], ascending and without overlap: where two claim the same time,
// the one that began earlier keeps it.
std::vector<Segment> Disjoint(std::vector<Segment> segments, int64_t low, int64_t high,
                              std::vector<results::Warning>& warnings) {
  std::stable_sort(segments.begin(), segments.end(),
                   [](const Segment& a, const Segment& b) { return a.start_ns < b.start_ns; });
  std::vector<Segment> disjoint;
  int64_t cursor = low;
  bool overlap = false;
  bool reversed = false;
  for (const Segment& segment : segments) {
    if (segment.end_ns < segment.start_ns) {
      reversed = true;
      continue;
    }
    const int64_t start = Clip(segment.start_ns, low, high);
    const int64_t end = Clip(segment.end_ns, low, high);
    overlap = overlap || (start < cursor && end > start);
    const int64_t from = std::max(start, cursor);
    if (end <= from) continue;
    disjoint.push_back({.stage = segment.stage, .start_ns = from, .end_ns = end});
    cursor = end;
  }
  if (overlap) {
    warnings.push_back({"timeline_overlap",
                        "the server's segments overlap; the earlier one kept the shared time"});
  }
  if (reversed) {
    warnings.push_back(
        {"timeline_reversed", "a segment of the server's ends before it begins and was left out"});
  }
  return disjoint;
}

// The parts of [from, to] that no segment covers.
int64_t Uncovered(const std::vector<Segment>& segments, int64_t from, int64_t to) {
  int64_t uncovered = std::max<int64_t>(0, to - from);
  for (const Segment& segment : segments) {
    const int64_t start = Clip(segment.start_ns, from, std::max(from, to));
    const int64_t end = Clip(segment.end_ns, from, std::max(from, to));
    uncovered -= end - start;
  }
  return uncovered;
}

void GiveReportedPrefill(const TimelineInput& input, Ledger& ledger,
                         std::vector<results::Warning>& warnings) {
  if (!input.reported_prefill_ns) return;
  const int64_t reported = *input.reported_prefill_ns;
  if (reported < 0 || reported > ledger.rest_ns()) {
    warnings.push_back({"server_prefill_impossible",
                        "the server reports a prefill of " + FormatDuration(reported) +
                            ", which does not fit into the " + FormatDuration(ledger.rest_ns()) +
                            " that the request waited for it; not used"});
    return;
  }
  ledger.Give(Stage::kPrefill, reported, StageSource::kServer);
}

}  // namespace

TimelineResult ComputeStages(const TimelineInput& input) {
  TimelineResult result;
  if (!input.ttft_ns) return result;
  const int64_t ttft = *input.ttft_ns;
  if (ttft < 0) {
    result.warnings.push_back({"ttft_negative", "the first token came before the intended send"});
    return result;
  }
  Ledger ledger(ttft);
  int64_t begin = 0;
  if (input.process_new) {
    const results::OptionalNs accepted =
        input.first_accepted_ns ? input.first_accepted_ns : input.marks.connected;
    if (accepted) {
      begin = Clip(*accepted, 0, ttft);
      ledger.Give(Stage::kProcessStart, begin, StageSource::kClient);
    }
  } else {
    ledger.Zero(Stage::kProcessStart, StageSource::kDerived);
  }

  const std::vector<Segment> segments = Disjoint(input.segments, begin, ttft, result.warnings);
  for (const Segment& segment : segments) {
    ledger.Give(segment.stage, segment.end_ns - segment.start_ns, StageSource::kServer);
  }
  int64_t sent = Clip(input.marks.request_sent.value_or(begin), begin, ttft);
  int64_t back = ttft;
  if (input.has_timeline && !segments.empty()) {
    sent = std::max(sent, segments.front().start_ns);
    back = std::max(sent, segments.back().end_ns);
  }
  // A server may begin while the client's write has yet to return: what it reports comes first.
  if (!input.has_timeline) GiveReportedPrefill(input, ledger, result.warnings);
  const int64_t sending = Clip(input.answered_try_ns.value_or(begin), begin, sent);
  ledger.Give(Stage::kTransport, std::min(Uncovered(segments, sending, sent), ledger.rest_ns()),
              StageSource::kClient);
  ledger.Give(Stage::kTransport, Uncovered(segments, back, ttft), StageSource::kClient);

  if (input.has_timeline) {
    for (const Stage stage : {Stage::kQueue, Stage::kWeights, Stage::kRuntimeInit, Stage::kTokenize,
                              Stage::kPrefill, Stage::kFirstDecode}) {
      ledger.Zero(stage, StageSource::kServer);
    }
  }
  result.stages = ledger.Close();
  return result;
}

results::OptionalNs StageSum(const results::Stages& stages) {
  results::OptionalNs sum;
  for (const results::StageTime& time : stages) {
    if (time.ns) sum = sum.value_or(0) + *time.ns;
  }
  return sum;
}

}  // namespace rouse::lab
