// `rouse warm FILE`: brings a file, or its leading part, into the page cache, and proves it.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/terminal_text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/file_argument.h"
#include "cli/output_text.h"
#include "cli/residency_json.h"
#include "loader/reader.h"
#include "os/page_cache.h"

namespace rouse::cli {
namespace {

struct Warmed {
  loader::WarmReport report;
  os::Residency whole;
  os::Residency leading;
  bool reached = false;
};

std::string Rate(int64_t bytes, int64_t duration_ns) {
  if (duration_ns <= 0) return "";
  const double per_second = static_cast<double>(bytes) * 1e9 / static_cast<double>(duration_ns);
  return FormatBytes(std::llround(per_second)) + "/s";
}

std::string ProgressText(const std::string& file, const loader::WarmProgress& now) {
  std::string text = "warming " + file + ": " + FormatBytes(now.done_bytes) + " of " +
                     FormatBytes(now.wanted_bytes);
  if (now.elapsed_ns <= 0 || now.done_bytes <= 0) return text;
  const double per_ns = static_cast<double>(now.done_bytes) / static_cast<double>(now.elapsed_ns);
  const double left_ns = static_cast<double>(now.wanted_bytes - now.done_bytes) / per_ns;
  return text + ", " + Rate(now.done_bytes, now.elapsed_ns) + ", " +
         FormatDuration(std::llround(left_ns)) + " left";
}

// Reads the leading part in, drops the rest, and proves both.
Result<Warmed> WarmOne(const std::string& file, double fraction, int threads, Progress& progress) {
  loader::WarmOptions options;
  options.threads = threads;
  options.cancel = &InterruptRequested();
  const auto show = [&](const loader::WarmProgress& now) {
    progress.Update(ProgressText(file, now));
  };
  Warmed warmed;
  ASSIGN_OR_RETURN(warmed.report, loader::WarmFile(file, fraction, options, show));
  progress.Clear();
  const auto leading_bytes =
      static_cast<int64_t>(fraction * static_cast<double>(warmed.report.file_bytes));
  if (fraction < 1.0) {
    // Also what the kernel's read-ahead brought in beyond the part that was asked for.
    RETURN_IF_ERROR(
        os::EvictRange(file, {leading_bytes, warmed.report.file_bytes - leading_bytes}));
  }
  ASSIGN_OR_RETURN(warmed.whole, os::ReadResidency(file));
  const os::ByteRange leading{0, leading_bytes};
  ASSIGN_OR_RETURN(const std::vector<os::Residency> parts,
                   os::ReadResidencyRanges(file, {&leading, 1}));
  warmed.leading = parts[0];
  // As the contract has it: warm is 0.99 and more, a fraction is met within 0.02.
  // An estimate has to hold at both ends of its interval.
  const os::ShareBounds whole = warmed.whole.Bounds();
  warmed.reached =
      (fraction == 0.0 || warmed.leading.Bounds().low >= 0.99) &&
      (fraction == 1.0 || (fraction - whole.low <= 0.02 && whole.high - fraction <= 0.02));
  return warmed;
}

nlohmann::json WarmedJson(const std::string& file, double fraction, const Warmed& warmed) {
  const std::optional<int64_t> read_bytes = warmed.report.ReadBytes();
  nlohmann::json json = {
      {"schema", "rouse.warm/1"},
      {"file", file},
      {"bytes", warmed.report.file_bytes},
      {"fraction", fraction},
      {"reached", warmed.reached},
      {"leading_ratio", ExactRatio(warmed.leading)},
      {"read_bytes", read_bytes ? nlohmann::json(*read_bytes) : nlohmann::json()},
      {"duration_ns", warmed.report.duration_ns},
      {"method", loader::ReadMethodName(warmed.report.method)},
      {"threads", warmed.report.threads}};
  PutResidency(warmed.whole, json);
  return json;
}

void PrintWarmed(const std::string& file, const Warmed& warmed, int columns) {
  std::string text = "in the page cache " + ResidencyText(warmed.whole);
  const std::optional<int64_t> read_bytes = warmed.report.ReadBytes();
  if (read_bytes && *read_bytes > 0) {
    text += "; " + FormatBytes(*read_bytes) + " read in " +
            FormatDuration(warmed.report.duration_ns) + ", " +
            Rate(*read_bytes, warmed.report.duration_ns);
  } else if (read_bytes) {
    text += "; it was there already";
  }
  std::fputs(Headed(file, text, columns).c_str(), stdout);
}

}  // namespace

int RunWarm(int argc, const char* const* argv) {
  CLI::App app("Bring a file into the page cache, and prove it", "warm");
  CommonFlags flags;
  AddCommonFlags(app, flags);
  std::string argument;
  double fraction = 1.0;
  int threads = 1;
  app.add_option("file", argument, "A file, or a model's name")->required();
  app.add_option("--fraction", fraction,
                 "The leading part to have resident, 0 to 1; the rest is dropped")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--threads", threads, "Readers; more help on devices with several queues")
      ->check(CLI::Range(1, 64));
  app.footer(
      "Reads only what is missing, and nothing when it would not fit into the memory that is\n"
      "available. Ends with status 3 when the state was not reached: warm means that at least 99 "
      "%\n"
      "is resident, a fraction is met within 2 % of the file. Pages may be reclaimed later; "
      "`rouse\n"
      "pin` holds them.\n\nExample: rouse warm smollm2-135m --fraction 0.5");
  if (const std::optional<int> status = ParseArguments(app, argc, argv)) return *status;
  const Result<std::vector<std::string>> files = FilesOfArgument(argument);
  if (!files.ok()) return Fail(files.error());

  InstallInterruptHandler();
  Progress progress(flags);
  nlohmann::json all = nlohmann::json::array();
  int status = 0;
  for (const std::string& file : *files) {
    const Result<Warmed> warmed = WarmOne(file, fraction, threads, progress);
    if (!warmed.ok()) {
      progress.Clear();
      status = Fail(warmed.error());
      break;
    }
    if (flags.json) all.push_back(WarmedJson(file, fraction, *warmed));
    if (!flags.json) PrintWarmed(file, *warmed, StdoutColumns(flags));
    if (!warmed->reached) {
      status = Fail(Error(
          ErrorCode::kState,
          file + " is not proved to be as warm as asked: in the page cache " +
              ResidencyText(warmed->whole) + ", wanted " +
              FormatBytes(std::llround(fraction * static_cast<double>(warmed->whole.file_bytes))) +
              ".\nMemory may be short, or another process maps the rest: rouse "
              "state " +
              ShellQuoted(file)));
    }
  }
  if (flags.json && !all.empty()) {
    std::fputs((DumpJson(all.size() == 1 ? all[0] : all, 2) + "\n").c_str(), stdout);
  }
  return status;
}

}  // namespace rouse::cli
