// `rouse pin FILE`: holds a file's pages locked in memory while it runs, watches the machine's
// memory pressure, and lets go when others suffer. A killed pin leaves nothing behind: the kernel
// unlocks with the process.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/terminal_text.h"
#include "base/time.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/file_argument.h"
#include "cli/output_text.h"
#include "loader/reader.h"
#include "os/cgroup.h"
#include "os/page_cache.h"
#include "os/psi.h"

namespace rouse::cli {
namespace {

constexpr int64_t kWindowBytes = int64_t{64} << 20;
constexpr int64_t kWatchEveryNs = 500 * kNsPerMs;  // the kernel's averages move every 2 s

struct PinOptions {
  std::vector<std::string> files;
  double pressure_bound_percent = 10;
  std::optional<int64_t> hold_ns;
};

struct Pinned {
  std::vector<os::MappedFile> mappings;
  int64_t bytes = 0;
  int64_t locked_bytes = 0;    // as VmLck grew
  int64_t resident_bytes = 0;  // as the page cache says
  std::string proof;
};

enum class LetGo { kSignal, kTime, kPressure };

// What can be known before a byte is read.
Status CheckThatItFits(const std::vector<std::string>& files, int64_t bytes) {
  const std::optional<int64_t> limit = os::LockLimitBytes();
  if (limit && bytes > *limit) {
    return Error(ErrorCode::kPermission,
                 "cannot pin " + DescribeFiles(files) + ": it has " + FormatBytes(bytes) +
                     ", and this user may lock " + FormatBytes(*limit) +
                     " (RLIMIT_MEMLOCK).\nRaise it for this shell: sudo prlimit --pid $$ "
                     "--memlock=unlimited");
  }
  const Result<os::CgroupCounters> group =
      os::ReadCgroupCounters(os::ProcRoot::Real(), static_cast<int>(getpid()));
  if (group.ok() && group->memory_limit_bytes && bytes > *group->memory_limit_bytes) {
    return Error(ErrorCode::kExhausted, "cannot pin " + DescribeFiles(files) + ": it has " +
                                            FormatBytes(bytes) + ", and control group " +
                                            group->paths.name + " may use " +
                                            FormatBytes(*group->memory_limit_bytes));
  }
  return {};
}

// Reads the file in, maps it and locks it window by window, so that it can be interrupted and shows
// how far it is.
Status PinOne(const std::string& file, Progress& progress, Pinned& pinned) {
  loader::WarmOptions options;
  options.cancel = &InterruptRequested();
  const auto show = [&](const loader::WarmProgress& now) {
    progress.Update("reading " + file + ": " + FormatBytes(now.done_bytes) + " of " +
                    FormatBytes(now.wanted_bytes));
  };
  RETURN_IF_ERROR(loader::WarmFile(file, 1.0, options, show));
  ASSIGN_OR_RETURN(os::MappedFile mapping, os::MappedFile::Map(file));
  for (int64_t done = 0; done < mapping.bytes(); done += kWindowBytes) {
    if (InterruptRequested())
      return Error(ErrorCode::kInterrupted, "interrupted before all was pinned");
    const int64_t bytes = std::min(kWindowBytes, mapping.bytes() - done);
    ASSIGN_OR_RETURN(const int64_t locked, os::LockRange(mapping.data() + done, bytes));
    pinned.locked_bytes += locked;
    progress.Update("locking " + file + ": " + FormatBytes(done + bytes) + " of " +
                    FormatBytes(mapping.bytes()));
  }
  progress.Clear();
  ASSIGN_OR_RETURN(const os::Residency residency, os::ReadResidency(file));
  pinned.bytes += mapping.bytes();
  pinned.resident_bytes += residency.resident_bytes;
  pinned.proof = residency.proof;
  pinned.mappings.push_back(std::move(mapping));
  return {};
}

// Bytes that the files have; an empty one cannot be mapped, and need not be.
Result<int64_t> BytesOf(const std::vector<std::string>& files) {
  int64_t bytes = 0;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const os::Residency residency, os::ReadResidency(file));
    if (residency.file_bytes == 0) return Error(ErrorCode::kCorrupt, file + " is empty");
    bytes += residency.file_bytes;
  }
  return bytes;
}

std::optional<double> MemoryPressure() {
  const Result<os::Psi> psi = os::ReadPsi(os::ProcRoot::Real(), os::PsiResource::kMemory);
  return psi.ok() ? psi->some.avg10 : std::nullopt;
}

LetGo Hold(const PinOptions& options) {
  const MonoTime start = MonoNow();
  while (true) {
    if (InterruptRequested()) return LetGo::kSignal;
    if (options.hold_ns && MonoNow() - start >= *options.hold_ns) return LetGo::kTime;
    const std::optional<double> pressure = MemoryPressure();
    if (pressure && *pressure > options.pressure_bound_percent) return LetGo::kPressure;
    int64_t nap_ns = kWatchEveryNs;
    if (options.hold_ns) nap_ns = std::min(nap_ns, *options.hold_ns - (MonoNow() - start));
    RealClock().SleepFor(std::max<int64_t>(nap_ns, 0));
  }
}

std::string_view LetGoName(LetGo why) {
  switch (why) {
    case LetGo::kSignal:
      return "signal";
    case LetGo::kTime:
      return "time";
    case LetGo::kPressure:
      return "pressure";
  }
  return "";
}

