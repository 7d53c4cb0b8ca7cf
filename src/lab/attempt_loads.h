// The loads and the sentinel of one attempt: brought about, proved while they run, ended after it.
// Memory ballast stands during the idle time as well (it only sleeps); background work and the
// sentinel run from right before the request to its end.
#pragma once

#include <memory>
#include <string>

#include "base/time.h"
#include "lab/contention.h"
#include "lab/states.h"
#include "results/attempt.h"

namespace rouse::lab {

class AttemptLoads {
 public:
  AttemptLoads(StateContext& context, const Condition& condition)
      : context_(context), condition_(condition) {}

  // After the other layers, before the idle time: the ballast, and its reading in state_before.
  // Returns why a load does not stand, or "".
  std::string Begin(results::Attempt& attempt);
  // Right before the request: background work and the sentinel's first units, about 0.5 s. Adds to
  // `readings` what can be read of the loads.
  std::string BeforeSend(results::LayerReadings& readings);
  // Counts from here on.
  void MarkSend();
  // Ends everything. The request ran in [from, to): what the loads did meanwhile goes to
  // state_after, the sentinel's answer to the counters.
  void End(MonoTime from, MonoTime to, results::Attempt& attempt);

 private:
  bool Wants(Layer layer) const { return condition_.Value(layer) != RowOf(layer).default_value; }
  results::LayerReading BallastReading() const;
  void EndBackground(MonoTime from, MonoTime to, results::Attempt& attempt);
  void EndSentinel(MonoTime from, MonoTime to, results::Attempt& attempt);

  StateContext& context_;
  const Condition& condition_;
  std::unique_ptr<Loads> ballast_;
  std::unique_ptr<Loads> background_;
  std::unique_ptr<Sentinel> sentinel_;
  LoadReading at_send_;
};

}  // namespace rouse::lab
