// The keeper and the wardens: the small processes between the tool and the commands that it starts
// (process.h says why). This file is their interface to process.cc and nothing else's.
//
// What goes over the sockets (SOCK_SEQPACKET, one message each):
//   tool -> keeper  one byte kRequestSpawn with the descriptors of SpawnDescriptors
//   warden -> tool  a SpawnReply, with the child's pidfd when it started
//   tool -> warden  one byte kRequestStatus or kRequestKillTree
//   warden -> tool  a StatusReply
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace rouse::os::internal {

inline constexpr char kRequestSpawn = 'S';
inline constexpr char kRequestStatus = 'W';
inline constexpr char kRequestKillTree = 'K';

// Order of the descriptors that go with kRequestSpawn.
enum SpawnDescriptor { kWardenSocket, kCommandFile, kStdout, kStderr, kSpawnDescriptors };

// What to execute, as it lies in a memfd: this header, then NUL-terminated strings: the working
// directory, the cgroup's file to join, the arguments, the environment.
struct CommandHeader {
  uint32_t arguments = 0;
  uint32_t variables = 0;
  int32_t nice = 0;
  uint32_t sets_nice = 0;
  uint32_t removes_cgroup = 0;
  uint64_t string_bytes = 0;
};

// Where starting the command failed.
enum class SpawnStep : int32_t { kNone, kFork, kCgroup, kDirectory, kNice, kExec };

struct SpawnReply {
  int32_t error_number = 0;
  SpawnStep step = SpawnStep::kNone;
  int32_t pid = 0;
  int32_t warden_pid = 0;
  int64_t start_time_ticks = 0;
  int64_t forked_at_ns = 0;
};

struct StatusReply {
  int32_t ended = 0;
  int32_t wait_status = 0;
  struct rusage usage{};
};

// sendmsg and recvmsg with descriptors. Receive returns the number of bytes, 0 at the end, -1 with
// errno; received descriptors are close-on-exec.
bool SendMessage(int socket, const void* bytes, size_t size, const int* descriptors, size_t count);
ssize_t ReceiveMessage(int socket, void* bytes, size_t size, std::vector<Fd>& descriptors);

// The whole life of the keeper in a child process forked for it; never returns. `tool_pidfd` refers
// to the tool.
[[noreturn]] void RunKeeper(int socket, int tool_pidfd);

}  // namespace rouse::os::internal
