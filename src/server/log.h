// Where the server's remarks go. The library prints nothing: the command that runs it decides.
#pragma once

#include <functional>
#include <string>

namespace rouse::server {

enum class LogLevel {
  kError,
  kNotice,  // once per start and stop
  kDetail,  // per load and request; for --verbose
};

// May be called from any thread, one line without a line break.
using Log = std::function<void(LogLevel level, const std::string& line)>;

}  // namespace rouse::server
