#include "server/file_identity.h"

#include <sys/stat.h>

#include "base/time.h"

namespace rouse::server {

std::optional<std::vector<FileIdentity>> ReadIdentities(const std::vector<std::string>& parts) {
  std::vector<FileIdentity> identities;
  identities.reserve(parts.size());
  for (const std::string& part : parts) {
    struct stat facts{};
    if (::stat(part.c_str(), &facts) != 0) return std::nullopt;
    identities.push_back(
        {.device = facts.st_dev,
         .inode = facts.st_ino,
         .bytes = facts.st_size,
         .changed_ns = facts.st_mtim.tv_sec * kNsPerSecond + facts.st_mtim.tv_nsec});
  }
  return identities;
}

FileChange ChangeOf(const std::vector<FileIdentity>& loaded,
                    const std::vector<std::string>& parts) {
  const auto now = ReadIdentities(parts);
  if (!now) return FileChange::kGone;
  if (*now == loaded) return FileChange::kNone;
  if (now->size() != loaded.size()) return FileChange::kReplaced;
  for (size_t i = 0; i < loaded.size(); ++i) {
    if ((*now)[i].SameFile(loaded[i]) && (*now)[i] != loaded[i]) return FileChange::kWritten;
  }
  return FileChange::kReplaced;
}

}  // namespace rouse::server
