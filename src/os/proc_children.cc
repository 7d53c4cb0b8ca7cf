#include "os/proc_children.h"

#include <algorithm>

#include "base/strings.h"

namespace rouse::os {

// "71 98 \n"
std::vector<int> ReadChildren(const ProcRoot& root, int pid) {
  std::vector<int> children;
  const std::string tasks = "proc/" + std::to_string(pid) + "/task";
  for (const std::string& thread : root.List(tasks)) {
    const Result<std::string> text = root.Read(tasks + "/" + thread + "/children");
    if (!text.ok()) continue;  // the thread has ended
    for (const std::string_view word : SplitAt(TrimBlanks(*text), ' ')) {
      const std::optional<int64_t> child = ParseInt64(word);
      if (child && *child > 0) children.push_back(static_cast<int>(*child));
    }
  }
  std::sort(children.begin(), children.end());
  return children;
}

}  // namespace rouse::os
