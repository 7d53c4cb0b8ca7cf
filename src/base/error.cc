#include "base/error.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

namespace rouse {

std::string_view ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kPermission:
      return "permission";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kExhausted:
      return "exhausted";
    case ErrorCode::kState:
      return "state";
    case ErrorCode::kInterrupted:
      return "interrupted";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

Error Error::FromErrno(int error_number, std::string_view what) {
  ErrorCode code = ErrorCode::kIo;
  switch (error_number) {
    case EACCES:
    case EPERM:
      code = ErrorCode::kPermission;
      break;
    case ENOENT:
      code = ErrorCode::kNotFound;
      break;
    case ENOMEM:
      code = ErrorCode::kExhausted;
      break;
    case ENOSYS:
    case EOPNOTSUPP:
      code = ErrorCode::kUnsupported;
      break;
    case ETIMEDOUT:
      code = ErrorCode::kTimeout;
      break;
    default:
      break;
  }
  return {code, std::string(what) + ": " + std::strerror(error_number)};
}

Error Error::WithContext(std::string_view context) const {
  return {code_, std::string(context) + ": " + message_};
}

int ExitStatus(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kUsage:
      return 2;
    case ErrorCode::kInterrupted:
      return 130;
    default:
      return 3;
  }
}

}  // namespace rouse
