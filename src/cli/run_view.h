// A run on the terminal while it goes on: some lines that are drawn in place
// (report/live_status.h). A thread of its own draws them, a moment after what they say has changed
// and once a second where they count; never while a request is measured, and not within the last
// two seconds of an idle time. Where stderr is no terminal: one line for each attempt, and one for
// each idle time of a minute or more.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "base/time.h"
#include "cli/common.h"
#include "lab/experiment.h"
#include "report/live_status.h"
#include "results/attempt.h"

namespace rouse::cli {

class RunView {
 public:
  // `progress` outlives it.
  RunView(const CommonFlags& flags, Progress& progress);
  // Takes the lines off the terminal.
  ~RunView();
  RunView(const RunView&) = delete;
  RunView& operator=(const RunView&) = delete;

  void OnStep(const lab::Progress& now);
  void OnAttempt(const results::Attempt& attempt, const lab::Progress& now);

 private:
  void Loop();
  void Draw();                // with mutex_ held
  MonoTime NextDraw() const;  // with mutex_ held
  report::LiveStatus Facts() const;

  Progress& progress_;
  const bool live_;
  bool unicode_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  bool dirty_ = false;
  lab::Progress now_;
  MonoTime step_since_;
  MonoTime eta_since_;
  MonoTime idle_until_;
  int64_t idle_ns_ = 0;
  MonoTime drawn_at_;
  report::LiveStatus results_;  // its last attempts
  std::thread thread_;          // last: the others exist before it runs
};

}  // namespace rouse::cli
