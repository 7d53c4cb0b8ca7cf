// State layers: each is brought about, then read back; a state that was not reached is a finding,
// and no request is sent then. Never trusts that a call worked: the proof is a separate reading.
// docs/method.md has the table of layers, proofs and traps.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "lab/plan.h"
#include "lab/target.h"
#include "results/attempt.h"

namespace rouse::lab {

// Pages of a file in the page cache: the seam to os/page_cache and loader, so that tests need no
// file and no kernel. All three never touch the file's pages except to warm them.
class PageCache {
 public:
  virtual ~PageCache() = default;
  struct Share {
    double resident_ratio = 0;
    int64_t file_bytes = 0;
    std::string proof;  // "cachestat"
  };
  // The resident share of the leading `fraction` of the file, and of the rest.
  virtual Result<Share> Read(const std::string& path) = 0;
  virtual Status Evict(const std::string& path) = 0;
  // Makes exactly the leading fraction resident (the rest is evicted first when fraction < 1).
  virtual Status Warm(const std::string& path, double fraction) = 0;
};
PageCache& RealPageCache();

// What the states ask of the request that follows.
struct SendSetup {
  std::string system_prompt;  // begins with the salt when the prefix is to miss
  bool cache_prompt = true;
  bool reuse_connection = false;
  bool spawn_at_send = false;  // process = new: the target is started at the send
};

struct Preparation {
  results::LayerReadings readings;  // state_before
  bool reached = false;
  std::string why;  // the evidence when it was not
  SendSetup setup;
  // What went before: the process whose end and successor prove `process = new`.
  std::optional<ProcessIdentity> previous_process;
};

struct StateContext {
  const Plan& plan;
  Target& target;
  PageCache& page_cache;
  Clock& clock;
  // Sends the attempt's own prompt once, unmeasured (primes the prefix cache and maps the weights
  // of a loaded model). Returns the number of prompt tokens where the server tells it.
  std::function<Status(const SendSetup&)> send_primer;
  // Draws the salts: one number per attempt, so that no two prompts begin alike.
  uint64_t salt = 0;
  std::function<bool()> interrupted;
};

// Brings about every layer of the condition and proves it; bounded waiting (30 s a layer, the
// plan's timeout for a model's load). Errors of the machinery itself (no such file, the target does
// not start) come back as the preparation's `why`; only an interrupt is an Error.
Result<Preparation> BringAbout(const StateContext& context, const Condition& condition);

// What can be read without contacting the server: page cache, process.
results::LayerReadings ReadWithoutContact(const StateContext& context, const Condition& condition);

// After the request, by every means: also what only the server can tell. `attempt` brings the
// cached tokens; the readings of prefix_cache and process are judged here.
results::LayerReadings ReadAfter(const StateContext& context, const Condition& condition,
                                 const Preparation& preparation, const results::Attempt& attempt);

// A system prompt that no earlier attempt has sent: "[7f3a...] ..." of constant token length.
std::string SaltedSystemPrompt(uint64_t salt);

}  // namespace rouse::lab
