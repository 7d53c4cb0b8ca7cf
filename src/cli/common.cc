#include "cli/common.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/strings.h"
#include "base/terminal_text.h"
#include "base/units.h"
#include "cli/output_text.h"

namespace rouse::cli {
namespace {

std::atomic<bool> interrupt_requested{false};
std::atomic<bool> continued{false};        // after a stop (Ctrl-Z)
std::atomic<bool> lines_are_shown{false};  // that a prompt must not be written behind

void OnInterrupt(int /*signal*/) {
  if (!interrupt_requested.exchange(true)) return;
  if (lines_are_shown) [[maybe_unused]]
    const ssize_t count = write(STDERR_FILENO, "\r\n", 2);
  _exit(130);
}

void OnContinue(int /*signal*/) { continued = true; }

// A terminal that takes the control sequences of a line that is replaced.
bool IsLiveTerminal(int stream_fd) {
  const char* const kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb" || kind[0] == '\0';
  return isatty(stream_fd) == 1 && !dumb;
}

// Whether the terminal lays lines out anew when its width changes. Most do; it can't be asked.
bool BreaksLinesAnew() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  if (!variable("TMUX").empty()) return true;
  if (!variable("XTERM_VERSION").empty()) return false;
  const std::string_view kind = variable("TERM");
  return kind != "linux" && !kind.starts_with("screen") && !kind.starts_with("vt");
}

// The long flags of `app`, for "did you mean".
std::vector<std::string> LongFlags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string UnknownFlagMessage(const CLI::App& app, const std::vector<std::string>& unknown) {
  std::string message = "unknown argument";
  for (const std::string& text : unknown) {
    message += " \"" + text + "\"";
    const std::vector<std::string> flags = LongFlags(app);
    const std::vector<std::string_view> views(flags.begin(), flags.end());
    const std::string nearest = NearestName(text.substr(0, text.find('=')), views);
    if (!nearest.empty()) message += " (did you mean " + nearest + "?)";
  }
  return message;
}

// CLI11 says "Could not convert: --repeat = 1.5"; all flags of ours that are converted are numbers.
std::string NotANumberMessage(std::string_view text) {
  constexpr std::string_view kHead = "Could not convert: ";
  constexpr std::string_view kMiddle = " = ";
  const size_t middle = text.find(kMiddle);
  if (!text.starts_with(kHead) || middle == std::string_view::npos) return std::string(text);
  return std::string(text.substr(kHead.size(), middle - kHead.size())) + " does not take \"" +
         std::string(text.substr(middle + kMiddle.size())) +
         "\", which is not a number of its kind (see --help)";
}

}  // namespace

void AddCommonFlags(CLI::App& app, CommonFlags& flags) {
  app.add_flag("--json", flags.json, "Machine-readable output on stdout, and nothing else there");
  app.add_flag("--quiet", flags.quiet, "No progress on stderr");
  app.add_option("--color", flags.color, "Colour: auto, always or never (auto honours NO_COLOR)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

std::optional<int> ParseArguments(CLI::App& app, int argc, const char* const* argv) {
  // CLI11 takes the arguments in reverse order.
  std::vector<std::string> arguments(argv, argv + argc);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  app.allow_extras();
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help("rouse").c_str(), stdout);
    return 0;
  } catch (const CLI::ConversionError& error) {
    if (app.remaining().empty()) {
      return Fail(
          Error(ErrorCode::kUsage, app.get_name() + ": " + NotANumberMessage(error.what())));
    }
  } catch (const CLI::ParseError& error) {
    // A misspelt flag is the likelier mistake than a missing argument: it is named first.
    if (app.remaining().empty()) {
      return Fail(Error(ErrorCode::kUsage, app.get_name() + ": " + error.what()));
    }
  }
  const std::vector<std::string> unknown = app.remaining();
  if (!unknown.empty()) {
    return Fail(Error(ErrorCode::kUsage, app.get_name() + ": " + UnknownFlagMessage(app, unknown) +
                                             "\nSee rouse " + app.get_name() + " --help."));
  }
  return std::nullopt;
}

