// What every command shares: the flags that all have, the words in which an error is printed, and
// the exit status. Only files of this folder print or exit.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "report/terminal.h"

namespace rouse::cli {

struct CommonFlags {
  bool json = false;
  bool quiet = false;
  std::string color = "auto";  // auto, always, never
};

// Adds --json, --quiet and --color.
void AddCommonFlags(CLI::App& app, CommonFlags& flags);

// Parses a command's arguments. Returns the exit status when the command must end now: 0 after
// --help (printed on stdout), 2 after a mistake (printed on stderr with the nearest flag's name).
std::optional<int> ParseArguments(CLI::App& app, int argc, const char* const* argv);

// Prints "rouse: MESSAGE" on stderr (further lines are indented to match) and returns the status.
int Fail(const Error& error);

// Whether to colour what goes to `stream_fd`: as the flag says, else a terminal without NO_COLOR.
bool UseColor(const CommonFlags& flags, int stream_fd);

// Columns of the terminal on `stream_fd`, or 80 when it is none.
int TerminalColumns(int stream_fd);

// How a report looks on `stream_fd`: its columns (at most 120: longer lines are hard to read),
// colour, and block characters where the locale is UTF-8.
report::TerminalOptions TerminalOf(const CommonFlags& flags, int stream_fd);

// Progress and remarks go to stderr: lines that are replaced in place on a terminal, else plain
// ones. Safe from any thread.
class Progress {
 public:
  explicit Progress(const CommonFlags& flags);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A state that replaces the one before it ("block 2 of 6, page cache cold, 14 s left").
  void Update(std::string_view text);
  // Whether lines can be replaced: a terminal, and not one that takes no control sequences.
  bool live() const { return terminal_ && !quiet_; }
  // Lines that replace those before them, in one write; nothing where that can't be. None of them
  // may be as wide as the terminal.
  void Show(const std::vector<std::string>& lines);
  // A line that stays.
  void Line(std::string_view text);
  // Takes the current state off the terminal.
  void Clear();

 private:
  std::string Erasing();  // moves to the first shown line; with mutex_ held

  bool quiet_;
  bool terminal_;
  std::mutex mutex_;
  std::vector<std::string> shown_;
  int shown_columns_ = 0;  // of the terminal then
  std::string last_;
};

// Makes the first SIGINT or SIGTERM set a flag (InterruptRequested) instead of ending the process;
// a second one ends it at once with status 130.
void InstallInterruptHandler();
const std::atomic<bool>& InterruptRequested();

}  // namespace rouse::cli
