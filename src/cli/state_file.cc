#include "cli/state_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/terminal_text.h"
#include "base/units.h"
#include "cli/output_text.h"
#include "cli/residency_json.h"
#include "gguf/header.h"

namespace rouse::cli {
namespace {

constexpr int kLabelColumns = 19;
constexpr int kGroupColumns = 24;
constexpr int64_t kSegments = 72;  // columns of the strip picture
constexpr double kWarm = 0.99;     // as the contract has it
constexpr double kCold = 0.01;

// At most kSegments equal parts, whole pages each.
std::vector<os::ByteRange> Segments(int64_t file_bytes) {
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  const int64_t pages = (file_bytes + page_bytes - 1) / page_bytes;
  const int64_t count = std::min(kSegments, pages);
  std::vector<os::ByteRange> ranges;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = i * pages / count * page_bytes;
    const int64_t end = std::min(file_bytes, (i + 1) * pages / count * page_bytes);
    ranges.push_back({start, end - start});
  }
  return ranges;
}

// Header and tensor groups with their shares; empty for what is no GGUF file. The header is read
// past the page cache, so looking at a cold file leaves it cold.
std::vector<GroupState> ReadGroups(const std::string& path) {
  const Result<gguf::Header> header = gguf::ReadHeader(path, {.leave_page_cache_alone = true});
  if (!header.ok()) return {};
  std::vector<GroupState> groups;
  std::vector<os::ByteRange> ranges;
  std::vector<size_t> group_of_range;
  const auto add_range = [&](const gguf::FileRange& range) {
    ranges.push_back({range.offset, range.bytes});
    group_of_range.push_back(groups.size() - 1);
  };
  groups.push_back({"header", 0, 0});
  add_range({0, header->data_offset});
  for (const gguf::Group& group : gguf::GraphOrder(*header)) {
    groups.push_back({group.name, 0, 0});
    for (const gguf::FileRange& range : group.ranges) add_range(range);
  }
  const Result<std::vector<os::Residency>> shares = os::ReadResidencyRanges(path, ranges);
  if (!shares.ok()) return {};
  for (size_t i = 0; i < shares->size(); ++i) {
    groups[group_of_range[i]].bytes += (*shares)[i].file_bytes;
    groups[group_of_range[i]].resident_bytes += (*shares)[i].resident_bytes;
  }
  return groups;
}

std::optional<int64_t> LockedBytes(const os::Mappers& mappers) {
  int64_t locked = 0;
  for (const os::Mapper& mapper : mappers.mappers) {
    if (!mapper.locked_bytes) return std::nullopt;
    locked += *mapper.locked_bytes;
  }
  return locked;
}

double Ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 1.0 : static_cast<double>(part) / static_cast<double>(whole);
}

// "blk.7" -> {"blk.", 7}; a number of -1 for names without one.
struct NumberedName {
  std::string stem;
  int64_t number = -1;
};
NumberedName SplitNumber(const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot + 1 == name.size()) return {name, -1};
  if (name.find_first_not_of("0123456789", dot + 1) != std::string::npos) return {name, -1};
  return {name.substr(0, dot + 1), std::stoll(name.substr(dot + 1))};
}

struct GroupLine {
  std::string first;
  std::string last;
  int64_t groups = 1;
  int64_t bytes = 0;
  int64_t resident_bytes = 0;
};

std::vector<GroupLine> JoinGroups(const std::vector<GroupState>& groups) {
  std::vector<GroupLine> lines;
  for (const GroupState& group : groups) {
    const NumberedName name = SplitNumber(group.name);
    if (!lines.empty() && name.number >= 0) {
      GroupLine& before = lines.back();
      const NumberedName last = SplitNumber(before.last);
      const bool same_share = RatioText(Ratio(before.resident_bytes, before.bytes)) ==
                              RatioText(Ratio(group.resident_bytes, group.bytes));
      if (last.stem == name.stem && last.number + 1 == name.number && same_share) {
        before.last = group.name;
        before.groups += 1;
        before.bytes += group.bytes;
        before.resident_bytes += group.resident_bytes;
        continue;
      }
    }
    lines.push_back({group.name, group.name, 1, group.bytes, group.resident_bytes});
  }
  return lines;
}

