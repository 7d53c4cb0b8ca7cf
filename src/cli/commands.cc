#include "cli/commands.h"

namespace rouse::cli {

std::span<const Command> Commands() { return {}; }

}  // namespace rouse::cli
