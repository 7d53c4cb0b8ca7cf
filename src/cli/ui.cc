// `rouse ui`: a local page over the stored runs, in a process of its own.
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/time.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/output_text.h"
#include "cli/ui_server.h"
#include "results/store.h"

namespace rouse::cli {
namespace {

constexpr int64_t kLookNs = 50 * kNsPerMs;

void PrintReady(const UiServer& server, const CommonFlags& flags) {
  if (flags.json) {
    const nlohmann::ordered_json ready = {{"schema", "rouse.ready/1"},
                                          {"url", server.url()},
                                          {"host", server.host()},
                                          {"port", server.port()},
                                          {"pid", ::getpid()}};
    std::printf("%s\n", DumpJson(ready).c_str());
  } else {
    std::printf("%s\n", server.url().c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int RunUi(int argc, const char* const* argv) {
  CLI::App app(
      "Show the stored runs in a browser: a list, each run's page, and what a running one does. "
      "Reads the database and changes nothing; loopback only; ends with Ctrl-C.",
      "ui");
  CommonFlags flags;
  UiOptions options;
  options.port = 8090;
  std::string database;
  app.add_option("--db", database, "The database (default: $ROUSE_DB or the user's own)");
  app.add_option("--port", options.port, "0: any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--host", options.host, "A loopback address")->capture_default_str();
  AddCommonFlags(app, flags);
  app.footer(
      "It prints its address (with --json: one line, \"schema\": \"rouse.ready/1\").\n\n"
      "Example:\n  rouse ui\n  rouse ui --port 0 --db nightly.sqlite\n");
  if (const auto status = ParseArguments(app, argc, argv)) return *status;
  const Result<std::string> path = results::StorePath(database);
  if (!path.ok()) return Fail(path.error());
  options.database = *path;
  InstallInterruptHandler();
  const Result<std::unique_ptr<UiServer>> server = UiServer::Start(options);
  if (!server.ok()) return Fail(server.error());
  PrintReady(**server, flags);
  Progress(flags).Line("runs of " + *path + "; Ctrl-C ends");
  while (!InterruptRequested()) RealClock().SleepFor(kLookNs);
  return 0;
}

}  // namespace rouse::cli
