// rouse worker: the lab's own load processes. Hidden: `rouse measure` starts them.
#include "lab/worker.h"

#include <string>
#include <vector>

#include "cli/commands.h"

namespace rouse::cli {

int RunWorker(int argc, const char* const* argv) {
  return lab::RunWorker(std::vector<std::string>(argv, argv + argc));
}

}  // namespace rouse::cli
