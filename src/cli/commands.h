// The commands: one function per command, each in its own file. The table in commands.cc is the
// only list of them.
#pragma once

#include <span>
#include <string_view>

namespace rouse::cli {

struct Command {
  std::string_view name;
  std::string_view summary;  // "" = not listed: started by rouse itself
  // Gets the arguments after the command's name; returns the process's exit status.
  int (*run)(int argc, const char* const* argv);
};

std::span<const Command> Commands();

int RunMeasure(int argc, const char* const* argv);
int RunProbe(int argc, const char* const* argv);
int RunReport(int argc, const char* const* argv);
int RunCompare(int argc, const char* const* argv);
int RunExplain(int argc, const char* const* argv);
int RunList(int argc, const char* const* argv);
int RunImport(int argc, const char* const* argv);
int RunServe(int argc, const char* const* argv);
int RunModels(int argc, const char* const* argv);
int RunState(int argc, const char* const* argv);
int RunWarm(int argc, const char* const* argv);
int RunEvict(int argc, const char* const* argv);
int RunPin(int argc, const char* const* argv);
int RunDoctor(int argc, const char* const* argv);
int RunSynth(int argc, const char* const* argv);
int RunUi(int argc, const char* const* argv);
int RunWorker(int argc, const char* const* argv);

}  // namespace rouse::cli
