// For tests, which run as root where they need this: what another user sees.
#pragma once

#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace rouse::os {

// Runs `body` in a child process as a user without any privilege; returns what it exits with.
inline int AsNobody(const std::function<int()>& body) {
  constexpr unsigned kNobody = 65534;
  const pid_t pid = fork();
  if (pid == 0) {
    if (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(99);
    _exit(body());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

}  // namespace rouse::os
