// Counters and histograms of the server, and their text for Prometheus (exposition format 0.0.4).
// Durations are in seconds there, as that world expects. Thread-safe; each call is well under a
// microsecond of locked time, except Render().
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "os/proc_status.h"
#include "server/timeline.h"

namespace rouse::server {

// How a request for text ended.
enum class RequestOutcome {
  kOk,
  kCancelled,  // the client went away
  kRefused,    // 4xx: the request's own fault
  kOverload,   // 429: the queue was full
  kFailed,     // 5xx, or an error in the stream
};
inline constexpr int kRequestOutcomeCount = 5;
std::string_view RequestOutcomeName(RequestOutcome outcome);

// Cumulative buckets from 1 ms to about 17 minutes, each twice the one before.
class Histogram {
 public:
  static constexpr int kBuckets = 21;
  void Observe(int64_t ns);
  // `labels`: "stage=\"prefill\"" or "".
  void Render(std::string& out, std::string_view name, const std::string& labels) const;

 private:
  std::array<int64_t, kBuckets + 1> counts_{};
  int64_t sum_ns_ = 0;
};

// What is read at the moment of the scrape.
struct Gauges {
  std::string model;
  bool loaded = false;
  bool loading = false;
  int64_t queue_waiting = 0;
  int64_t queue_limit = 0;
  int64_t running = 0;
  int64_t connections = 0;
  std::optional<double> resident_ratio;
  std::optional<int64_t> memory_bytes;
  std::optional<int64_t> prefix_tokens;
  std::optional<engine::Tier> tier;
  struct TierCost {
    engine::Tier tier;
    std::optional<int64_t> process_bytes;
    std::optional<int64_t> first_token_ns;  // median of the starts from it
  };
  std::vector<TierCost> tiers;
  int64_t sleeps = 0;
  int64_t unloads = 0;
  int64_t reader_bytes = 0;
  std::optional<os::ProcStatus> process_memory;
};

class Metrics {
 public:
  void CountRequest(RequestOutcome outcome);
  // A request that got its first token: from its start to the token's departure, and its stages.
  void ObserveFirstToken(int64_t ttft_ns, const std::vector<TimelineSegment>& segments);
  void CountTokens(int64_t prompt, int64_t cached, int64_t generated);
  void ObserveLoad(bool ok, int64_t duration_ns);

  std::string Render(const Gauges& gauges) const;

 private:
  void RenderTimes(std::string& out) const;  // needs mutex_
  static void RenderTiers(std::string& out, const Gauges& gauges);
  static void RenderProcess(std::string& out, const Gauges& gauges);

  mutable std::mutex mutex_;
  std::array<int64_t, kRequestOutcomeCount> requests_{};
  std::array<int64_t, 2> loads_{};  // failed, ok
  Histogram ttft_;
  Histogram load_;
  std::map<std::string, Histogram, std::less<>> stages_;
  int64_t prompt_tokens_ = 0;
  int64_t cached_tokens_ = 0;
  int64_t generated_tokens_ = 0;
};

}  // namespace rouse::server
