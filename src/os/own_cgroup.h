// Control groups that rouse makes for its children: named after the tool, so that one whose tool,
// keeper and warden were all killed is found again and removed. Where they are made is the caller's
// to say; whether they may be is the kernel's. Joining and leaving is os/process.h's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rouse::os {

// Makes PARENT/PREFIX-PID-N, N counting within this process. Errors as the kernel says.
Result<std::string> MakeCgroup(const std::string& parent, std::string_view prefix);

// Removes those below `parent` whose tool has ended and that have no members; returns their
// directories. A few 10 us.
std::vector<std::string> RemoveStaleCgroups(const std::string& parent, std::string_view prefix);

}  // namespace rouse::os
