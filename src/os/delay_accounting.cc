#include "os/delay_accounting.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "os/kernel_text.h"

namespace rouse::os {
namespace {

constexpr const char* kSysctl = "proc/sys/kernel/task_delayacct";

struct Attribute {
  uint16_t type = 0;
  std::string_view payload;
};

// Netlink attributes: a header of length (itself included) and type, the payload, padding to 4.
std::vector<Attribute> Attributes(std::string_view bytes) {
  std::vector<Attribute> attributes;
  while (bytes.size() >= sizeof(nlattr)) {
    nlattr header{};
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.nla_len < sizeof header || header.nla_len > bytes.size()) break;
    attributes.push_back({static_cast<uint16_t>(header.nla_type & NLA_TYPE_MASK),
                          bytes.substr(sizeof header, header.nla_len - sizeof header)});
    bytes.remove_prefix(std::min<size_t>(NLA_ALIGN(header.nla_len), bytes.size()));
  }
  return attributes;
}

std::string Request(uint16_t family, uint8_t command, uint16_t attribute,
                    std::string_view payload) {
  std::string message(NLMSG_LENGTH(GENL_HDRLEN) + NLA_HDRLEN + NLA_ALIGN(payload.size()), '\0');
  nlmsghdr header{};
  header.nlmsg_len = static_cast<uint32_t>(message.size());
  header.nlmsg_type = family;
  header.nlmsg_flags = NLM_F_REQUEST;
  genlmsghdr generic{};
  generic.cmd = command;
  generic.version = 1;
  nlattr attribute_header{};
  attribute_header.nla_len = static_cast<uint16_t>(NLA_HDRLEN + payload.size());
  attribute_header.nla_type = attribute;
  char* const start = message.data();
  std::memcpy(start, &header, sizeof header);
  std::memcpy(start + NLMSG_HDRLEN, &generic, sizeof generic);
  std::memcpy(start + NLMSG_LENGTH(GENL_HDRLEN), &attribute_header, sizeof attribute_header);
  std::memcpy(start + NLMSG_LENGTH(GENL_HDRLEN) + NLA_HDRLEN, payload.data(), payload.size());
  return message;
}

// The attributes of the answer, as bytes.
Result<std::string> Exchange(int socket, const std::string& request) {
  if (send(socket, request.data(), request.size(), 0) < 0) {
    return Error::FromErrno(errno, "taskstats: send");
  }
  char answer[4096];
  const ssize_t count = recv(socket, answer, sizeof answer, 0);
  if (count < 0) return Error::FromErrno(errno, "taskstats: recv");
  nlmsghdr header{};
  if (static_cast<size_t>(count) < sizeof header) {
    return Error(ErrorCode::kCorrupt, "taskstats: the answer is cut");
  }
  std::memcpy(&header, answer, sizeof header);
  if (header.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr error{};
    std::memcpy(&error, answer + NLMSG_HDRLEN,
                std::min(sizeof error, static_cast<size_t>(count) - NLMSG_HDRLEN));
    if (error.error == -ESRCH) return Error(ErrorCode::kNotFound, "taskstats: no such process");
    if (error.error == -EPERM) {
      return Error(ErrorCode::kPermission, "taskstats needs root (CAP_NET_ADMIN)");
    }
    return Error::FromErrno(-error.error, "taskstats");
  }
  constexpr size_t kBefore = NLMSG_HDRLEN + GENL_HDRLEN;
  if (static_cast<size_t>(count) < kBefore || header.nlmsg_len > static_cast<size_t>(count)) {
    return Error(ErrorCode::kCorrupt, "taskstats: the answer is cut");
  }
  return std::string(answer + kBefore, header.nlmsg_len - kBefore);
}

// Generic netlink gives each family its number at boot.
Result<uint16_t> FamilyNumber(int socket) {
  const std::string request = Request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME,
                                      {TASKSTATS_GENL_NAME, sizeof TASKSTATS_GENL_NAME});
  const Result<std::string> answer = Exchange(socket, request);
  if (!answer.ok()) {
    return Error(ErrorCode::kUnsupported, "this kernel was built without taskstats");
  }
  for (const Attribute& attribute : Attributes(*answer)) {
    if (attribute.type != CTRL_ATTR_FAMILY_ID || attribute.payload.size() < 2) continue;
    uint16_t number = 0;
    std::memcpy(&number, attribute.payload.data(), sizeof number);
    return number;
  }
  return Error(ErrorCode::kUnsupported, "this kernel was built without taskstats");
}

// The structure only ever grows at its end, so a field is there when it lies inside what came.
std::optional<int64_t> Field(std::string_view bytes, size_t offset) {
  uint64_t value = 0;
  if (offset + sizeof value > bytes.size()) return std::nullopt;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(value);
}

DelayAccounting FromTaskstats(std::string_view bytes) {
  DelayAccounting delays;
  delays.block_io_ns = Field(bytes, offsetof(taskstats, blkio_delay_total));
  delays.swap_in_ns = Field(bytes, offsetof(taskstats, swapin_delay_total));
  delays.reclaim_ns = Field(bytes, offsetof(taskstats, freepages_delay_total));
  delays.thrashing_ns = Field(bytes, offsetof(taskstats, thrashing_delay_total));
  delays.run_queue_ns = Field(bytes, offsetof(taskstats, cpu_delay_total));
#if TASKSTATS_VERSION >= 11
  delays.compaction_ns = Field(bytes, offsetof(taskstats, compact_delay_total));
#endif
#if TASKSTATS_VERSION >= 13
  delays.write_copy_ns = Field(bytes, offsetof(taskstats, wpcopy_delay_total));
#endif
  return delays;
}

}  // namespace

bool DelayAccountingIsOn(const ProcRoot& root) { return ReadNumberFile(root, kSysctl) == 1; }

Result<DelayAccounting> ReadDelayAccounting(int pid) {
  if (!DelayAccountingIsOn(ProcRoot::Real())) {
    return Error(ErrorCode::kUnsupported,
                 "kernel.task_delayacct is off: sysctl kernel.task_delayacct=1 before the target "
                 "starts");
  }
  const Fd socket_fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC));
  if (!socket_fd.valid()) return Error::FromErrno(errno, "taskstats: socket");
  const timeval patience{1, 0};
  setsockopt(socket_fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ASSIGN_OR_RETURN(const uint16_t family, FamilyNumber(socket_fd.get()));
  const auto number = static_cast<uint32_t>(pid);
  const std::string request = Request(family, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_TGID,
                                      {reinterpret_cast<const char*>(&number), sizeof number});
  ASSIGN_OR_RETURN(const std::string answer, Exchange(socket_fd.get(), request));
  for (const Attribute& outer : Attributes(answer)) {
    if (outer.type != TASKSTATS_TYPE_AGGR_TGID) continue;
    for (const Attribute& inner : Attributes(outer.payload)) {
      if (inner.type == TASKSTATS_TYPE_STATS) return FromTaskstats(inner.payload);
    }
  }
  return Error(ErrorCode::kCorrupt, "taskstats: the answer has no statistics in it");
}

}  // namespace rouse::os