std::string StorageText(const os::Storage& storage) {
  std::string text = storage.file_system;
  if (!storage.device) return text + " (" + storage.no_device_reason + ")";
  text += " on " + storage.device->name;
  if (storage.device->model) text += " (" + *storage.device->model + ")";
  if (storage.device->read_ahead_bytes) {
    text += ", read-ahead " + FormatBytes(*storage.device->read_ahead_bytes);
  }
  if (storage.device->runtime_status == "suspended") text += ", suspended: it has to wake up first";
  return text;
}

std::string MapperText(const os::Mapper& mapper) {
  std::string text = mapper.comm + " (pid " + std::to_string(mapper.pid) + ")";
  if (mapper.resident_bytes) text += ", " + FormatBytes(*mapper.resident_bytes) + " in its table";
  if (mapper.locked_bytes.value_or(0) > 0) {
    text += ", " + FormatBytes(*mapper.locked_bytes) + " locked";
  }
  return text;
}

std::string MappersText(const os::Mappers& mappers, int columns) {
  std::string text;
  for (const os::Mapper& mapper : mappers.mappers) {
    text += Labelled("mapped by", MapperText(mapper), kLabelColumns, columns);
  }
  if (mappers.unreadable_processes > 0) {
    text += Labelled("not looked at",
                     std::to_string(mappers.unreadable_processes) + " processes" +
                         (geteuid() == 0 ? " that the kernel hides, even from root"
                                         : " of other users (root can)"),
                     kLabelColumns, columns);
  }
  return text;
}

}  // namespace

Result<FileState> ReadFileState(const std::string& path) {
  FileState state;
  state.path = path;
  struct stat facts{};
  if (stat(path.c_str(), &facts) != 0) return Error::FromErrno(errno, "cannot look at " + path);
  if (access(path.c_str(), R_OK) != 0) return Error::FromErrno(errno, "cannot read " + path);
  if (!S_ISREG(facts.st_mode)) {
    return Error(ErrorCode::kNotFound,
                 path + (S_ISDIR(facts.st_mode) ? " is a directory: name a file in it"
                                                : " is not a regular file"));
  }
  state.bytes = facts.st_size;
  const Result<os::Residency> whole = os::ReadResidency(path);
  if (whole.ok()) {
    state.whole = *whole;
    state.ranges = Segments(state.bytes);
    const Result<std::vector<os::Residency>> segments = os::ReadResidencyRanges(path, state.ranges);
    if (segments.ok()) state.segments = *segments;
    state.groups = ReadGroups(path);
  } else {
    state.reason = whole.error().message();
  }
  const Result<os::Mappers> mappers = os::FindMappers(os::ProcRoot::Real(), path);
  if (mappers.ok()) state.mappers = *mappers;
  state.locked_bytes = LockedBytes(state.mappers);
  const Result<os::Storage> storage = os::ReadStorage(os::ProcRoot::Real(), path);
  if (storage.ok()) state.storage = *storage;
  return state;
}

