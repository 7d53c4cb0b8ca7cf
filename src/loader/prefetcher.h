// Prefetcher: brings a model's files into the page cache beside a load, in file order, on threads
// of its own. It goes through the weights' own mapping once that exists (so that computing takes no
// faults, and there is one read-ahead state) and through a descriptor of its own before. It skips
// what is resident, leaves memory to others (memory_budget.h), steps back from those who compute
// (pace.h), and reads in the way that was fastest on this device (device_profile.h); where nothing
// is known yet, its first megabytes are the probe.
//
// What does not fit into memory is not read: see tail_stream.h for how such a file is computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "loader/device_profile.h"
#include "loader/memory_budget.h"

namespace rouse::loader {

// One file of a model as somebody has it mapped: `address` is where `file_offset` is.
struct MappedPart {
  std::string path;
  const std::byte* address = nullptr;
  int64_t file_offset = 0;
  int64_t bytes = 0;
};

enum class PrefetchEnd {
  kRunning,
  kDone,  // everything that was wanted is resident
  kCancelled,
  kMemory,  // stopped since memory is short; the rest comes by page faults
  kFailed,  // a file can't be read (any more): see `problem`
};
std::string_view PrefetchEndName(PrefetchEnd end);  // "running", "done", ...

struct PrefetchReport {
  PrefetchEnd end = PrefetchEnd::kRunning;
  std::string problem;
  MonoTime started;
  MonoTime ended;                             // or the moment of the report, while it runs
  int64_t file_bytes = 0;                     // of all parts
  std::optional<int64_t> resident_bytes = 0;  // before; empty where this user may not count them
  // Brought in: the windows that were read. Where nothing tells which of them were resident, what
  // the disk read for them (0 on file systems without a block device).
  int64_t read_bytes = 0;
  int64_t mapped_bytes = 0;           // of them, through the mapping
  int64_t omitted_bytes = 0;          // not read, since they would not fit into memory
  int64_t slept_ns = 0;               // stepping back, all threads
  ReadSetup setup;                    // the one in use
  std::vector<MeasuredSetup> probed;  // empty: no probe this time
};

class Prefetcher {
 public:
  struct Options {
    std::vector<std::string> parts;
    // Where device profiles are; "" = none is read or kept.
    std::string profiles_path = DefaultProfilesPath();
    std::optional<ReadSetup> setup = {};  // instead of profile and probe
    bool within_memory = true;
    int64_t reserve_bytes = int64_t{256}
                            << 20;          // left to the machine; an eighth of a group's limit
    std::vector<MappedPart> mappings = {};  // those that exist already
    // Called once, on a thread of the prefetcher, for a model of one file: with the memory that
    // there is for it when it does not fit (then only what PlanTail() keeps of it is read), with
    // nothing when it does. May be empty.
    std::function<void(std::optional<int64_t> memory_bytes)> on_fit = {};
    std::function<MemoryBudget()> read_memory = [] { return ReadOwnMemoryBudget(); };
  };

  // Returns at once; all work is on threads of its own. Whatever goes wrong is in the report.
  static std::unique_ptr<Prefetcher> Start(Options options);

  virtual ~Prefetcher() = default;  // Cancel() and waits

  // Goes on through these mappings; they must stay until Detach() has returned.
  virtual void Attach(std::vector<MappedPart> mappings) = 0;
  // When it returns, no mapping is used any more (waits for the windows under way). Reading goes on
  // through descriptors.
  virtual void Detach() = 0;

  // While true, the reader takes little CPU. Any thread.
  virtual void SetComputing(bool computing) = 0;

  // Ends after the windows under way; does not wait.
  virtual void Cancel() = 0;
  virtual void Wait() = 0;

  // Any thread, any time.
  virtual PrefetchReport Report() const = 0;
};

}  // namespace rouse::loader
