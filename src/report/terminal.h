// A run as a person sees it in a terminal: the answer first, the proof beside it, one thing to do
// next, never wider than `columns`. Returns text; measures nothing and prints nothing.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "results/attempt.h"
#include "results/run.h"

namespace rouse::report {

struct TerminalOptions {
  int columns = 80;
  bool color = false;
  bool unicode = false;       // block characters for bars, "µ", "·"
  std::string database = {};  // shown in the last lines when not the default one
};

// The table of conditions with stacked stage bars, the contrasts, the proof line, failures,
// hypotheses, and what to do next.
std::string RenderRun(const results::Run& run, std::span<const results::Attempt> attempts,
                      const TerminalOptions& options);

// `text` with control characters, invalid UTF-8 and bidirectional overrides made harmless, cut to
// `columns` display columns ("..." at the end when cut).
std::string FitText(std::string_view text, int columns);

}  // namespace rouse::report
