#include "explain/evidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/check.h"
#include "base/units.h"
#include "explain/layer_words.h"

namespace rouse::explain {
namespace {

using results::Stage;
using Seen = Finding::Seen;

// A share of the excess below which a measured time is not worth naming, and the same in absolute
// terms: the client's own error is 0.1 ms (docs/method.md, section 5), ten times that is safe.
constexpr double kWorthShare = 0.05;
constexpr double kWorthNs = 1e6;

// Threads that wait for a CPU wait side by side, so the sum over threads may exceed the wall time
// that it costs; a tenth of the excess is asked for before it counts.
constexpr double kRunQueueShare = 0.10;
constexpr double kRunQueueNs = 5e6;
// Pressure is of the whole machine, so more of it is asked for than of the target's own counter.
constexpr double kPsiShare = 0.30;

// Tokens: a chat template changes a prompt by a few.
constexpr double kLongerPrompt = 1.10;
constexpr double kFewTokens = 8;
// A server may evaluate one block of its cache again on a hit (lab/states.cc).
constexpr double kBlockTokens = 16;

// docs/method.md, section 7: nine tenths of the events within a millisecond of the end. The spread
// between first and last token is what an attempt stores, so a burst is a spread of at most that.
constexpr double kBurstNs = 1e6;
constexpr double kBurstShare = 0.05;
constexpr double kFewEvents = 4;

constexpr StageMask kCompute = Mask(Stage::kTokenize) | Mask(Stage::kPrefill) |
                               Mask(Stage::kFirstDecode) | Mask(Stage::kRuntimeInit);
constexpr StageMask kReads = Mask(Stage::kWeights) | Mask(Stage::kPrefill) |
                             Mask(Stage::kRuntimeInit) | Mask(Stage::kFirstDecode) |
                             Mask(Stage::kProcessStart) | Mask(Stage::kTokenize) |
                             Mask(Stage::kUnattributed);
constexpr StageMask kLoading = Mask(Stage::kWeights) | Mask(Stage::kRuntimeInit) |
                               Mask(Stage::kTokenize) | Mask(Stage::kUnattributed);

double Worth(const Case& each) { return std::max(kWorthNs, kWorthShare * each.excess_ns); }

Finding No(std::string sentence) { return {Seen::kNo, std::nullopt, std::move(sentence)}; }
Finding Unknown(std::string sentence) {
  return {Seen::kUnknown, std::nullopt, std::move(sentence)};
}
Finding Yes(std::optional<double> estimate, std::string sentence) {
  return {Seen::kYes, estimate, std::move(sentence)};
}

std::string Count(double number) { return std::to_string(std::llround(number)); }

std::string Missing(const Case& each, std::string_view counter) {
  const auto reason = each.subject.null_reasons.find(counter);
  return std::string(counter) + " was not measured" +
         (reason == each.subject.null_reasons.end() ? "" : " (" + reason->second + ")");
}

Finding LookQueue(const Case& each) {
  const std::optional<double> there = each.subject.Stage(Stage::kQueue);
  if (!there) return Unknown("the server does not say how long the request was queued");
  const double more = *there - each.reference.Stage(Stage::kQueue).value_or(0);
  const std::string words = "the request waited " + Ms(*there) +
                            " in the server's queue (usually " +
                            Ms(each.reference.Stage(Stage::kQueue).value_or(0)) + ")";
  return more >= Worth(each) ? Yes(more, words) : No(words);
}

bool ProcessIsNew(const Profile& profile) {
  const LayerView* const view = profile.Layer("process");
  return view != nullptr && IsColder("process", view->word);
}

Finding LookProcess(const Case& each) {
  const LayerView* const view = each.subject.Layer("process");
  if (view == nullptr || view->word.empty()) {
    return Unknown("whether the server's process was new is not known");
  }
  if (!ProcessIsNew(each.subject)) return No("the server's process was running before the request");
  if (ProcessIsNew(each.reference)) {
    return No("the server's process was new, but it is so in the reference as well");
  }
  return Yes(std::nullopt, "no process served before the request (" + view->proof +
                               "); it had to start, and with it everything that a process holds");
}

Finding LookModel(const Case& each) {
  const LayerView* const view = each.subject.Layer("model");
  if (view == nullptr || view->word.empty()) {
    return Unknown("whether the model was loaded at the send is not known");
  }
  if (!IsColder("model", view->word)) return No("the model was loaded (" + view->proof + ")");
  if (ProcessIsNew(each.subject)) return No("unloaded only because the process was new");
  const LayerView* const usual = each.reference.Layer("model");
  if (usual != nullptr && IsColder("model", usual->word)) {
    return No("the model was not loaded, but it is so in the reference as well");
  }
  return Yes(std::nullopt, "the model was not loaded (" + view->proof +
                               "); its weights were mapped and its context made for this request");
}

// What one token of this prompt took to evaluate, here; a faster reference would promise too much.
std::optional<double> NsPerToken(const Case& each) {
  const std::optional<double> prefill = each.subject.Stage(Stage::kPrefill);
  const auto& [prompt, cached] =
      std::pair(each.subject.prompt_tokens, each.subject.cached_tokens.value_or(0));
  if (!prefill || !prompt || *prompt - cached < 1) return std::nullopt;
  return *prefill / (*prompt - cached);
}

Finding LookPromptLength(const Case& each) {
  const std::optional<double> here = each.subject.prompt_tokens;
  const std::optional<double> usual = each.reference.prompt_tokens;
  if (!here || !usual) return Unknown("the server does not report the prompt's tokens");
  const std::string words =
      "the prompt has " + Count(*here) + " tokens (usually " + Count(*usual) + ")";
  if (*here - *usual < kFewTokens || *here < kLongerPrompt * *usual) return No(words);
  const std::optional<double> rate = NsPerToken(each);
  if (!rate) return Yes(std::nullopt, words);
  return Yes((*here - *usual) * *rate,
             words + "; a token takes " + Ms(*rate) + " to evaluate here");
}

Finding LookPrefix(const Case& each) {
  const std::optional<double> here = each.subject.cached_tokens;
  const std::optional<double> usual = each.reference.cached_tokens;
  if (!here || !usual) return Unknown("the server does not report cached tokens");
  const std::string words = Count(*here) + " tokens of the prompt came from the prefix cache " +
                            "(usually " + Count(*usual) + ")";
  if (*usual - *here < kBlockTokens) return No(words);
  const std::optional<double> rate = NsPerToken(each);
  if (!rate) return Yes(std::nullopt, words);
  return Yes((*usual - *here) * *rate,
             words + "; a token takes " + Ms(*rate) + " to evaluate here");
}

Finding LookThrottled(const Case& each) {
  const std::optional<double> more_us = CounterExcess(each, "cgroup_throttled_us");
  if (!more_us) return Unknown(Missing(each, "cgroup_throttled_us"));
  const std::string words = "the target's control group was kept off the CPUs by its quota for " +
                            Ms(std::max(0.0, *more_us) * 1e3);
  return *more_us * 1e3 >= Worth(each) ? Yes(*more_us * 1e3, words) : No(words);
}

Finding LookCpu(const Case& each) {
  if (const std::optional<double> wait = CounterExcess(each, "target_run_queue_wait_ns")) {
    const std::string words = "the target's threads were runnable but without a CPU for " +
                              Ms(each.subject.Counter("target_run_queue_wait_ns").value_or(0)) +
                              ", summed over threads (usually " +
                              Ms(each.reference.Counter("target_run_queue_wait_ns").value_or(0)) +
                              ")";
    const bool seen = *wait >= std::max(kRunQueueNs, kRunQueueShare * each.excess_ns);
    return seen ? Yes(wait, words) : No(words);
  }
  const std::optional<double> pressure = CounterExcess(each, "psi_cpu_some_us");
  if (!pressure) return Unknown(Missing(each, "target_run_queue_wait_ns"));
  const std::string words = "some task of the machine waited for a CPU " +
                            Ms(std::max(0.0, *pressure) * 1e3) + " longer than usually";
  return *pressure * 1e3 >= kPsiShare * each.excess_ns ? Yes(*pressure * 1e3, words) : No(words);
}

Finding LookBuffered(const Case& each) {
  const std::optional<double> spread = each.subject.generation_ns;
  const std::optional<double> usual = each.reference.generation_ns;
  if (!spread || each.subject.token_events.value_or(0) < kFewEvents) {
    return Unknown("too few token events to tell whether the stream was held back");
  }
  if (!usual) return Unknown("the reference has no stream to compare with");
  const std::string words = Count(*each.subject.token_events) + " token events came within " +
                            Ms(*spread) + " of the first (usually " + Ms(*usual) + ")";
  if (*spread > std::max(kBurstNs, kBurstShare * *usual) || *usual < 4 * kBurstNs) return No(words);
  // What was held back is the time that generating usually takes.
  return Yes(std::max(*usual - *spread, StageExcess(each, Mask(Stage::kTransport))),
             words + ": something between the server and the client held the answer back");
}

Finding LookConnection(const Case& each) {
  if (!each.subject.reused || !each.reference.reused) {
    return Unknown("whether the connection was kept is not known");
  }
  if (*each.subject.reused || !*each.reference.reused) {
    return No(*each.subject.reused ? "the connection was a kept one"
                                   : "a new connection, as in the reference");
  }
  return Yes(each.subject.connected_ns,
             "a new connection stood after " + Ms(each.subject.connected_ns.value_or(0)));
}

// Never more than an upper limit: a clock that was read once says nothing about the time between.
Finding LookClocks(const Case& each) {
  const std::string bound = "a clock that had to rise first costs at most " + Ms(kClockRampNs);
  const std::optional<double> here = each.subject.Counter("cpu_clock_hz");
  const std::optional<double> usual = each.reference.Counter("cpu_clock_hz");
  if (each.excess_ns > 10 * kClockRampNs) {
    return No(bound + ", the excess is " + Ms(each.excess_ns));
  }
  if (!here || !usual) return Unknown(bound + "; " + Missing(each, "cpu_clock_hz"));
  if (*here >= 0.9 * *usual) return No("the CPU's clock was as fast as usually; " + bound);
  return Yes(std::min(kClockRampNs, each.excess_ns),
             "the CPU's clock was " + Percent(*here / *usual) + " of the usual; " + bound);
}

constexpr std::array<CauseRow, kCauseCount> kRows{{
    {CauseId::kBusyQueue, "busy_queue", "background", "the server was busy with other requests",
     "stages_ns.queue", "5 % of the excess and 1 ms (ten times the client's own error)",
     Mask(Stage::kQueue), LookQueue},
    {CauseId::kNewProcess, "process_new", "process", LostWords("process"), "state_at_send.process",
     "no process before the request, a running one in the reference",
     kLoading | Mask(Stage::kProcessStart), LookProcess},
    {CauseId::kMemoryReclaim, "memory_reclaim", "memory_pressure",
     "memory was taken back while the request ran",
     "counters: machine_reclaimed_bytes, psi_memory_some_us, target_read_bytes; state_at_send",
     "a fifth of the excess waited for memory (a group's own reclaim is in no other counter), or 5 "
     "% "
     "of it with 4 MiB reclaimed or a fifth more read than was missing",
     kReads, LookMemoryReclaim},
    {CauseId::kSwapIn, "swap_in", "memory_pressure", "memory had to come back from swap",
     "counters: machine_swap_in_bytes", "1 MiB, the least that takes a disk about 1 ms", kReads,
     LookSwapIn},
    {CauseId::kPageCacheCold, "page_cache_cold", "page_cache", LostWords("page_cache"),
     "state_at_send.page_cache; counters: target_read_bytes",
     "resident share 0.02 below the reference (the contract's tolerance)", kReads, LookPageCache},
    {CauseId::kModelUnloaded, "model_unloaded", "model", LostWords("model"), "state_before.model",
     "unloaded by proof, loaded in the reference", kLoading, LookModel},
    {CauseId::kLongPrompt, "prompt_longer", "prompt_tokens", "the prompt was longer",
     "tokens.prompt", "a tenth and 8 tokens more than the reference",
     Mask(Stage::kPrefill) | Mask(Stage::kTokenize) | Mask(Stage::kUnattributed), LookPromptLength},
    {CauseId::kPrefixLost, "prefix_lost", "prefix_cache", LostWords("prefix_cache"),
     "tokens.cached", "16 cached tokens (one block of a server's cache) fewer than the reference",
     Mask(Stage::kPrefill) | Mask(Stage::kUnattributed), LookPrefix},
    {CauseId::kThrottled, "cpu_quota", "background", "a CPU quota held the server back",
     "counters: cgroup_throttled_us", "5 % of the excess and 1 ms",
     kCompute | Mask(Stage::kWeights) | Mask(Stage::kProcessStart) | Mask(Stage::kUnattributed),
     LookThrottled},
    {CauseId::kDiskBusy, "disk_busy", "background", "the disk was busy with other reads",
     "counters: machine_disk_read_bytes, target_read_bytes; lanes",
     "others read 8 MiB and half of what the target read, and the target's rate fell by a quarter",
     kReads, LookDiskBusy},
    {CauseId::kDiskSlow, "disk_slow", "", "the disk was slower than usual",
     "counters: target_read_bytes; lanes or stages_ns.weights",
     "1 MiB read at less than three quarters of the reference's rate", kReads, LookDiskSlow},
    {CauseId::kBuffered, "stream_buffered", "", "the stream was held back on its way",
     "marks_ns.first_token, marks_ns.last_token; stream.token_events",
     "the tokens within 1 ms, or 5 % of the usual spread (method.md, section 6)",
     Mask(Stage::kTransport) | Mask(Stage::kUnattributed), LookBuffered},
    {CauseId::kCpuBusy, "cpu_busy", "background", "other work had the CPUs",
     "counters: target_run_queue_wait_ns, else psi_cpu_some_us",
     "5 ms and a tenth of the excess (threads wait side by side); 30 % of it for the machine's",
     kCompute | Mask(Stage::kWeights) | Mask(Stage::kProcessStart) | Mask(Stage::kUnattributed),
     LookCpu},
    {CauseId::kNewConnection, "connection_new", "connection", LostWords("connection"),
     "connection.reused; marks_ns.connected", "new here, kept in the reference",
     Mask(Stage::kTransport), LookConnection},
    {CauseId::kClocks, "clocks", "", "clocks were low", "counters: cpu_clock_hz",
     "a clock below nine tenths of the usual; 20 ms at most (two steps of at most 10 ms, the "
     "kernel's limit of cpufreq_policy_transition_delay_us)",
     kCompute, LookClocks},
}};

}  // namespace

std::span<const CauseRow> CauseRows() { return kRows; }

const CauseRow& RowOf(CauseId id) {
  const CauseRow& row = kRows[static_cast<size_t>(id)];
  CHECK(row.id == id);
  return row;
}

std::optional<double> CounterExcess(const Case& each, std::string_view name) {
  const std::optional<double> here = each.subject.Counter(name);
  const std::optional<double> usual = each.reference.Counter(name);
  if (!here || !usual) return std::nullopt;
  return *here - *usual;
}

double StageExcess(const Case& each, StageMask mask) {
  double sum = 0;
  for (int i = 0; i < results::kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    const std::optional<double> here = each.subject.Stage(stage);
    if ((mask & Mask(stage)) == 0 || !here) continue;
    sum += *here - each.reference.Stage(stage).value_or(0);
  }
  return std::max(0.0, sum);
}

std::string Ms(double ns) { return FormatDuration(std::llround(ns)); }
std::string Bytes(double bytes) { return FormatBytes(std::llround(bytes)); }

std::string Percent(double share) {
  std::array<char, 32> text{};
  const double percent = share * 100;
  std::snprintf(text.data(), text.size(), percent < 10 && percent > 0 ? "%.1f %%" : "%.0f %%",
                percent);
  return text.data();
}

}  // namespace rouse::explain
