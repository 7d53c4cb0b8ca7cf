// How long a request that came now would wait for its first token, by what was measured here
// before: queue + load at this residency + prompt. No measurement, no estimate. Pure: no clock, no
// I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace rouse::server {

// Durations of the past, newest last; each list is bounded.
class EtaHistory {
 public:
  // `resident_ratio`: of the file, when the load began; empty when it could not be read.
  // `tokenizer_kept`: from an earlier load, so that this one was spared it.
  void AddLoad(int64_t duration_ns, std::optional<double> resident_ratio, bool tokenizer_kept);
  // Of a request that found the model loaded: from the engine's turning to it to the first token,
  // and to its end.
  void AddRequest(int64_t first_token_ns, int64_t whole_ns);

  struct Now {
    bool loaded = false;
    std::optional<int64_t> loading_for_ns = {};  // set while a load runs
    std::optional<double> resident_ratio = {};
    bool tokenizer_kept = false;
    int64_t waiting = 0;  // requests before this one, without the running one
    std::optional<int64_t> running_for_ns = {};
  };
  struct Estimate {
    std::optional<int64_t> ns;
    std::string reason;  // why there is none
  };
  Estimate FirstToken(const Now& now) const;

 private:
  struct Load {
    int64_t duration_ns;
    std::optional<double> resident_ratio;
    bool tokenizer_kept;
  };
  std::optional<int64_t> LoadNs(const Now& now) const;

  std::deque<Load> loads_;
  std::deque<int64_t> first_token_ns_;
  std::deque<int64_t> whole_ns_;
};

}  // namespace rouse::server