std::string PercentText(double percent) {
  char text[32];
  std::snprintf(text, sizeof text, "%g %%", percent);
  return text;
}

void Announce(const PinOptions& options, const Pinned& pinned, const CommonFlags& flags) {
  const bool watches = MemoryPressure().has_value();
  if (flags.json) {
    const nlohmann::json line = {{"schema", "rouse.pin/1"},
                                 {"event", "pinned"},
                                 {"files", options.files},
                                 {"bytes", pinned.bytes},
                                 {"locked_bytes", pinned.locked_bytes},
                                 {"resident_bytes", pinned.resident_bytes},
                                 {"proof", pinned.proof + ", VmLck"},
                                 {"pid", getpid()},
                                 {"watches_pressure", watches}};
    std::printf("%s\n", DumpJson(line).c_str());
  } else {
    const int columns = StdoutColumns(flags);
    const std::string held =
        watches
            ? "Held until Ctrl-C, or until tasks wait for memory for more than " +
                  PercentText(options.pressure_bound_percent) + " of 10 s."
            : "Held until Ctrl-C. This kernel does not tell memory pressure (/proc/pressure), so "
              "it is not watched.";
    const std::string text =
        Headed(DescribeFiles(options.files),
               FormatBytes(pinned.bytes) + " locked in memory (VmLck " +
                   FormatBytes(pinned.locked_bytes) + ", " + FormatBytes(pinned.resident_bytes) +
                   " resident by " + pinned.proof + ")",
               columns) +
        WrapText(held, {.columns = columns});
    std::fputs(text.c_str(), stdout);
  }
  std::fflush(stdout);
}

int Released(const PinOptions& options, LetGo why, int64_t held_ns, const CommonFlags& flags) {
  if (flags.json) {
    const nlohmann::json line = {{"schema", "rouse.pin/1"},
                                 {"event", "released"},
                                 {"reason", LetGoName(why)},
                                 {"held_ns", held_ns}};
    std::printf("%s\n", DumpJson(line).c_str());
  } else if (why != LetGo::kPressure) {
    std::printf("Let go after %s.\n", FormatDuration(held_ns).c_str());
  }
  std::fflush(stdout);
  if (why != LetGo::kPressure) return 0;
  return Fail(Error(ErrorCode::kState,
                    "let go of " + DescribeFiles(options.files) + " after " +
                        FormatDuration(held_ns) + ": tasks waited for memory for more than " +
                        PercentText(options.pressure_bound_percent) +
                        " of the last 10 s.\nThe machine is short of memory: pin a "
                        "smaller model, or raise --max-pressure"));
}

int Pin(const PinOptions& options, const CommonFlags& flags) {
  const Result<int64_t> bytes = BytesOf(options.files);
  if (!bytes.ok()) return Fail(bytes.error());
  const Status fits = CheckThatItFits(options.files, *bytes);
  if (!fits.ok()) return Fail(fits.error());
  InstallInterruptHandler();
  Pinned pinned;
  {
    Progress progress(flags);
    for (const std::string& file : options.files) {
      const Status status = PinOne(file, progress, pinned);
      if (status.ok()) continue;
      progress.Clear();
      return Fail(status.error());
    }
  }
  if (pinned.locked_bytes < pinned.bytes || pinned.resident_bytes < pinned.bytes) {
    return Fail(Error(ErrorCode::kState, DescribeFiles(options.files) + " is not wholly pinned: " +
                                             FormatBytes(pinned.locked_bytes) + " locked, " +
                                             FormatBytes(pinned.resident_bytes) +
                                             " resident, wanted " + FormatBytes(pinned.bytes)));
  }
  Announce(options, pinned, flags);
  const MonoTime start = MonoNow();
  const LetGo why = Hold(options);
  pinned.mappings.clear();
  return Released(options, why, MonoNow() - start, flags);
}

}  // namespace

int RunPin(int argc, const char* const* argv) {
  CLI::App app("Hold a file locked in memory while this runs", "pin");
  CommonFlags flags;
  AddCommonFlags(app, flags);
  std::string argument;
  std::string hold;
  PinOptions options;
  app.add_option("file", argument, "A file, or a model's name")->required();
  app.add_option("--for", hold, "Let go after this time (30s, 8h); without it, on Ctrl-C");
  app.add_option("--max-pressure", options.pressure_bound_percent,
                 "Let go when tasks wait for memory for more than this percentage of 10 s")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.footer(
      "Needs RLIMIT_MEMLOCK of at least the file's size, or CAP_IPC_LOCK (root). --json prints "
      "one\n"
      "line when the file is pinned and one when it is let go. Status 0 after Ctrl-C or --for, 3 "
      "when\n"
      "the file could not be pinned or memory pressure made it let go.\n\n"
      "Example: rouse pin smollm2-135m --for 8h");
  if (const std::optional<int> status = ParseArguments(app, argc, argv)) return *status;
  if (!hold.empty()) {
    const Result<int64_t> hold_ns = ParseDuration(hold);
    if (!hold_ns.ok()) return Fail(hold_ns.error().WithContext("pin: --for"));
    options.hold_ns = *hold_ns;
  }
  const Result<std::vector<std::string>> files = FilesOfArgument(argument);
  if (!files.ok()) return Fail(files.error());
  options.files = *files;
  return Pin(options, flags);
}

}  // namespace rouse::cli
