// When the reader steps back: the shares of a core and of memory that others get first. A pure
// decision (Decide) and the part that measures and sleeps (Pacer).
//
// Reading by MADV_POPULATE_READ costs about 0.02 s of CPU for a GB, so that the cap is seldom
// reached; pread, small windows and slow page tables reach it. It matters since the threads of
// compute wait for each other spinning: who takes a core from one of them delays all.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/time.h"
#include "os/proc_root.h"

namespace rouse::loader {

struct PaceInput {
  int64_t interval_ns = 0;  // since the last decision
  int64_t own_cpu_ns = 0;   // of this reader's thread, in that time
  // In which at least one task of the machine waited for a core, or for memory to be reclaimed.
  // Empty where the kernel does not tell.
  std::optional<int64_t> cpu_wait_ns;
  std::optional<int64_t> memory_wait_ns;
  bool computing = false;  // a model of this process is being computed
};

struct PaceDecision {
  int64_t sleep_ns = 0;
  bool memory_is_short = false;
};

// While somebody waits for a core, or a model computes, a reader takes at most 5 % of one; where
// tasks wait for memory for more than a tenth of the time, reading ahead makes it worse.
PaceDecision Decide(const PaceInput& input);

// Shared by the threads of one prefetcher.
class Pacer {
 public:
  Pacer(const os::ProcRoot& root, Clock& clock);

  // Any thread.
  void SetComputing(bool computing) { computing_ = computing; }
  bool computing() const { return computing_; }
  int64_t slept_ns() const { return slept_ns_; }

  // One per thread, made and used on it.
  class Thread {
   public:
    explicit Thread(Pacer& pacer);
    // Between two windows; sleeps when it should. False when memory was short several times in a
    // row: reading ahead is to end. `cancel` ends the sleep early.
    bool Pause(const std::atomic<bool>& cancel);

   private:
    Pacer& pacer_;
    MonoTime decided_;
    int64_t cpu_ns_ = 0;
    std::optional<int64_t> cpu_wait_us_;
    std::optional<int64_t> memory_wait_us_;
    int short_in_a_row_ = 0;
  };

 private:
  const os::ProcRoot& root_;
  Clock& clock_;
  std::atomic<bool> computing_{false};
  std::atomic<int64_t> slept_ns_{0};
};

}  // namespace rouse::loader
