// Whether a model's files are still those that were loaded: device, inode, size and time of the
// last change of each. It reads no content.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rouse::server {

struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t changed_ns = 0;  // mtime

  bool operator==(const FileIdentity&) const = default;
  bool SameFile(const FileIdentity& other) const {
    return device == other.device && inode == other.inode;
  }
};

// About 2 us a file. Empty when one of them can't be looked at.
std::optional<std::vector<FileIdentity>> ReadIdentities(const std::vector<std::string>& parts);

enum class FileChange {
  kNone,
  kReplaced,  // other files under the same names: who has the old ones mapped still has those
  kWritten,   // the same files with another size or time: a mapping shows the new bytes
  kGone,      // one can't be looked at
};
FileChange ChangeOf(const std::vector<FileIdentity>& loaded, const std::vector<std::string>& parts);

}  // namespace rouse::server
