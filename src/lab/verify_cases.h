// The cases of lab/verify.h, one row each, and what they share. For lab/verify*.cc only.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "lab/verify.h"
#include "wire/exchange.h"
#include "wire/request.h"

namespace rouse::lab {

struct CaseContext {
  const Plan& plan;
  VerifyParts& parts;
  std::string reference = {};  // the answer of a sound server
  int64_t load_ns = 0;         // from the start of its process to the first token
  int64_t warm_ns = 0;         // the first token of a warm one
  int64_t memory_bytes = 0;    // its address space; 0 = not known

  bool Interrupted() const { return parts.interrupt != nullptr && parts.interrupt->load(); }
};

struct CaseEnd {
  results::CaseStatus status = results::CaseStatus::kFailed;
  std::string detail;
  std::optional<int64_t> took_ns = {};
};

enum class Needs { kNothing, kOwnProcess, kModelChoice, kQueueLimit };

struct CaseRow {
  std::string_view name;
  results::CaseKind kind;
  std::string_view does;
  std::string_view expects;
  std::string_view nothing_lost;
  int64_t bound_ns;  // 0: the plan's timeout
  Needs needs;
  CaseEnd (*run)(CaseContext&);
};
// Refusals and recoveries, in the order in which they are run.
std::span<const CaseRow> CaseRows();

inline constexpr int64_t kRefusalBoundNs = 30 * kNsPerSecond;
inline constexpr int64_t kQuickBoundNs = 5 * kNsPerSecond;

// "HTTP status 400: messages must be an array", "truncated, HTTP 200: ...".
std::string WhatCame(const wire::Exchange& exchange);

// A short greedy request, and one that is answered for long.
wire::RequestSpec ShortRequest(CaseContext& context);
wire::RequestSpec LongRequest(CaseContext& context, int64_t tokens);

// A request on a thread of its own, ended by the destructor. With `persists` it is sent again while
// the server is starting, until that answers or ends.
class Pending {
 public:
  Pending(CaseContext& context, wire::RequestSpec spec, bool persists);
  ~Pending();
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  // Whether it has ended by then; an interrupt of the whole ends it too.
  bool EndedBy(MonoTime deadline);
  void Leave() { stop_ = true; }
  // Waits for its end.
  const wire::Exchange& Result();

 private:
  wire::Exchange Send(const wire::RequestSpec& spec, bool persists);

  CaseContext& context_;
  std::atomic<bool> stop_ = false;
  std::future<wire::Exchange> future_;
  std::optional<wire::Exchange> exchange_;
};

// What came of an attempt to be served. `problem` is "" when a whole answer came in time (the same
// as the reference where the server is known to be deterministic and the process is new).
struct Served {
  std::string problem = {};
  std::string text = {};
  int64_t took_ns = 0;
};
Served BeServed(CaseContext& context, MonoTime since, bool compares);

// Ends what runs, starts the process on the same port or on another one, and is served.
Served StartAndBeServed(CaseContext& context, const std::vector<std::string>& args, bool same_port);
// Served by the process that runs, or by a new one.
Served EnsureServed(CaseContext& context);

// Kills, and waits for the end: "" or why it still runs.
std::string KillAndWait(CaseContext& context);

// A damaged model: a file without a name that is gone with this process.
class DamagedFile {
 public:
  // The first half of `source`, at most 64 MiB.
  static rouse::Result<DamagedFile> Cut(const std::string& source);
  // As many bytes as a small model has, none of them a model's.
  static rouse::Result<DamagedFile> Junk();
  const std::string& path() const { return path_; }

 private:
  Fd fd_;
  std::string path_;
};

// Of the target's first process; empty when it cannot be read.
std::optional<int64_t> AddressSpaceOf(Target& target);

}  // namespace rouse::lab
