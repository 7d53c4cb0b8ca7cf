// `rouse import`: attempts that were measured elsewhere become a run. Everything is read and
// checked before anything is stored.
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "results/foreign_import.h"
#include "results/json.h"
#include "results/metrics.h"
#include "results/store.h"

namespace rouse::cli {
namespace {

using results::Attempt;
using results::Run;

// A longer line is not an attempt but a mistake, or an attack on our memory.
constexpr size_t kLongestLineBytes = size_t{16} << 20U;

struct Imported {
  Run run;
  std::vector<Attempt> attempts;
  std::map<std::string, int64_t> extra_fields;  // name -> lines that have it
  std::vector<std::string> remarks;             // what a foreign file cannot support
};

struct ImportFlags {
  std::string path;
  std::string database;
  std::string name;
  std::string format = "auto";
  std::string condition;
};

// Files of other tools are read as a whole, so their size is bounded.
constexpr size_t kLargestForeignBytes = size_t{512} << 20U;

// What is read line by line, and what was seen so far.
class Importer {
 public:
  explicit Importer(std::string name) : name_(std::move(name)) {}

  Status Take(const std::string& line) {
    ++line_number_;
    std::string_view text = line;
    if (line_number_ == 1 && text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return {};
    Result<Attempt> attempt = results::ParseAttempt(text, results::ParseFor::kImport);
    if (!attempt.ok()) return AtLine(attempt.error().message());
    if (attempt->id) {
      const auto [first, is_new] = lines_of_ids_.emplace(*attempt->id, line_number_);
      if (!is_new) {
        return AtLine("id " + std::to_string(*attempt->id) + " stands twice (first in line " +
                      std::to_string(first->second) + ")");
      }
    }
    for (const std::string& field : results::ExtraFields(*attempt)) {
      ++imported_.extra_fields[field];
    }
    if (conditions_.insert(attempt->condition).second) {
      results::ConditionRow row;
      row.name = attempt->condition;
      imported_.run.conditions.push_back(std::move(row));
    }
    attempt->run.reset();  // the number of a run in another database
    imported_.attempts.push_back(*std::move(attempt));
    return {};
  }

  Result<Imported> Finish() {
    if (imported_.attempts.empty()) {
      return Error(ErrorCode::kUsage, name_ + " holds no attempts. Nothing was stored.");
    }
    return std::move(imported_);
  }

  size_t count() const { return imported_.attempts.size(); }

  Error AtLine(const std::string& message) const {
    return {ErrorCode::kUsage,
            name_ + ":" + std::to_string(line_number_) + ": " + message + "\nNothing was stored."};
  }

 private:
  std::string name_;
  int64_t line_number_ = 0;
  std::unordered_map<int64_t, int64_t> lines_of_ids_;
  std::unordered_set<std::string> conditions_;
  Imported imported_;
};

// Our own lines: one attempt each.
Result<Imported> ReadLines(std::istream& in, const std::string& path, Progress& progress) {
  Importer importer(path == "-" ? "stdin" : path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.size() > kLongestLineBytes) {
      return Error(ErrorCode::kUsage, path + ": a line is longer than " +
                                          FormatBytes(static_cast<int64_t>(kLongestLineBytes)) +
                                          "; one attempt is one line. Nothing was stored.");
    }
    RETURN_IF_ERROR(importer.Take(line));
    if (importer.count() % 10'000 == 0 && importer.count() > 0) {
      progress.Update("read " + std::to_string(importer.count()) + " attempts");
    }
    if (InterruptRequested()) return Error(ErrorCode::kInterrupted, "nothing was stored");
  }
  if (in.bad()) return Error(ErrorCode::kIo, "cannot read " + path + ": nothing was stored");
  return importer.Finish();
}

Result<Imported> ReadForeign(results::ForeignFormat format, const std::string& text,
                             const ImportFlags& import_flags) {
  Result<results::ForeignAttempts> parsed =
      results::ParseForeign(format, text, import_flags.condition);
  if (!parsed.ok()) return parsed.error().WithContext(import_flags.path);
  Imported imported;
  std::unordered_set<std::string> seen;
  for (const Attempt& attempt : parsed->attempts) {
    if (!seen.insert(attempt.condition).second) continue;
    results::ConditionRow row;
    row.name = attempt.condition;
    imported.run.conditions.push_back(std::move(row));
  }
  imported.attempts = std::move(parsed->attempts);
  imported.remarks = std::move(parsed->remarks);
  imported.remarks.insert(imported.remarks.begin(),
                          "read as " + std::string(results::ForeignFormatName(format)));
  return imported;
}

// A prefix tells whether the file is ours: the first line of ours is one object with "condition".
bool LooksLikeOurs(const std::string& text) {
  const std::string first = text.substr(0, text.find('\n'));
  return results::ParseAttempt(first, results::ParseFor::kImport).ok();
}

Result<Imported> ReadAny(std::istream& in, const ImportFlags& import_flags, Progress& progress) {
  if (import_flags.format == "rouse") return ReadLines(in, import_flags.path, progress);
  std::string first;
  std::getline(in, first);
  if (import_flags.format == "auto" && LooksLikeOurs(first)) {
    in.clear();
    in.seekg(0);
    if (in.good()) return ReadLines(in, import_flags.path, progress);
    in.clear();  // a pipe: what was read is put before the rest
  }
  std::string text = first + '\n' + std::string(std::istreambuf_iterator<char>(in), {});
  if (text.size() > kLargestForeignBytes) {
    return Error(ErrorCode::kUsage, import_flags.path + " is larger than " +
                                        FormatBytes(static_cast<int64_t>(kLargestForeignBytes)));
  }
  std::optional<results::ForeignFormat> format =
      import_flags.format == "auto" ? results::DetectForeignFormat(text)
                                    : results::ForeignFormatFromName(import_flags.format);
  if (format) return ReadForeign(*format, text, import_flags);
  std::istringstream lines(text);
  return ReadLines(lines, import_flags.path, progress);
}

Result<Imported> ReadAttempts(const ImportFlags& import_flags, Progress& progress) {
  const std::string& path = import_flags.path;
  std::ifstream file;
  const bool from_stdin = path == "-";
  if (!from_stdin) {
    std::error_code code;
    if (std::filesystem::is_directory(path, code)) {
      return Error(ErrorCode::kUsage, path + " is a directory, not a file of attempts");
    }
    errno = 0;
    file.open(path, std::ios::binary);
    if (!file.is_open()) {
      const Error error = Error::FromErrno(errno, "cannot open " + path);
      // A file that is not there is a mistake in the command.
      return error.code() == ErrorCode::kNotFound ? Error(ErrorCode::kUsage, error.message())
                                                  : error;
    }
  }
  std::istream& in = from_stdin ? std::cin : file;
  return ReadAny(in, import_flags, progress);
}

void RemarkOnExtraFields(const Imported& imported, Progress& progress) {
  std::vector<std::string_view> known = {"condition", "outcome",    "marks_ns", "stages_ns",
                                         "tokens",    "connection", "counters", "warnings"};
  for (const results::Metric& metric : results::Metrics()) known.push_back(metric.name);
  for (const auto& [field, lines] : imported.extra_fields) {
    const std::string nearest = NearestName(field, known);
    progress.Line("kept, but not used: field \"" + field + "\" in " + std::to_string(lines) +
                  (lines == 1 ? " line" : " lines") +
                  (nearest.empty() ? "" : " (did you mean " + nearest + "?)"));
  }
}

int Import(const ImportFlags& import_flags, const CommonFlags& flags) {
  const auto& [path, database, name, format, condition] = import_flags;
  Progress progress(flags);
  const int64_t started_wall_ns = WallNowNs();
  Result<Imported> imported = ReadAttempts(import_flags, progress);
  progress.Clear();
  if (!imported.ok()) return Fail(imported.error());
  Run& run = imported->run;
  run.name = !name.empty() ? name : std::filesystem::path(path).filename().string();
  run.kind = "import";
  run.status = "complete";
  run.rouse_version = ROUSE_VERSION;
  run.started_wall_ns = started_wall_ns;
  run.ended_wall_ns = WallNowNs();
  const Result<std::string> store_path = results::StorePath(database);
  if (!store_path.ok()) return Fail(store_path.error());
  Result<results::Store> store = results::Store::Open(*store_path, results::OpenMode::kReadWrite);
  if (!store.ok()) return Fail(store.error());
  const Result<int64_t> id = store->ImportRun(run, imported->attempts);
  if (!id.ok()) return Fail(id.error());
  for (const std::string& remark : imported->remarks) progress.Line(remark);
  RemarkOnExtraFields(*imported, progress);
  if (flags.json) {
    std::printf("{\"run\": %lld}\n", static_cast<long long>(*id));
  } else {
    std::printf(
        "Run %lld: %s in %s, stored in %s.\n"
        "rouse report %lld shows them.\n",
        static_cast<long long>(*id), FormatCount(std::ssize(imported->attempts), "attempt").c_str(),
        FormatCount(std::ssize(run.conditions), "condition").c_str(), SafeText(*store_path).c_str(),
        static_cast<long long>(*id));
  }
  return 0;
}

}  // namespace

int RunImport(int argc, const char* const* argv) {
  CLI::App app(
      "Store attempts that were measured elsewhere as a new run: one JSON object a line, "
      "as docs/results_format.md describes it. A line needs \"condition\", \"outcome\" "
      "and, when that is ok, \"ttft_ns\".",
      "import");
  CommonFlags flags;
  ImportFlags import_flags;
  app.add_option("FILE", import_flags.path, "The file of attempts, or - for stdin")->required();
  app.add_option("--db", import_flags.database,
                 "The database (default: $ROUSE_DB or the user's own)");
  app.add_option("--name", import_flags.name, "The run's name (default: the file's name)");
  std::vector<std::string> formats = {"auto", "rouse"};
  for (const std::string_view known : results::ForeignFormatNames()) formats.emplace_back(known);
  app.add_option("--format", import_flags.format,
                 "auto (default), rouse, vllm, aiperf, guidellm, llama-bench or ollama-verbose")
      ->check(CLI::IsMember(formats));
  app.add_option("--condition", import_flags.condition,
                 "The condition of all attempts of a foreign file (default: from the file)");
  AddCommonFlags(app, flags);
  app.footer(
      "Example:\n"
      "  echo '{\"condition\":\"warm\",\"outcome\":\"ok\",\"ttft_ns\":71000000}' > mine.jsonl\n"
      "  rouse import mine.jsonl --name mine\n");
  if (const auto status = ParseArguments(app, argc, argv)) return *status;
  InstallInterruptHandler();
  return Import(import_flags, flags);
}

}  // namespace rouse::cli
