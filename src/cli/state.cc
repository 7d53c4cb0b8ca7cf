// `rouse state FILE|URL`: which layers are warm right now. Reads only; warms nothing.
#include <cstdio>
#include <string>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/file_argument.h"
#include "cli/output_text.h"
#include "cli/state_file.h"
#include "cli/state_url.h"

namespace rouse::cli {
namespace {

int StateOfUrl(const std::string& url, const CommonFlags& flags) {
  const Result<ServerState> state = ReadServerState(url);
  if (!state.ok()) return Fail(state.error());
  const std::string text = flags.json ? DumpJson(ServerStateJson(*state), 2) + "\n"
                                      : ServerStateText(*state, StdoutColumns(flags));
  std::fputs(text.c_str(), stdout);
  return 0;
}

int StateOfFile(const std::string& argument, const CommonFlags& flags) {
  const Result<std::vector<std::string>> files = FilesOfArgument(argument);
  if (!files.ok()) return Fail(files.error());
  nlohmann::json all = nlohmann::json::array();
  std::string text;
  std::string reason;
  for (const std::string& file : *files) {
    const Result<FileState> state = ReadFileState(file);
    if (!state.ok()) return Fail(state.error());
    if (!state->whole) reason = state->reason;
    if (flags.json) {
      all.push_back(FileStateJson(*state));
    } else {
      text += (text.empty() ? "" : "\n") + FileStateText(*state, StdoutColumns(flags));
    }
  }
  // One object for one file, as the contract has it; a list for the parts of a split model.
  if (flags.json) text = DumpJson(all.size() == 1 ? all[0] : all, 2) + "\n";
  std::fputs(text.c_str(), stdout);
  if (!reason.empty()) return Fail(Error(ErrorCode::kPermission, reason));
  return 0;
}

}  // namespace

int RunState(int argc, const char* const* argv) {
  CLI::App app("Which layers are warm right now (reads only, warms nothing)", "state");
  CommonFlags flags;
  AddCommonFlags(app, flags);
  std::string target;
  app.add_option("target", target, "A file, a model's name, or the URL of a server on this machine")
      ->required();
  app.footer(
      "For a file: how much of it is in the page cache, and which parts. For a server: what it "
      "says\n"
      "of itself (rouse serve), its process, and the model files that it has mapped.\n"
      "Exact for the file's owner, whoever may write it, and root; others get an estimate.\n\n"
      "Example: rouse state smollm2-135m");
  if (const std::optional<int> status = ParseArguments(app, argc, argv)) return *status;
  if (target.find("://") != std::string::npos) return StateOfUrl(target, flags);
  return StateOfFile(target, flags);
}

}  // namespace rouse::cli
