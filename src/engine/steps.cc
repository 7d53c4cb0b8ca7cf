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

namespace {

// The step that explains the time before `now`: of those that had ended by then, the last to end
// (it let what came next begin); only where none ended after `from`, one that was still running.
// Of two that ended together, the one that began earlier explains more.
const Step* Explaining(const std::vector<Step>& steps, MonoTime from, MonoTime now) {
  const Step* ended = nullptr;
  const Step* running = nullptr;
  for (const Step& step : steps) {
    if (step.start >= now || step.end <= step.start || step.end <= from) continue;
    const Step*& best = step.end <= now ? ended : running;
    const bool later = best == nullptr || (step.end <= now && step.end > best->end);
    const bool longer =
        best != nullptr && (step.end > now || step.end == best->end) && step.start < best->start;
    if (later || longer) best = &step;
  }
  return ended != nullptr ? ended : running;
}

}  // namespace

std::vector<Segment> WaitedFor(const std::vector<Step>& steps, MonoTime from, MonoTime until) {
  std::vector<Segment> reversed;
  MonoTime now = until;
  while (now > from) {
    const Step* step = Explaining(steps, from, now);
    if (step == nullptr) break;
    const MonoTime start = std::max(step->start, from);
    const MonoTime end = std::min(step->end, now);
    if (!reversed.empty() && reversed.back().stage == step->stage && reversed.back().start == end) {
      reversed.back().start = start;
    } else {
      reversed.push_back({step->stage, start, end});
    }
    now = start;
  }
  std::reverse(reversed.begin(), reversed.end());
  return reversed;
}

}  // namespace rouse::engine
