// `rouse evict FILE`: drops a file from the page cache, and proves it or says why pages stayed.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/terminal_text.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/file_argument.h"
#include "cli/output_text.h"
#include "cli/residency_json.h"
#include "os/page_cache.h"

namespace rouse::cli {
namespace {

nlohmann::json ReportJson(const std::string& file, const os::EvictReport& report) {
  const auto or_null = [](const auto& optional) {
    return optional ? nlohmann::json(*optional) : nlohmann::json();
  };
  nlohmann::json json = {
      {"schema", "rouse.evict/1"},
      {"file", file},
      {"bytes", report.after.file_bytes},
      {"reached", report.Cold()},
      {"resident_before_bytes",
       report.before.Exact() ? nlohmann::json(report.before.resident_bytes) : nlohmann::json()},
      {"why_not", report.Cold() ? nlohmann::json() : nlohmann::json(report.WhyNot())},
      {"dirty_bytes", or_null(report.after.dirty_bytes)},
      {"locked_bytes", report.locked_bytes},
      {"unreadable_processes", report.who.unreadable_processes},
      {"mappers", nlohmann::json::array()}};
  PutResidency(report.after, json);
  for (const os::Mapper& mapper : report.who.mappers) {
    json["mappers"].push_back({{"pid", mapper.pid},
                               {"comm", mapper.comm},
                               {"resident_bytes", or_null(mapper.resident_bytes)},
                               {"locked_bytes", or_null(mapper.locked_bytes)}});
  }
  return json;
}

// What to do about it, by the reason.
std::string Advice(const os::EvictReport& report, const std::string& file) {
  if (!report.who.mappers.empty()) {
    return "Stop it, or measure that server itself: rouse measure --target http://HOST:PORT";
  }
  if (report.after.dirty_bytes.value_or(0) > 0) {
    return "Something still writes to it: try again when that has ended.";
  }
  if (report.who.unreadable_processes > 0) {
    return "See who maps it: sudo rouse state " + ShellQuoted(file);
  }
  return "Try again when nothing reads it.";
}

}  // namespace

int RunEvict(int argc, const char* const* argv) {
  CLI::App app("Drop a file from the page cache, and prove it", "evict");
  CommonFlags flags;
  AddCommonFlags(app, flags);
  std::string argument;
  app.add_option("file", argument, "A file, or a model's name")->required();
  app.footer(
      "Needs no privilege. Pages that a process maps or locks, or that are not written to disk "
      "yet,\n"
      "cannot be dropped: then the command says which and why, and ends with status 3. Reached "
      "means\n"
      "that at most 1 % of the file is resident.\n\nExample: rouse evict smollm2-135m");
  if (const std::optional<int> status = ParseArguments(app, argc, argv)) return *status;
  const Result<std::vector<std::string>> files = FilesOfArgument(argument);
  if (!files.ok()) return Fail(files.error());

  nlohmann::json all = nlohmann::json::array();
  int status = 0;
  for (const std::string& file : *files) {
    const Result<os::EvictReport> report = os::EvictFile(file);
    if (!report.ok()) {
      status = Fail(report.error());
      break;
    }
    if (flags.json) {
      all.push_back(ReportJson(file, *report));
    } else if (report->Cold()) {
      const std::string text = Headed(file,
                                      "in the page cache were " + ResidencyText(report->before) +
                                          "; now " + ResidencyText(report->after),
                                      StdoutColumns(flags));
      std::fputs(text.c_str(), stdout);
    }
    if (!report->Cold()) {
      status = Fail(Error(ErrorCode::kState, "cannot drop " + file + " from the page cache: " +
                                                 report->WhyNot() + ".\n" + Advice(*report, file)));
    }
  }
  if (flags.json && !all.empty()) {
    std::fputs((DumpJson(all.size() == 1 ? all[0] : all, 2) + "\n").c_str(), stdout);
  }
  return status;
}

}  // namespace rouse::cli
