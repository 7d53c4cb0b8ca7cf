// What the cases of lab/verify_cases.cc are made of: requests, starts, kills, damaged files.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "lab/attempt.h"
#include "lab/verify_cases.h"
#include "os/proc_root.h"

namespace rouse::lab {
namespace {

constexpr int64_t kPollNs = 5 * kNsPerMs;
constexpr int64_t kStopNs = 10 * kNsPerSecond;
constexpr size_t kCutBytes = size_t{64} << 20;
constexpr size_t kJunkBytes = size_t{1} << 20;

std::string TextOf(const wire::Exchange& exchange) {
  return exchange.reasoning_text + exchange.content_text;
}

wire::RequestSpec Request(CaseContext& context, SendSetup setup) {
  setup.salt_text = "Answer in plain words.";
  setup.forbid_prefix = true;
  return MakeRequest(context.plan, context.parts.target, setup);
}

Result<std::pair<Fd, std::string>> NamelessFile(std::string_view bytes) {
  Fd fd(memfd_create("rouse-damaged-model", MFD_CLOEXEC));
  if (!fd.valid()) return Error::FromErrno(errno, "cannot make a damaged model");
  while (!bytes.empty()) {
    const ssize_t written = write(fd.get(), bytes.data(), bytes.size());
    if (written <= 0) return Error::FromErrno(errno, "cannot write a damaged model");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd.get());
  return std::pair(std::move(fd), std::move(path));
}

}  // namespace

std::string WhatCame(const wire::Exchange& exchange) {
  // An HTTP error's own words begin with its status.
  if (exchange.outcome_detail.starts_with("HTTP status")) return exchange.outcome_detail;
  std::string text(wire::OutcomeName(exchange.outcome));
  if (exchange.http_status) text += ", HTTP " + std::to_string(*exchange.http_status);
  return exchange.outcome_detail.empty() ? text : text + ": " + exchange.outcome_detail;
}

void KillTarget(Target& target) {
  for (const int pid : target.Tree()) ::kill(pid, SIGKILL);
}

Status LimitTargetMemory(Target& target, int64_t bytes) {
  const std::optional<ProcessIdentity> identity = target.Identity();
  if (!identity) return Error(ErrorCode::kState, "its process has ended");
  const rlimit limit{.rlim_cur = static_cast<rlim_t>(bytes),
                     .rlim_max = static_cast<rlim_t>(bytes)};
  if (prlimit(identity->pid, RLIMIT_AS, &limit, nullptr) == 0) return {};
  return Error::FromErrno(errno, "cannot limit the address space of the server");
}

std::optional<int64_t> AddressSpaceOf(Target& target) {
  const std::optional<ProcessIdentity> identity = target.Identity();
  if (!identity) return std::nullopt;
  const Result<std::string> text = os::ProcRoot::Real().ReadOf(identity->pid, "statm");
  if (!text.ok()) return std::nullopt;
  const int64_t pages = std::strtoll(text->c_str(), nullptr, 10);
  return pages > 0 ? std::optional(pages * sysconf(_SC_PAGESIZE)) : std::nullopt;
}

wire::RequestSpec ShortRequest(CaseContext& context) { return Request(context, {}); }

wire::RequestSpec LongRequest(CaseContext& context, int64_t tokens) {
  SendSetup setup;
  setup.prompt = "Count from 1 to 1000, one number a line, and leave none out.";
  setup.max_tokens = std::min(tokens, context.plan.target.context / 2);
  wire::RequestSpec spec = Request(context, setup);
  nlohmann::json extra = nlohmann::json::parse(spec.extra_body_json, nullptr, false);
  if (!extra.is_object()) extra = nlohmann::json::object();
  extra["ignore_eos"] = true;  // servers that do not know it ignore it
  spec.extra_body_json = extra.dump();
  return spec;
}

Pending::Pending(CaseContext& context, wire::RequestSpec spec, bool persists)
    : context_(context),
      future_(std::async(std::launch::async, [this, spec = std::move(spec), persists] {
        return Send(spec, persists);
      })) {}

Pending::~Pending() {
  stop_ = true;
  if (future_.valid()) future_.wait();
}

wire::Exchange Pending::Send(const wire::RequestSpec& spec, bool persists) {
  wire::Exchange exchange;
  const std::unique_ptr<Sender> sender = context_.parts.make_sender();
  if (const Status prepared = sender->Prepare(spec); !prepared.ok()) {
    exchange.outcome_detail = prepared.error().message();
    return exchange;
  }
  const MonoTime start = MonoNow();
  for (;;) {
    const MonoTime tried = MonoNow();
    exchange = sender->Perform(tried, &stop_);
    if (!persists || !IsStarting(exchange) || stop_ || !context_.parts.target.Alive()) break;
    if (tried - start > spec.timeouts.total_ns) break;
    RealClock().SleepFor(RetryPauseNs(tried - start));
  }
  return exchange;
}

bool Pending::EndedBy(MonoTime deadline) {
  while (!exchange_ &&
         future_.wait_for(std::chrono::milliseconds(2)) != std::future_status::ready) {
    if (context_.Interrupted()) stop_ = true;
    if (MonoNow() >= deadline) return false;
  }
  return true;
}

const wire::Exchange& Pending::Result() {
  if (!exchange_) exchange_ = future_.get();
  return *exchange_;
}

Served BeServed(CaseContext& context, MonoTime since, bool compares) {
  const int64_t bound_ns = context.plan.timeout_ns;
  Served served;
  Pending pending(context, ShortRequest(context), true);
  if (!pending.EndedBy(since + bound_ns)) {
    served.problem = "the next request was not served within " + FormatDuration(bound_ns);
    served.took_ns = MonoNow() - since;
    return served;
  }
  const wire::Exchange& exchange = pending.Result();
  served.took_ns = exchange.marks.first_token.value_or(MonoNow()) - since;
  served.text = TextOf(exchange);
  if (exchange.outcome != wire::Outcome::kOk) {
    served.problem = "the next request was not served: " + WhatCame(exchange);
    const std::string exit = context.parts.target.ExitText();
    if (!exit.empty()) served.problem += "; the server " + exit;
  } else if (compares && context.parts.target.kind() == TargetKind::kBuiltin &&
             served.text != context.reference) {
    served.problem = "the next answer was another one: \"" + served.text + "\" instead of \"" +
                     context.reference + "\"";
  }
  return served;
}

Served StartAndBeServed(CaseContext& context, const std::vector<std::string>& args,
                        bool same_port) {
  Target& target = context.parts.target;
  const auto failed = [](const Error& error) {
    return Served{.problem = "the server could not be started: " + error.message()};
  };
  if (const Status stopped = target.Stop(MonoNow() + kStopNs); !stopped.ok()) {
    return failed(stopped.error());
  }
  if (const Status sound = target.UseModelFile(""); !sound.ok()) return failed(sound.error());
  if (!same_port) {
    if (const Status picked = target.PickPort(); !picked.ok()) return failed(picked.error());
  }
  const Result<MonoTime> spawned = target.Spawn(args);
  if (!spawned.ok()) return failed(spawned.error());
  return BeServed(context, *spawned, !context.reference.empty());
}

Served EnsureServed(CaseContext& context) {
  // A server that is not ours says of itself that it lives.
  if (context.parts.target.Alive()) return BeServed(context, MonoNow(), false);
  return StartAndBeServed(context, {}, false);
}

std::string KillAndWait(CaseContext& context) {
  Target& target = context.parts.target;
  context.parts.kill(target);
  const MonoTime deadline = MonoNow() + kQuickBoundNs;
  while (target.Alive()) {
    if (MonoNow() >= deadline) return "the server outlived SIGKILL";
    RealClock().SleepFor(kPollNs);
  }
  return "";
}

rouse::Result<DamagedFile> DamagedFile::Cut(const std::string& source) {
  std::ifstream in(source, std::ios::binary | std::ios::ate);
  if (!in) return Error::FromErrno(errno, "cannot read " + source);
  const auto size = static_cast<size_t>(std::max<std::streamoff>(0, in.tellg()));
  std::string bytes(std::min(size / 2, kCutBytes), '\0');
  in.seekg(0);
  if (!in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) {
    return Error(ErrorCode::kIo, "cannot read " + source);
  }
  ASSIGN_OR_RETURN(auto file, NamelessFile(bytes));
  DamagedFile damaged;
  damaged.fd_ = std::move(file.first);
  damaged.path_ = std::move(file.second);
  return damaged;
}

rouse::Result<DamagedFile> DamagedFile::Junk() {
  ASSIGN_OR_RETURN(auto file, NamelessFile(std::string(kJunkBytes, '#')));
  DamagedFile damaged;
  damaged.fd_ = std::move(file.first);
  damaged.path_ = std::move(file.second);
  return damaged;
}

}  // namespace rouse::lab