nlohmann::json FileStateJson(const FileState& state) {
  const auto or_null = [](const auto& optional) {
    return optional ? nlohmann::json(*optional) : nlohmann::json();
  };
  nlohmann::json json = {{"schema", "rouse.state/1"},
                         {"file", state.path},
                         {"bytes", state.bytes},
                         {"resident_bytes", nullptr},
                         {"resident_ratio", nullptr},
                         {"proof", nullptr},
                         {"dirty_bytes", nullptr},
                         {"writeback_bytes", nullptr},
                         {"sampled_pages", nullptr},
                         {"estimate", nullptr},
                         {"locked_bytes", or_null(state.locked_bytes)},
                         {"segments", nlohmann::json::array()},
                         {"groups", nlohmann::json::array()},
                         {"mappers", nlohmann::json::array()},
                         {"unreadable_processes", state.mappers.unreadable_processes},
                         {"null_reasons", nlohmann::json::object()}};
  if (state.whole) {
    PutResidency(*state.whole, json);
    json["dirty_bytes"] = or_null(state.whole->dirty_bytes);
    json["writeback_bytes"] = or_null(state.whole->writeback_bytes);
    if (!state.whole->dirty_bytes) {
      json["null_reasons"]["dirty_bytes"] =
          "only cachestat tells it; this is " + state.whole->proof;
    }
  } else {
    json["null_reasons"]["resident_bytes"] = state.reason;
    json["null_reasons"]["resident_ratio"] = state.reason;
  }
  if (!state.locked_bytes) {
    json["null_reasons"]["locked_bytes"] = "the smaps of a process that maps it may not be read";
  }
  for (size_t i = 0; i < state.segments.size(); ++i) {
    json["segments"].push_back({{"offset", state.ranges[i].offset},
                                {"bytes", state.ranges[i].bytes},
                                {"resident_ratio", ExactRatio(state.segments[i])}});
  }
  const bool exact = state.whole && state.whole->Exact();
  for (const GroupState& group : state.groups) {
    const double ratio = Ratio(group.resident_bytes, group.bytes);
    json["groups"].push_back({{"name", group.name},
                              {"bytes", group.bytes},
                              {"resident_ratio", exact ? nlohmann::json(ratio) : nullptr}});
  }
  for (const os::Mapper& mapper : state.mappers.mappers) {
    json["mappers"].push_back({{"pid", mapper.pid},
                               {"comm", mapper.comm},
                               {"resident_bytes", or_null(mapper.resident_bytes)},
                               {"locked_bytes", or_null(mapper.locked_bytes)}});
  }
  return json;
}

std::string StripPicture(const std::vector<os::Residency>& segments) {
  std::string strip;
  for (const os::Residency& segment : segments) {
    const double ratio = segment.Ratio();
    strip += ratio >= kWarm ? '#' : ratio >= 0.5 ? '+' : ratio > kCold ? '-' : '.';
  }
  return strip;
}

std::string GroupTable(const std::vector<GroupState>& groups) {
  std::string text;
  for (const GroupLine& line : JoinGroups(groups)) {
    std::string name = line.first;
    if (line.groups > 1) name += " to " + line.last;
    text += "  " + PadRight(FitText(name, kGroupColumns), kGroupColumns) + " " +
            PadLeft(FormatBytes(line.bytes), 10) + "  " +
            PadLeft(RatioText(Ratio(line.resident_bytes, line.bytes)), 8) + "\n";
  }
  return text;
}

std::string FileStateText(const FileState& state, int columns) {
  std::string text = SafeText(state.path) + "\n";
  const auto line = [&](std::string_view label, const std::string& words) {
    text += Labelled(label, words, kLabelColumns, columns);
  };
  if (!state.whole) {
    line("in the page cache", "unknown: " + state.reason);
    return text + MappersText(state.mappers, columns);
  }
  const os::Residency& whole = *state.whole;
  line("in the page cache", ResidencyText(whole));
  if (!whole.Exact()) {
    line("",
         "(the kernel tells the exact number to the file's owner, to whoever may write it, and to "
         "root)");
  }
  const int64_t unwritten = whole.dirty_bytes.value_or(0) + whole.writeback_bytes.value_or(0);
  if (unwritten > 0) line("not yet on disk", FormatBytes(unwritten));
  if (state.locked_bytes.value_or(0) > 0) {
    line("locked", FormatBytes(*state.locked_bytes) + " (cannot be dropped)");
  }
  text += MappersText(state.mappers, columns);
  if (state.storage) line("storage", StorageText(*state.storage));
  if (!state.segments.empty()) {
    text += "\n  |" + StripPicture(state.segments) + "|\n";
    text += WrapText("start of the file, " + FormatBytes(state.ranges[0].bytes) +
                         " a mark: # all, + most, - some, . nothing resident",
                     {.columns = columns, .indent = 3, .hanging = 3});
  }
  if (!state.groups.empty()) {
    text += "\n" + WrapText(
                       "in the order in which a first token needs it, and the share that is "
                       "resident",
                       {.columns = columns, .indent = 2, .hanging = 2});
    text += GroupTable(state.groups);
  }
  return text;
}

}  // namespace rouse::cli
