// rouse: measures, explains and shortens the time to first token of local LLM servers.
// This file finds the command and hands over to it.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "engine/engine.h"
#include "engine/wait_policy.h"

namespace rouse::cli {
namespace {

constexpr int kRejectedStatus = 1;
constexpr int kUndecidedStatus = 4;

void PrintOverview() {
  std::string text =
      "rouse " ROUSE_VERSION
      ": why a local LLM's first token is late, measured so that the answer holds\n\n"
      "Usage: rouse COMMAND [ARGUMENTS]\n\n";
  for (const Command& command : Commands()) {
    if (command.summary.empty()) continue;
    text += "  ";
    text += command.name;
    text.append(command.name.size() < 10 ? 10 - command.name.size() : 1, ' ');
    text += command.summary;
    text += '\n';
  }
  text +=
      "\nrouse COMMAND --help explains each; rouse --version names the engine and its devices.\n"
      "Exit status: 0 done, 1 a hypothesis was rejected, 2 the command or plan is at fault,\n"
      "3 model, target, database, permission or state is at fault, 4 undecided, 130 interrupted.\n"
      "\nExample: rouse measure --preset quick\n";
  std::fputs(text.c_str(), stdout);
}

// "rouse 0.1.0 · llama.cpp 0.5.0 (CPU: avx2, fma)", then a line per device that the engine can use.
void PrintVersion() {
  const engine::EngineInfo info = engine::GetEngineInfo();
  std::string text = "rouse " ROUSE_VERSION " · " + info.name + " " + info.version + " (CPU";
  std::string separator = ": ";
  for (const std::string& feature : info.cpu_features) {
    text += separator + LowerAscii(feature);
    separator = ", ";
  }
  text += ")\n";
  for (const std::string& backend : info.backends) text += "  " + backend + "\n";
  std::fputs(text.c_str(), stdout);
}

// What was printed has arrived, or the status says that it has not. To a reader that has gone (a
// closed pipe) nothing is owed.
int AfterWriting(int status) {
  const bool failed_before = std::ferror(stdout) != 0;
  errno = 0;
  const bool failed_now = std::fflush(stdout) != 0;
  if (!failed_before && !failed_now) return status;
  const std::string reason = failed_now ? std::strerror(errno) : "a part is missing";
  struct stat facts{};
  const bool to_a_reader =
      fstat(STDOUT_FILENO, &facts) == 0 && (S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode));
  const bool had_failed = status != 0 && status != kRejectedStatus && status != kUndecidedStatus;
  if (to_a_reader || had_failed) return status;
  return Fail(Error(ErrorCode::kIo, "cannot write to standard output: " + reason));
}

int Main(int argc, const char* const* argv) {
  const std::string_view name = argc > 1 ? argv[1] : "--help";
  if (name == "--help" || name == "-h" || name == "help") {
    PrintOverview();
    return 0;
  }
  if (name == "--version") {
    PrintVersion();
    return 0;
  }
  // The one command that computes; before it has threads or open files.
  if (name == "serve") engine::RestartWithShortSpins(argv);
  std::vector<std::string_view> names;
  for (const Command& command : Commands()) {
    if (command.name == name) return command.run(argc - 2, argv + 2);
    if (!command.summary.empty()) names.push_back(command.name);
  }
  std::string message = "unknown command \"" + std::string(name) + "\"";
  const std::string nearest = NearestName(name, names);
  if (!nearest.empty()) message += " (did you mean " + nearest + "?)";
  return Fail(Error(ErrorCode::kUsage, message + "\nSee rouse --help."));
}

}  // namespace
}  // namespace rouse::cli

int main(int argc, char** argv) {
  try {
    return rouse::cli::AfterWriting(rouse::cli::Main(argc, argv));
  } catch (const std::exception& exception) {
    // None is expected; a library's that got through shall end in words all the same.
    return rouse::cli::Fail(
        rouse::Error(rouse::ErrorCode::kInternal, std::string("internal: ") + exception.what()));
  }
}
