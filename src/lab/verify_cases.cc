// Refusals and recoveries, each a row of one table.
#include "lab/verify_cases.h"

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "base/units.h"

namespace rouse::lab {
namespace {

using results::CaseKind;
using results::CaseStatus;

constexpr int64_t kPollNs = 5 * kNsPerMs;
constexpr int64_t kStopNs = 10 * kNsPerSecond;
constexpr int kHitTries = 5;
constexpr int kMemoryTries = 8;
constexpr int64_t kLongTokens = 1000;
constexpr int64_t kQueuedTokens = 64;
constexpr size_t kTogether = 4;

CaseEnd Failed(std::string why, std::optional<int64_t> took_ns = {}) {
  return {.status = CaseStatus::kFailed, .detail = std::move(why), .took_ns = took_ns};
}
CaseEnd Passed(std::string evidence, int64_t took_ns) {
  return {.status = CaseStatus::kPassed, .detail = std::move(evidence), .took_ns = took_ns};
}
CaseEnd LeftOutCase(std::string why) {
  return {.status = CaseStatus::kLeftOut, .detail = std::move(why), .took_ns = {}};
}

// The line of a server's last words that says most: the last one that has `wanted`, else the last.
std::string TellingLine(const std::string& log, const std::string& wanted) {
  std::string last;
  std::string telling;
  for (const std::string_view line : SplitAt(log, '\n')) {
    if (TrimBlanks(line).empty()) continue;
    last = line;
    if (!wanted.empty() && line.find(wanted) != std::string_view::npos) telling = line;
  }
  return telling.empty() ? last : telling;
}

// What is to be refused, and how it shows.
struct Fault {
  std::string model_file = {};  // "" = its own
  bool names_file = true;       // the error has to name it
  std::function<Status()> after_spawn = {};
  // Instead of a failure, where an answer only shows that the fault did not take hold.
  std::string answered_anyway = {};
};

// How the dynamic linker ends a program that it could not put into memory: nothing of the server
// has run then.
constexpr std::string_view kNeverStarted = "exited with status 127";

// A process that has ended has to have said why, and to have ended by itself.
CaseEnd JudgeEnd(Target& target, const Fault& fault, int64_t took_ns) {
  const std::string exit = target.ExitText();
  const std::string log = target.LogTail();
  const std::string line = TellingLine(log, fault.names_file ? fault.model_file : "");
  const std::string what = exit + (line.empty() ? "" : ": " + line);
  if (!exit.starts_with("exited with status")) return Failed("no clear error: it " + what, took_ns);
  if (exit == "exited with status 0") return Failed("it ended as if all were well", took_ns);
  if (exit == kNeverStarted) return LeftOutCase("it could not even be started: " + what);
  if (line.empty()) return Failed("it " + exit + " without a word", took_ns);
  if (fault.names_file && line.find(fault.model_file) == std::string::npos) {
    return Failed("its error does not name the file: " + what, took_ns);
  }
  return Passed(what, took_ns);
}

// Until the server ends or answers; requests are sent to it meanwhile.
CaseEnd WaitForRefusal(CaseContext& context, const Fault& fault, MonoTime spawned) {
  Target& target = context.parts.target;
  for (;;) {
    if (!target.Alive()) return JudgeEnd(target, fault, MonoNow() - spawned);
    Pending pending(context, ShortRequest(context), false);
    const bool ended = pending.EndedBy(spawned + kRefusalBoundNs);
    const int64_t took_ns = MonoNow() - spawned;
    if (!ended || took_ns > kRefusalBoundNs) {
      return Failed("neither an error nor an end within " + FormatDuration(kRefusalBoundNs),
                    took_ns);
    }
    const wire::Exchange& exchange = pending.Result();
    if (exchange.outcome == wire::Outcome::kOk) {
      if (!fault.answered_anyway.empty()) return LeftOutCase(fault.answered_anyway);
      return Failed("it answered as if nothing were wrong", took_ns);
    }
    const int64_t status = exchange.http_status.value_or(0);
    if (status >= 400 && status != 503) {
      return Passed(WhatCame(exchange), took_ns);
    }
    if (context.Interrupted()) return {.status = CaseStatus::kInterrupted, .detail = ""};
    RealClock().SleepFor(kPollNs);
  }
}

// The server with the fault, then without it.
CaseEnd Refusal(CaseContext& context, const Fault& fault) {
  Target& target = context.parts.target;
  for (const Status& each : {target.Stop(MonoNow() + kStopNs),
                             target.UseModelFile(fault.model_file), target.PickPort()}) {
    if (!each.ok()) return Failed("the case could not be set up: " + each.error().message());
  }
  const Result<MonoTime> spawned = target.Spawn({});
  if (!spawned.ok()) {
    return Failed("the server could not be started: " + spawned.error().message());
  }
  if (fault.after_spawn) {
    const Status made = fault.after_spawn();
    if (!made.ok()) return LeftOutCase(made.error().message());
  }
  CaseEnd end = WaitForRefusal(context, fault, *spawned);
  if (end.status == CaseStatus::kInterrupted) return end;
  const Served after = StartAndBeServed(context, {}, false);
  if (end.status == CaseStatus::kPassed && !after.problem.empty()) {
    return Failed("lost after the refusal: " + after.problem, end.took_ns);
  }
  return end;
}

CaseEnd MissingModel(CaseContext& context) {
  const std::filesystem::path own = context.parts.target.model_file();
  const std::filesystem::path gone = own.parent_path() / "rouse-verify-no-such-model.gguf";
  std::error_code error;
  if (std::filesystem::exists(gone, error)) return LeftOutCase(gone.string() + " is there");
  return Refusal(context, {.model_file = gone.string()});
}

CaseEnd CutModel(CaseContext& context) {
  const Result<DamagedFile> file = DamagedFile::Cut(context.parts.target.model_file());
  if (!file.ok()) return LeftOutCase(file.error().message());
  return Refusal(context, {.model_file = file->path()});
}

CaseEnd NotAModel(CaseContext& context) {
  const Result<DamagedFile> file = DamagedFile::Junk();
  if (!file.ok()) return LeftOutCase(file.error().message());
  return Refusal(context, {.model_file = file->path()});
}

CaseEnd NoMemory(CaseContext& context) {
  std::error_code error;
  const std::string own = context.parts.target.model_file();
  const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(own, error));
  const int64_t limit = context.memory_bytes - file_bytes;
  if (error || context.memory_bytes == 0 || limit <= 0) {
    return LeftOutCase("how much address space the sound server has could not be read");
  }
  // Address space that is only reserved is not needed: less and less, until it shows.
  CaseEnd end;
  int64_t bytes = limit;
  for (int i = 0; i < kMemoryTries; ++i, bytes = bytes / 5 * 4) {
    end = Refusal(
        context,
        {.names_file = false,
         .after_spawn = [&] { return context.parts.limit_memory(context.parts.target, bytes); },
         .answered_anyway = "it got by with " + FormatBytes(bytes)});
    if (end.status != CaseStatus::kLeftOut) break;
  }
  if (end.status == CaseStatus::kPassed) {
    end.detail += " (with " + FormatBytes(bytes) + " of address space)";
  }
  return end;
}

CaseEnd QueueFull(CaseContext& context) {
  const Served ready = StartAndBeServed(context, {"--queue-limit", "1"}, false);
  if (!ready.problem.empty()) return Failed(ready.problem);
  const MonoTime start = MonoNow();
  std::deque<Pending> requests;
  for (size_t i = 0; i < kTogether; ++i) {
    requests.emplace_back(context, LongRequest(context, kQueuedTokens), false);
  }
  size_t refused = 0;
  size_t served = 0;
  int64_t refused_ns = 0;
  for (Pending& each : requests) {
    if (!each.EndedBy(start + context.plan.timeout_ns)) return Failed("a request was never ended");
    const wire::Exchange& exchange = each.Result();
    if (exchange.http_status == 429) {
      ++refused;
      refused_ns = std::max(refused_ns, exchange.marks.end.value_or(MonoNow()) - start);
    } else if (exchange.outcome == wire::Outcome::kOk) {
      ++served;
    } else {
      return Failed("a request was lost: " + std::string(wire::OutcomeName(exchange.outcome)) +
                    ", " + exchange.outcome_detail);
    }
  }
  const std::string what = std::to_string(refused) + " of " + std::to_string(kTogether) +
                           " requests got 429, " + std::to_string(served) + " were answered";
  if (refused == 0 || served == 0) return Failed(what, refused_ns);
  if (refused_ns > kQuickBoundNs) return Failed(what + ", too late", refused_ns);
  const Served after = BeServed(context, MonoNow(), false);
  return after.problem.empty() ? Passed(what, refused_ns) : Failed(after.problem, refused_ns);
}

// The member that holds what is asked, with a value that no API allows.
std::string WrongInput(const std::string& api) {
  if (api == "openai-responses") return R"({"input": 7})";
  if (api == "openai-completions" || api == "ollama-generate" || api == "llama-completion") {
    return R"({"prompt": 7})";
  }
  return R"({"messages": 7})";
}

CaseEnd WrongRequest(CaseContext& context) {
  const Served ready = EnsureServed(context);
  if (!ready.problem.empty()) return Failed(ready.problem);
  wire::RequestSpec spec = ShortRequest(context);
  spec.extra_body_json = WrongInput(context.plan.target.api);
  const MonoTime start = MonoNow();
  Pending pending(context, std::move(spec), false);
  const bool ended = pending.EndedBy(start + kQuickBoundNs);
  const int64_t took_ns = MonoNow() - start;
  if (!ended) return Failed("no answer within " + FormatDuration(kQuickBoundNs), took_ns);
  const wire::Exchange& exchange = pending.Result();
  const int64_t status = exchange.http_status.value_or(0);
  const std::string what = WhatCame(exchange);
  if (exchange.outcome == wire::Outcome::kOk) {
    return Failed("it was answered as if nothing were wrong", took_ns);
  }
  // 500s say that the server is at fault, and a closed connection says nothing.
  if (status < 400 || status > 499) return Failed("no clear refusal: " + what, took_ns);
  const Served after = BeServed(context, MonoNow(), false);
  return after.problem.empty() ? Passed(what, took_ns) : Failed(after.problem, took_ns);
}

// After a kill: the same port, a new process.
CaseEnd Recover(CaseContext& context, const std::string& evidence) {
  const Served after = StartAndBeServed(context, {}, true);
  if (!after.problem.empty()) return Failed(after.problem, after.took_ns);
  return Passed(evidence + "; served again by a new process on the same port", after.took_ns);
}

CaseEnd KilledWhileLoading(CaseContext& context) {
  Target& target = context.parts.target;
  int64_t delay_ns = context.load_ns / 2;
  for (int i = 0; i < kHitTries; ++i, delay_ns /= 2) {
    for (const Status& each : {target.Stop(MonoNow() + kStopNs), target.PickPort()}) {
      if (!each.ok()) return Failed("the case could not be set up: " + each.error().message());
    }
    const Result<MonoTime> spawned = target.Spawn({});
    if (!spawned.ok()) return Failed("it could not be started: " + spawned.error().message());
    Pending pending(context, ShortRequest(context), true);
    RealClock().SleepUntil(*spawned + delay_ns);
    if (pending.EndedBy(MonoNow())) continue;  // it has answered: earlier
    const int64_t age_ns = MonoNow() - *spawned;
    if (const std::string why = KillAndWait(context); !why.empty()) return Failed(why);
    if (!pending.EndedBy(MonoNow() + kQuickBoundNs)) {
      return Failed("the client that waited was not told within " + FormatDuration(kQuickBoundNs));
    }
    if (pending.Result().marks.first_token) continue;
    return Recover(context,
                   "killed " + FormatDuration(age_ns) +
                       " after its start, before the first token; the waiting client saw " +
                       std::string(wire::OutcomeName(pending.Result().outcome)));
  }
  return LeftOutCase("it was never met while loading: it loads too fast");
}

// Lets a long answer begin and then does `cut`; repeated at other moments until it was met.
CaseEnd WhileAnswering(CaseContext& context, const std::function<std::string(Pending&)>& cut,
                       const std::function<CaseEnd(const wire::Exchange&)>& recover) {
  int64_t delay_ns = 2 * context.warm_ns + 20 * kNsPerMs;
  std::string met;  // instead
  for (int i = 0; i < kHitTries; ++i) {
    const Served ready = EnsureServed(context);
    if (!ready.problem.empty()) return Failed(ready.problem);
    Pending pending(context, LongRequest(context, kLongTokens), false);
    RealClock().SleepFor(delay_ns);
    if (pending.EndedBy(MonoNow())) {
      delay_ns /= 2;
      met = "; its long answer ended before: " + WhatCame(pending.Result());
      continue;
    }
    if (const std::string why = cut(pending); !why.empty()) return Failed(why);
    if (!pending.EndedBy(MonoNow() + kQuickBoundNs)) {
      return Failed("the client was not told within " + FormatDuration(kQuickBoundNs));
    }
    const wire::Exchange& exchange = pending.Result();
    if (exchange.outcome == wire::Outcome::kOk) {
      return Failed("the cut answer looked whole to its client");
    }
    if (!exchange.marks.first_token) {
      delay_ns *= 3;
      // What it said in another try tells more.
      if (met.empty()) met = "; it had sent no token by then";
      continue;
    }
    return recover(exchange);
  }
  return LeftOutCase("it was never met while answering" + met);
}

std::string TokensOf(const wire::Exchange& cut) {
  const int64_t count = cut.stream.token_events;
  return std::to_string(count) + (count == 1 ? " token" : " tokens");
}

CaseEnd KilledWhileAnswering(CaseContext& context) {
  return WhileAnswering(
      context, [&](Pending&) { return KillAndWait(context); },
      [&](const wire::Exchange& cut) {
        return Recover(context, "killed after " + TokensOf(cut) + "; the client saw " +
                                    std::string(wire::OutcomeName(cut.outcome)));
      });
}

CaseEnd ClientLeft(CaseContext& context) {
  return WhileAnswering(
      context,
      [](Pending& pending) {
        pending.Leave();
        return std::string();
      },
      [&](const wire::Exchange& cut) {
        // The server notices when it sends its next token: the first client may come before that.
        int64_t took_ns = 0;
        for (int client = 0; client < 2; ++client) {
          const Served after = BeServed(context, MonoNow(), false);
          took_ns = std::max(took_ns, after.took_ns);
          if (!after.problem.empty()) return Failed(after.problem, took_ns);
          if (took_ns > kRefusalBoundNs) return Failed("served too late", took_ns);
        }
        return Passed("left after " + TokensOf(cut) + "; the next two clients were served",
                      took_ns);
      });
}

CaseEnd KilledWhileIdle(CaseContext& context) {
  const Served ready = EnsureServed(context);
  if (!ready.problem.empty()) return Failed(ready.problem);
  RealClock().SleepFor(context.parts.idle_ns);
  if (!context.parts.target.Alive()) return Failed("it ended by itself while idle");
  if (const std::string why = KillAndWait(context); !why.empty()) return Failed(why);
  return Recover(context, "killed after " + FormatDuration(context.parts.idle_ns) + " of idleness");
}

constexpr std::string_view kServedAfter = "started with its own model, it serves the next request";
constexpr std::string_view kServes = "the next request is served";
constexpr std::string_view kCleanEnd =
    "it ends with a status that is not 0 and a sentence that names the file, or answers with an "
    "HTTP error";

constexpr std::array<CaseRow, 10> kCases{{
    {"missing model", CaseKind::kRefused, "starts it with a model file that is not there",
     kCleanEnd, kServedAfter, kRefusalBoundNs, Needs::kModelChoice, MissingModel},
    {"cut model", CaseKind::kRefused, "starts it with the first half of its model file", kCleanEnd,
     kServedAfter, kRefusalBoundNs, Needs::kModelChoice, CutModel},
    {"not a model", CaseKind::kRefused, "starts it with a file that is no model", kCleanEnd,
     kServedAfter, kRefusalBoundNs, Needs::kModelChoice, NotAModel},
    {"no memory", CaseKind::kRefused,
     "starts it with less address space than it needs, by the size of its model",
     "it ends with a status that is not 0 and a sentence, never by a signal, or answers with an "
     "HTTP error",
     kServedAfter, kRefusalBoundNs, Needs::kOwnProcess, NoMemory},
    {"queue full", CaseKind::kRefused, "sends four requests at once where one may wait",
     "who does not fit gets 429 at once", "all others are answered whole, and so is the next one",
     kQuickBoundNs, Needs::kQueueLimit, QueueFull},
    {"wrong request", CaseKind::kRefused,
     "sends a request whose messages, prompt or input is a number",
     "an HTTP error of the 400s that says why", kServes, kQuickBoundNs, Needs::kNothing,
     WrongRequest},
    {"killed while loading", CaseKind::kRecovery,
     "SIGKILL while it loads and a client waits, then its command again",
     "the waiting client is told, and the new process serves on the same port",
     "the answer is whole (built-in server: the same)", 0, Needs::kOwnProcess, KilledWhileLoading},
    {"killed while answering", CaseKind::kRecovery,
     "SIGKILL in the middle of an answer, then its command again",
     "the client can tell that its answer is cut, and the new process serves on the same port",
     "the answer is whole (built-in server: the same)", 0, Needs::kOwnProcess,
     KilledWhileAnswering},
    {"killed while idle", CaseKind::kRecovery, "SIGKILL while nobody asks, then its command again",
     "the new process serves on the same port", "the answer is whole (built-in server: the same)",
     0, Needs::kOwnProcess, KilledWhileIdle},
    {"client left", CaseKind::kRecovery, "closes the connection in the middle of an answer",
     "the next two clients are served", "their answers are whole", kRefusalBoundNs, Needs::kNothing,
     ClientLeft},
}};

}  // namespace

std::span<const CaseRow> CaseRows() { return kCases; }

}  // namespace rouse::lab
