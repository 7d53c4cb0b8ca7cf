// State layers: each is brought about, then read back; a state that was not reached is a finding,
// and no request is sent then. Never trusts that a call worked: the proof is a separate reading.
// docs/method.md has the table of layers, proofs and traps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/contention.h"
#include "lab/plan.h"
#include "lab/prompt_text.h"
#include "lab/target.h"
#include "lab/tier_place.h"
#include "results/attempt.h"

namespace rouse::lab {

// Pages of a file in the page cache: the seam to os/page_cache and loader, so that tests need
// neither a file nor a kernel. Read never touches the file's pages.
class PageLock {
 public:
  virtual ~PageLock() = default;
  // As the kernel counts them for our process.
  virtual int64_t locked_bytes() const = 0;
};

class PageCache {
 public:
  virtual ~PageCache() = default;
  struct Share {
    double leading_ratio = 0;  // resident share of the leading `fraction`
    double rest_ratio = 0;     // of what follows it; 0 when nothing does
    double ratio = 0;          // of the whole file
    int64_t file_bytes = 0;
    std::string proof;  // "cachestat"
    // Where `ratio` truly lies, when it is an estimate from a sample.
    std::optional<std::pair<double, double>> bounds = {};
    // The share of each equal part of the file, its first byte first.
    std::vector<double> parts = {};
  };
  virtual Result<Share> Read(const std::string& path, double fraction) = 0;
  // Drops all pages; the text says why some stayed, "" when the file is cold.
  virtual Result<std::string> Evict(const std::string& path) = 0;
  // Makes the leading fraction resident.
  virtual Status Warm(const std::string& path, double fraction) = 0;
  // The processes that have the file mapped, as far as we may know.
  virtual std::vector<int> Mappers(const std::string& path) = 0;
  // Whether we may know of this one.
  virtual bool MayKnowOf(int pid) = 0;
  // All of its pages, resident and locked by us for as long as the result lives.
  virtual Result<std::unique_ptr<PageLock>> Lock(const std::string& path) = 0;
};
PageCache& RealPageCache();

inline constexpr uint64_t kSalts = 1'000'000'000'000;

// What the states ask of the request that follows.
struct SendSetup {
  std::string salt_text;          // begins a system message of our own
  bool forbid_prefix = false;     // ask the server not to use its prefix cache
  bool reuse_connection = false;  // on the connection that the primer opened
  bool spawn_at_send = false;     // process = new: the target is started at the send
  std::string prompt = {};        // instead of the plan's
  std::optional<int64_t> max_tokens = {};
};

// A request that is sent to bring a state about, and is in no statistic.
struct PrimerReport {
  std::optional<int64_t> prompt_tokens;
  std::optional<int64_t> cached_tokens;
};

struct Preparation {
  results::LayerReadings readings;  // state_before
  bool reached = false;
  std::string why;  // the evidence when it was not
  SendSetup setup;
  // The process whose end and successor prove `process = new`.
  std::optional<ProcessIdentity> previous_process;
  // Most tokens that an `empty` prefix may find cached: what the template puts before our salt.
  std::optional<int64_t> forced_prefix_tokens;
  bool target_died = false;
};

struct StateContext {
  const Plan& plan;
  Target& target;
  PageCache& page_cache;
  Clock& clock;
  // Sends the attempt's prompt with this setup, unmeasured; retried while the server is starting.
  std::function<Result<PrimerReport>(const SendSetup&)> send_primer;
  // Says what is being waited for.
  std::function<void(const std::string&)> on_step;
  std::function<bool()> interrupted;
  // A number that no other attempt has, in [0, kSalts); two in a row differ in the first digit.
  std::function<uint64_t()> next_salt;
  // Remembered between attempts.
  std::vector<std::string> running_args;
  std::optional<int64_t> forced_prefix_tokens;
  // Starts ballast, background work and the sentinel; null where nothing may be started.
  LoadMaker* loads = nullptr;
  // Of the block, where all of its conditions share one (lab/plan.h).
  std::optional<uint64_t> block_salt = {};
  std::string running_path = {};  // as running_args
  TierPlaces places = {};
  std::optional<os::ReadLimit> read_limit = {};  // that the server was started with
  PromptLengths prompts = {};
  // Locked pages of `locked_file`, kept while conditions want them.
  std::unique_ptr<PageLock> page_lock = {};
  std::string locked_file = {};
  std::string told_state = {};  // the server's own, as the last ReadAfter had it; "" = none
};

// Brings about every layer of the condition and proves it; bounded waiting. Failures of the
// machinery (the file is gone, the target does not start) come back as the preparation's `why`;
// only an interrupt is an Error (kInterrupted).
Result<Preparation> BringAbout(StateContext& context, const Condition& condition);

// Waits until the target's processes use less than a tenth of one CPU, at most `limit_ns`.
// False when they never did.
bool WaitForQuiet(StateContext& context, int64_t limit_ns);

// What can be read without contacting the server: page cache and process. A layer that is not as
// wanted has reached = false.
results::LayerReadings ReadWithoutContact(StateContext& context, const Condition& condition,
                                          const Preparation& preparation);

// After the request, by every means: also what only the server can tell. `attempt` brings cached
// tokens and connection facts.
results::LayerReadings ReadAfter(StateContext& context, const Condition& condition,
                                 const Preparation& preparation, const results::Attempt& attempt);

// "page_cache: wanted cold, read 0.37 (cachestat): ..." for the first layer that was not reached;
// "" when all were.
std::string WhyNotReached(const results::LayerReadings& readings);

// Shares of the parts of a file to the thousandth, as a JSON list; "" without parts.
std::string StripJson(const std::vector<double>& parts);

// A line that no earlier prompt began with; always the same number of characters.
std::string SaltText(uint64_t salt);

}  // namespace rouse::lab
