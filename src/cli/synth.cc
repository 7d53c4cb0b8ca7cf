// `rouse synth OUT.gguf`: writes a synthetic model of a given shape and quantization.
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/terminal_text.h"
#include "base/time.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/output_text.h"
#include "gguf/synthetic.h"

namespace rouse::cli {
namespace {

constexpr int64_t kProgressStepNs = 200 * kNsPerMs;
constexpr int64_t kPlainProgressStepNs = 5 * kNsPerSecond;

std::string Rate(int64_t bytes, int64_t duration_ns) {
  if (duration_ns <= 0) return "";
  const double per_second = static_cast<double>(bytes) / static_cast<double>(duration_ns) *
                            static_cast<double>(kNsPerSecond);
  return FormatBytes(static_cast<int64_t>(per_second)) + "/s";
}

// Shows bytes, rate and what is left, not more often than a reader can follow.
class WriteProgress {
 public:
  explicit WriteProgress(const CommonFlags& flags)
      : progress_(flags),
        step_ns_(isatty(STDERR_FILENO) == 1 ? kProgressStepNs : kPlainProgressStepNs),
        start_(MonoNow()),
        shown_(start_) {}

  void Update(int64_t done_bytes, int64_t total_bytes) {
    const MonoTime now = MonoNow();
    if (done_bytes == total_bytes) {
      progress_.Update("syncing " + FormatBytes(total_bytes) + " to disk");
      return;
    }
    if (now - shown_ < step_ns_) return;
    shown_ = now;
    const int64_t elapsed_ns = now - start_;
    const auto left_ns = static_cast<int64_t>(static_cast<double>(elapsed_ns) *
                                              static_cast<double>(total_bytes - done_bytes) /
                                              static_cast<double>(done_bytes));
    progress_.Update("writing " + FormatBytes(done_bytes) + " of " + FormatBytes(total_bytes) +
                     ", " + Rate(done_bytes, elapsed_ns) + ", " + FormatDuration(left_ns) +
                     " left");
  }

 private:
  Progress progress_;
  int64_t step_ns_;
  MonoTime start_;
  MonoTime shown_;
};

void PrintReport(const std::string& path, const gguf::SyntheticSpec& spec,
                 const gguf::SyntheticReport& report, bool json) {
  if (json) {
    const nlohmann::json object = {{"schema", "rouse.synth/1"},
                                   {"path", path},
                                   {"bytes", report.file_bytes},
                                   {"like", spec.like},
                                   {"quant", spec.quant},
                                   {"vocabulary_size", report.vocabulary_size},
                                   {"parameters", report.parameters},
                                   {"seed", spec.seed},
                                   {"write_ns", report.duration_ns}};
    std::printf("%s\n", DumpJson(object, 2).c_str());
    return;
  }
  const double millions = static_cast<double>(report.parameters) / 1e6;
  std::printf("%s: %s, %.0f M weights, %lld tokens, written and synced in %s (%s)\n",
              SafeText(path).c_str(), FormatBytes(report.file_bytes).c_str(), millions,
              static_cast<long long>(report.vocabulary_size),
              FormatDuration(report.duration_ns).c_str(),
              Rate(report.file_bytes, report.duration_ns).c_str());
}

}  // namespace

int RunSynth(int argc, const char* const* argv) {
  CLI::App app("Write a synthetic model: the shape of a real one, with random weights", "synth");
  CommonFlags flags;
  AddCommonFlags(app, flags);
  std::string path;
  gguf::SyntheticSpec spec;
  bool force = false;
  app.add_option("OUT.gguf", path, "The file to write")->required();
  app.add_option("--like", spec.like, "Shape: llama-1b, llama-3b, qwen-0.5b, moe-small or tiny")
      ->capture_default_str();
  app.add_option("--quant", spec.quant, "Type of the matrices: q4_0, q8_0 or f16")
      ->capture_default_str();
  app.add_option("--vocab", spec.vocabulary, "Vocabulary: 128k (128256 tokens) or 32k (32000)")
      ->capture_default_str();
  app.add_option("--seed", spec.seed, "The same seed gives the same file")->capture_default_str();
  app.add_flag("--force", force, "Replace OUT.gguf if it is there");
  app.footer(
      "llama-server and rouse serve load it like the real model of that shape, in the same time "
      "and\n"
      "memory; its answers are noise. The file appears when it is whole and on disk.\n\n"
      "Example: rouse synth /tmp/1b.gguf --like llama-1b --quant q4_0");
  if (const std::optional<int> status = ParseArguments(app, argc, argv)) return *status;
  InstallInterruptHandler();

  if (!force && access(path.c_str(), F_OK) == 0) {
    return Fail(Error(ErrorCode::kState, path + " is there already; --force replaces it"));
  }
  gguf::SyntheticReport report;
  {
    WriteProgress progress(flags);
    const auto update = [&progress](int64_t done_bytes, int64_t total_bytes) {
      progress.Update(done_bytes, total_bytes);
    };
    Result<gguf::SyntheticReport> result =
        gguf::WriteSynthetic(path, spec, update, &InterruptRequested());
    if (!result.ok()) return Fail(result.error());
    report = *result;
  }
  PrintReport(path, spec, report, flags.json);
  return 0;
}

}  // namespace rouse::cli
