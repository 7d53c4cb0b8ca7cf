// What went wrong, as a value. An Error has a code (which decides the process's exit status) and a
// message that names the file, flag or setting that a user can change. Failures of the environment
// are Errors; a programmer's mistake is CHECK (base/check.h).
#pragma once

#include <string>
#include <string_view>

namespace rouse {

enum class ErrorCode {
  kUsage,        // the command line, a plan or an import is at fault; nothing was run
  kNotFound,     // a file, model, run or host that is not there
  kPermission,   // the kernel said EPERM or EACCES
  kUnsupported,  // this kernel, file system or engine has no such thing
  kIo,           // any other failed system call, a full disk included
  kCorrupt,      // bytes that are not what they should be
  kTimeout,
  kExhausted,  // memory, queue or another bounded resource is used up
  kState,      // a state (of a cache, a process, a database) that was not reached or is in the way
  kInterrupted,  // the user said stop
  kInternal,     // a library failed in a way that we did not foresee
};

std::string_view ErrorCodeName(ErrorCode code);

class Error {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  // From errno right after a failed call: "cannot open FILE: Permission denied". EACCES and EPERM
  // become kPermission, ENOENT kNotFound, ENOMEM kExhausted, ENOSYS and EOPNOTSUPP kUnsupported.
  static Error FromErrno(int error_number, std::string_view what);

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error with "CONTEXT: " in front of its message.
  Error WithContext(std::string_view context) const;

 private:
  ErrorCode code_;
  std::string message_;
};

// Exit status of a command that ended with this error (0 to 255), as `rouse --help` documents it:
// 2 for kUsage, 130 for kInterrupted, else 3.
int ExitStatus(const Error& error);

}  // namespace rouse
