// What a run shows of itself on a terminal while it goes on: where it is, what it waits for and
// why, how long yet, and the last results as a sparkline. Returns lines; drawing them is the
// caller's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rouse::report {

struct LiveStatus {
  int64_t done = 0;  // attempts
  int64_t total = 0;
  std::string condition;  // "" before the first attempt
  std::string step;       // what is being waited for
  int64_t step_ns = 0;    // for so long
  int64_t eta_ns = 0;
  struct Idle {
    int64_t left_ns = 0;
    int64_t total_ns = 0;
    std::string until;  // "03:12:44"
  };
  std::optional<Idle> idle;
  bool stopping = false;  // the user asked to end
  // The latest attempts, oldest first; empty: no first token.
  std::vector<std::optional<int64_t>> ttft_ns;
  std::string last_condition;
};

// At most three lines of at most `columns` - 3: a terminal writes "^C" behind the last one. Without
// `unicode` ASCII alone.
std::vector<std::string> LiveStatusLines(const LiveStatus& status, int columns, bool unicode);

// Bars for values on a logarithmic scale from the smallest to the largest, 'x' where there is none.
std::string Sparkline(const std::vector<std::optional<int64_t>>& values, bool unicode);

// Whole seconds below an hour, minutes above: "14 s", "2 min 05 s", "7 h 59 min".
std::string CountdownText(int64_t ns);

}  // namespace rouse::report
