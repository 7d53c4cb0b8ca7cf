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

namespace rouse::cli {
namespace {

std::atomic<bool> interrupt_requested{false};

void OnInterrupt(int /*signal*/) {
  if (interrupt_requested.exchange(true)) _exit(130);
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
    : quiet_(flags.quiet), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { Clear(); }

void Progress::Update(std::string_view text) {
  if (quiet_ || text == last_) return;
  last_ = text;
  if (!terminal_) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
    return;
  }
  const int columns = TerminalColumns(STDERR_FILENO);
  std::fprintf(stderr, "\r\033[K%s", FitText(text, columns - 1).c_str());
  std::fflush(stderr);
  shown_ = true;
}

void Progress::Line(std::string_view text) {
  if (quiet_) return;
  Clear();
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

void Progress::Clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

void InstallInterruptHandler() {
  struct sigaction action{};
  action.sa_handler = OnInterrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

const std::atomic<bool>& InterruptRequested() { return interrupt_requested; }

}  // namespace rouse::cli
