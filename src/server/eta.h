// How long a request that came now would wait for its first token, by what was measured here
// before. No measurement, no estimate. Pure: no clock, no I/O.
//
// A load and the first prompt after it overlap (pages come while the prompt is computed), so the
// unit that is measured is the whole start: from the beginning of a load to the first token of the
// request that waited for it, by what was there before and how much of the file was resident.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "engine/engine.h"

namespace rouse::server {

// What a load begins from.
struct LoadStart {
  engine::Tier tier = engine::Tier::kUnloaded;
  bool tokenizer_kept = false;
  std::optional<double> resident_ratio = {};  // of the file; empty when it could not be read
};

// Durations of the past, newest last; each list is bounded.
class EtaHistory {
 public:
  // From a load's beginning until the model was ready.
  void AddLoad(const LoadStart& from, int64_t duration_ns);
  // From a load's beginning to the first token of a request that was there by then.
  void AddStart(const LoadStart& from, int64_t first_token_ns);
  // Of a request that found the model loaded: from the engine's turning to it to the first token,
  // and to its end.
  void AddRequest(int64_t first_token_ns, int64_t whole_ns);

  struct Now {
    bool loaded = false;
    std::optional<int64_t> loading_for_ns = {};  // set while a load runs
    LoadStart from = {};  // of the load that runs, or that would; `resident_ratio` also when loaded
    int64_t waiting = 0;  // requests before this one, without the running one
    std::optional<int64_t> running_for_ns = {};
    // What is not resident comes at this rate. Either empty: not told.
    std::optional<int64_t> file_bytes = {};
    std::optional<int64_t> read_bytes_per_s = {};
  };
  struct Estimate {
    std::optional<int64_t> ns;
    std::string reason;  // why there is none
  };
  Estimate FirstToken(const Now& now) const;

  // The median start from a tier, whatever was resident; empty when none was measured.
  std::optional<int64_t> StartNs(engine::Tier tier) const;

 private:
  struct Sample {
    LoadStart from;
    int64_t ns;
  };
  static std::optional<int64_t> Like(const std::deque<Sample>& samples, const LoadStart& from);

  std::deque<Sample> loads_;
  std::deque<Sample> starts_;
  std::deque<int64_t> first_token_ns_;
  std::deque<int64_t> whole_ns_;
};

}  // namespace rouse::server
