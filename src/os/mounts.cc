#include "os/mounts.h"

#include <algorithm>

#include "os/kernel_text.h"

namespace rouse::os {
namespace {

// Blanks, tabs, line feeds and backslashes inside names are written in octal: "\040".
std::string Unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                 (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

// 27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
// Between the sixth field and the " - " stand any number of optional ones.
Result<std::vector<Mount>> ReadMounts(const ProcRoot& root) {
  ASSIGN_OR_RETURN(const std::string text, root.Read("proc/self/mountinfo"));
  std::vector<Mount> mounts;
  for (const std::string_view line : SplitAt(text, '\n')) {
    const std::vector<std::string_view> fields = SplitBlanks(line);
    if (fields.empty()) continue;
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (dash - fields.begin() < 6 || fields.end() - dash < 3) {
      return Error(ErrorCode::kCorrupt, "/proc/self/mountinfo: a line is cut");
    }
    Mount mount;
    mount.device = fields[2];
    mount.root = Unescape(fields[3]);
    mount.mount_point = Unescape(fields[4]);
    mount.options = fields[5];
    mount.type = dash[1];
    mount.source = Unescape(dash[2]);
    if (fields.end() - dash > 3) mount.super_options = dash[3];
    mounts.push_back(std::move(mount));
  }
  if (mounts.empty()) return Error(ErrorCode::kCorrupt, "/proc/self/mountinfo is empty");
  return mounts;
}

}  // namespace rouse::os