int Fail(const Error& error) {
  // Names of others stand in messages: only the line breaks of the message itself are obeyed.
  std::string text;
  for (const std::string_view line : SplitAt(error.message(), '\n')) {
    text += (text.empty() ? "rouse: " : "       ") + SafeText(line) + "\n";
  }
  std::fputs(text.c_str(), stderr);
  return ExitStatus(error);
}

bool UseColor(const CommonFlags& flags, int stream_fd) {
  if (flags.color != "auto") return flags.color == "always";
  const char* const no_color = std::getenv("NO_COLOR");
  return isatty(stream_fd) == 1 && (no_color == nullptr || no_color[0] == '\0');
}

int TerminalColumns(int stream_fd) {
  winsize size{};
  if (ioctl(stream_fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

report::TerminalOptions TerminalOf(const CommonFlags& flags, int stream_fd) {
  constexpr int kWidest = 120;
  std::setlocale(LC_CTYPE, "");
  report::TerminalOptions options;
  options.columns = std::min(TerminalColumns(stream_fd), kWidest);
  options.color = UseColor(flags, stream_fd);
  options.unicode = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  return options;
}

Progress::Progress(const CommonFlags& flags)
    : quiet_(flags.quiet), terminal_(IsLiveTerminal(STDERR_FILENO)) {}

Progress::~Progress() { Clear(); }

void Progress::Update(std::string_view text) {
  if (quiet_) return;
  if (terminal_) return Show({FitText(text, TerminalColumns(STDERR_FILENO) - 1)});
  const std::lock_guard lock(mutex_);
  if (text == last_) return;
  last_ = text;
  std::fputs((SafeText(text) + "\n").c_str(), stderr);
}

void Progress::Show(const std::vector<std::string>& lines) {
  if (!live() || lines.empty()) return;
  const std::lock_guard lock(mutex_);
  const int columns = TerminalColumns(STDERR_FILENO);
  if (lines == shown_ && columns == shown_columns_ && !continued.load()) return;
  // Each line is written over the one before it, so that nothing is empty in between.
  std::string out = Erasing();
  for (size_t i = 0; i < lines.size(); ++i) {
    out += (i == 0 ? "" : "\r\n") + lines[i] + (i + 1 < lines.size() ? "\033[K" : "\033[J");
  }
  std::fputs(out.c_str(), stderr);
  std::fflush(stderr);
  shown_ = lines;
  shown_columns_ = columns;
  lines_are_shown = true;
}

// A terminal that has become narrower has broken the lines, where it does that.
std::string Progress::Erasing() {
  // After Ctrl-Z and fg others have written below.
  if (continued.exchange(false)) shown_.clear();
  if (shown_.empty()) return "\r";
  const int columns = std::max(1, TerminalColumns(STDERR_FILENO));
  int rows = 0;
  for (const std::string& line : shown_) {
    const int width = std::max(1, DisplayColumns(line));
    const bool broken = columns < shown_columns_ && BreaksLinesAnew();
    rows += broken ? (width + columns - 1) / columns : 1;
  }
  return rows == 1 ? "\r" : "\r\033[" + std::to_string(rows - 1) + "A";
}

void Progress::Line(std::string_view text) {
  if (quiet_) return;
  Clear();
  const std::lock_guard lock(mutex_);
  if (!terminal_) {
    std::fputs((SafeLines(text) + "\n").c_str(), stderr);
    return;
  }
  const std::string wrapped =
      WrapText(text, {.columns = TerminalColumns(STDERR_FILENO), .indent = 0, .hanging = 2});
  std::fputs(wrapped.c_str(), stderr);
}

void Progress::Clear() {
  const std::lock_guard lock(mutex_);
  if (shown_.empty()) return;
  std::fputs((Erasing() + "\033[J").c_str(), stderr);
  std::fflush(stderr);
  shown_.clear();
  lines_are_shown = false;
}

void InstallInterruptHandler() {
  struct sigaction action{};
  action.sa_handler = OnInterrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = OnContinue;
  action.sa_flags = SA_RESTART;
  sigaction(SIGCONT, &action, nullptr);
}

const std::atomic<bool>& InterruptRequested() { return interrupt_requested; }

}  // namespace rouse::cli
