// Stage names and the walk from overlapping steps to what a request waited for.
#include "engine/steps.h"

#include <algorithm>

#include "base/check.h"

namespace rouse::engine {

std::string_view StageName(Stage stage) {
  switch (stage) {
    case Stage::kWeights:
      return "weights";
    case Stage::kRuntimeInit:
      return "runtime_init";
    case Stage::kTokenize:
      return "tokenize";
    case Stage::kPrefill:
      return "prefill";
    case Stage::kFirstDecode:
      return "first_decode";
  }
  CHECK(false);
}

std::vector<Segment> WaitedFor(const std::vector<Step>& steps, MonoTime from, MonoTime until) {
  // At each moment `now`, going back, the step that mattered is the one that ended last but not
  // after `now`; if none ended there, the time back to the last end is a gap. A step that is still
  // running at `until` counts as ended there.
  std::vector<Segment> reversed;
  MonoTime now = until;
  while (now > from) {
    const Step* last = nullptr;
    MonoTime last_end;
    for (const Step& step : steps) {
      if (step.start >= now || step.end <= step.start) continue;
      const MonoTime end = std::min(step.end, now);
      // Of two that ended together, the one that began earlier explains more.
      if (last == nullptr || end > last_end || (end == last_end && step.start < last->start)) {
        last = &step;
        last_end = end;
      }
    }
    if (last == nullptr || last_end <= from) break;
    const MonoTime start = std::max(last->start, from);
    if (!reversed.empty() && reversed.back().stage == last->stage &&
        reversed.back().start == last_end) {
      reversed.back().start = start;
    } else {
      reversed.push_back({last->stage, start, last_end});
    }
    now = start;
  }
  std::reverse(reversed.begin(), reversed.end());
  return reversed;
}

}  // namespace rouse::engine
