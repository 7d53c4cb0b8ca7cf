// A run as a person sees it in a terminal: the answer first, the proof beside it, one thing to do
// next, never wider than `columns`. Returns text; measures nothing and prints nothing.
#pragma once

#include <span>
#include <string>

#include "base/terminal_text.h"
#include "results/attempt.h"
#include "results/run.h"

namespace rouse::report {

using rouse::FitText;

struct TerminalOptions {
  int columns = 80;  // at least 60; narrower is taken as 60
  bool color = false;
  bool unicode = false;            // block characters for bars, "\u00b7"
  std::string database = {};       // shown in the last lines when not empty
  std::string database_flag = {};  // added as --db to the commands to paste when not empty
  bool details = false;            // also the order of the attempts, as sparklines
};

// The answer in a sentence, the table of conditions with stacked stage bars, the ladder of layers,
// the proof line, failures, hypotheses, and what to do next.
std::string RenderRun(const results::Run& run, std::span<const results::Attempt> attempts,
                      const TerminalOptions& options);

// One attempt of a run: lanes on one time axis, the stages with their sources, each layer as read
// back, the counters, and what to do next.
std::string RenderAttempt(const results::Run& run, const results::Attempt& attempt,
                          const TerminalOptions& options);

// The lanes alone: the client's marks, the request's stages, background work, and tries to connect,
// one row each; "" without marks. Also what `rouse probe` shows.
std::string RenderLanes(const results::Attempt& attempt, const TerminalOptions& options);

}  // namespace rouse::report
