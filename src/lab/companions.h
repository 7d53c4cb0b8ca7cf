// The other requests of a condition with `concurrency`: sent at the same moment as the one that is
// measured, each on a thread and a connection of its own, with a salt of its own. What they saw is
// stored with the measured attempt; they are no attempts (docs/decisions/0009-concurrency.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/sender.h"
#include "results/attempt.h"
#include "wire/exchange.h"

namespace rouse::lab {

// Between the intended sends of neighbours in a burst: so the order is the drawn one, not the
// scheduler's.
inline constexpr int64_t kBurstStepNs = 50'000;

class Companions {
 public:
  struct Seen {
    int64_t place = 0;
    wire::Exchange exchange;
  };

  Companions() = default;
  ~Companions();
  Companions(const Companions&) = delete;
  Companions& operator=(const Companions&) = delete;

  // One thread per request, waiting. `place` of the measured one among them is left out.
  Status Prepare(const std::vector<wire::RequestSpec>& requests, int64_t measured_place,
                 const SenderMaker& make_sender, const std::atomic<bool>* interrupt);
  // Sends them all: the one at place i at `first` + i steps. While `starting`, a refused one is
  // tried again as the measured one is.
  void Go(MonoTime first, bool starting);
  // Waits for the end of all. Where a starting server never came, they stop trying.
  std::vector<Seen> Finish(bool give_up);

 private:
  struct Order {
    MonoTime first;
    bool starting = false;
    bool cancelled = false;
  };
  void Run(Sender& sender, Seen& seen, const std::atomic<bool>* interrupt);

  std::promise<Order> order_;
  std::shared_future<Order> ordered_;
  bool gone_ = false;
  std::atomic<bool> give_up_ = false;
  std::vector<std::unique_ptr<Sender>> senders_;
  std::vector<Seen> seen_;
  std::vector<std::thread> threads_;
};

// Into the attempt: its `burst` object, the counters companions_*, and the reading `concurrency`,
// which is reached when all of them were under way together with the measured one.
void StoreCompanions(const std::vector<Companions::Seen>& seen, int64_t measured_place,
                     MonoTime intended, results::Attempt& attempt);

}  // namespace rouse::lab
