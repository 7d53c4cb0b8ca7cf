// The reader beside a load (loader/prefetcher.h), as the server drives it: it begins when a request
// or a start wants the weights, learns from the engine where they are mapped, steps back while the
// engine computes, and knows when the mapped file broke.
//
// Threads: everything may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "loader/mapping_guard.h"
#include "loader/prefetcher.h"
#include "loader/tail_stream.h"

namespace rouse::server {

class WeightsReader : public engine::MappingWatcher {
 public:
  // `enabled`: false = only guards mappings, reads nothing ahead.
  WeightsReader(std::vector<std::string> parts, bool enabled);
  ~WeightsReader() override;

  // Starts reading for a request of which nobody knows yet whether it will be answered: not through
  // the weights' own mapping, so that the pages of a sleeping model come into the page cache and
  // none stays in this process. Nothing when it reads already. About 50 us.
  void BeginEarly();
  // The request was refused: ends what BeginEarly() began, unless a load has taken it over by
  // Begin(). Does not wait.
  void EndEarly();
  // For a load: starts reading, or goes on through the mapping with what reads already. About 50
  // us.
  void Begin();
  // The same unless a look at some pieces of the files says that they are resident; 0.1 ms. Not
  // `rested`: pages have hardly gone since the last request, so that only a file that did not fit
  // into memory is looked at again.
  void BeginIfCold(bool rested);
  // Ends it and waits for the windows under way.
  void End();
  // The engine computes: the reader takes little CPU meanwhile.
  void SetComputing(bool computing);

  // Of the reader that runs, or ran last.
  std::optional<loader::PrefetchReport> Report() const;
  // The same as a lane of a timeline: from its beginning to its end, or to now. Empty before the
  // first, and when it had nothing to read.
  std::optional<engine::Step> Lane() const;
  // Of the stream of a file that does not fit into memory; empty where it fits, as far as the
  // latest reader saw.
  std::optional<loader::TailStream::Report> Tail() const;
  // Bytes that all readers brought in.
  int64_t TotalReadBytes() const;
  // Bytes a second of the latest reader; empty while it runs, and when it read too little to tell.
  std::optional<int64_t> BytesPerSecond() const;

  // Why what the mapped weights hold is not the file (any more): the file was cut, or its device
  // failed, since they were mapped. They have to be unloaded then.
  std::optional<Error> Broken() const;

  // engine::MappingWatcher
  void Mapped(const std::vector<engine::FileMapping>& mappings) override;
  void AboutToUnmap() override;

 private:
  void BeginLocked(bool early);
  void StartTailLocked();

  struct Guarded {
    engine::FileMapping mapping;
    std::unique_ptr<loader::MappingGuard> guard;
  };

  const std::vector<std::string> parts_;
  const bool enabled_;
  mutable std::mutex mutex_;
  std::vector<Guarded> mappings_;
  // Shared, so that nobody waits for a window while holding the mutex.
  std::shared_ptr<loader::Prefetcher> prefetcher_;
  bool cancelled_ = false;                                    // prefetcher_ was told to end
  bool early_ = false;                                        // and no load has begun since
  std::vector<std::shared_ptr<loader::Prefetcher>> retired_;  // told to end, perhaps not ended yet
  // For a file that does not fit into memory; made when both its size and its mapping are known.
  std::shared_ptr<loader::TailStream> tail_;
  std::optional<int64_t> tail_memory_bytes_;
  bool computing_ = false;
  int64_t earlier_read_bytes_ = 0;  // of prefetchers that are gone
};

}  // namespace rouse::server
