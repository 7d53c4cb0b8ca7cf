// rouse: measures, explains and shortens the time to first token of local LLM servers.
// This file finds the command and hands over to it.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"

namespace rouse::cli {
namespace {

void PrintOverview() {
  std::string text =
      "rouse " ROUSE_VERSION
      ": why a local LLM's first token is late, measured so that the answer holds\n\n"
      "Usage: rouse COMMAND [ARGUMENTS]\n\n";
  for (const Command& command : Commands()) {
    text += "  ";
    text += command.name;
    text.append(command.name.size() < 10 ? 10 - command.name.size() : 1, ' ');
    text += command.summary;
    text += '\n';
  }
  text +=
      "\nrouse COMMAND --help explains each.\n"
      "Exit status: 0 done, 1 a hypothesis was rejected, 2 the command or plan is at fault,\n"
      "3 model, target, database, permission or state is at fault, 4 undecided, 130 interrupted.\n"
      "\nExample: rouse measure --preset quick\n";
  std::fputs(text.c_str(), stdout);
}

int Main(int argc, const char* const* argv) {
  const std::string_view name = argc > 1 ? argv[1] : "--help";
  if (name == "--help" || name == "-h" || name == "help") {
    PrintOverview();
    return 0;
  }
  std::vector<std::string_view> names;
  for (const Command& command : Commands()) {
    if (command.name == name) return command.run(argc - 2, argv + 2);
    names.push_back(command.name);
  }
  std::string message = "unknown command \"" + std::string(name) + "\"";
  const std::string nearest = NearestName(name, names);
  if (!nearest.empty()) message += " (did you mean " + nearest + "?)";
  return Fail(Error(ErrorCode::kUsage, message + "\nSee rouse --help."));
}

}  // namespace
}  // namespace rouse::cli

int main(int argc, char** argv) { return rouse::cli::Main(argc, argv); }
