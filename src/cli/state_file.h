// The page-cache state of one file: read, as JSON (`rouse.state/1`), and as text with the strip
// picture along the file. Reading warms nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/block_device.h"
#include "os/page_cache.h"

namespace rouse::cli {

// A part of a model file that a forward pass needs together.
struct GroupState {
  std::string name;  // "header", "embedding", "blk.0", "output"
  int64_t bytes = 0;
  int64_t resident_bytes = 0;
};

struct FileState {
  std::string path;
  int64_t bytes = 0;
  std::optional<os::Residency> whole;  // empty when it can't be told, see `reason`
  std::string reason;
  std::vector<os::ByteRange> ranges;  // of `segments`: equal parts of the file
  std::vector<os::Residency> segments;
  std::vector<GroupState> groups;  // of a GGUF file, in graph order
  os::Mappers mappers;
  std::optional<int64_t> locked_bytes;  // empty when a mapper's share may not be read
  std::optional<os::Storage> storage;
};

// Errors: no such file, not a regular file, not readable. A residency that can't be told is none.
Result<FileState> ReadFileState(const std::string& path);

nlohmann::json FileStateJson(const FileState& state);

// For people, 80 columns.
// The path stands on one line, whatever its length; the rest fits into `columns`.
std::string FileStateText(const FileState& state, int columns);

// One character a segment: '#' wholly resident, '+' half and more, '-' less, '.' nothing.
std::string StripPicture(const std::vector<os::Residency>& segments);

// The groups as lines of a table, neighbours of the same kind and share joined: "blk.0 to blk.29".
std::string GroupTable(const std::vector<GroupState>& groups);

}  // namespace rouse::cli
