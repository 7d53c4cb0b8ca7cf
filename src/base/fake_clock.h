// For tests: a clock that only sleeping moves.
#pragma once

#include <functional>

#include "base/time.h"

namespace rouse {

class FakeClock : public Clock {
 public:
  MonoTime Now() override { return now; }
  void SleepUntil(MonoTime deadline) override {
    if (deadline > now) now = deadline;
    if (on_sleep) on_sleep();
  }
  MonoTime now{kNsPerSecond};
  std::function<void()> on_sleep;
};

}  // namespace rouse
