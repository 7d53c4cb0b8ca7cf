// StartPlan: the steps of a load as a graph. Each runs as soon as all that it needs has ended, on
// one of a few threads; whoever needs a part waits for that part only. It knows nothing of models.
// Private to src/engine.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "engine/steps.h"

namespace rouse::engine {

class StartPlan {
 public:
  struct Part {
    Stage stage = Stage::kWeights;
    std::string name = {};
    std::vector<std::string> needs =
        {};  // names of parts that were added before; others count as done
    // Returns the bytes that it made available, if that says anything. `stop` is requested when the
    // owner or another part's failure asks for it.
    std::function<Result<std::optional<int64_t>>(const std::stop_token& stop)> run;
  };

  // After the last part, on the thread that ran it, with the first error if there was one:
  // kInterrupted when the plan had been stopped by then, since parts fail of that too. May
  // return an error of its own; waiters go on after it.
  using Finish = std::function<void(const Status&)>;
  // A part that has ended well; on its thread, one at a time.
  using Observer = std::function<void(const Step&)>;

  StartPlan() = default;
  ~StartPlan();  // stops and joins
  StartPlan(const StartPlan&) = delete;
  StartPlan& operator=(const StartPlan&) = delete;

  // In order of importance: of two that could run, the first one added does.
  void Add(Part part);

  // Once. Returns at once. `stop` may come from anywhere.
  void Start(int threads, const std::stop_token& stop, Observer observer, Finish finish);

  void RequestStop() { stop_.request_stop(); }

  // Returns when the part has ended, or the plan; at once when there is no such part: what was kept
  // from an earlier load is there.
  void WaitFor(std::string_view name);
  // Returns when `finish` has returned and no thread is left.
  void Join();

  // By start; after Join() or in `finish`.
  std::vector<Step> TakeSteps();

 private:
  enum class State { kWaiting, kRunning, kDone, kFailed, kSkipped };
  struct Entry {
    Part part;
    State state = State::kWaiting;
  };

  void Work();
  void RunPart(Entry& entry, std::unique_lock<std::mutex>& lock);
  Entry* Next();  // null: none can run now
  bool Ended(std::string_view name) const;
  bool AllEnded() const;

  std::mutex mutex_;  // guards all below, but for what is set before Start()
  std::condition_variable changed_;
  std::vector<Entry> entries_;
  std::vector<Step> steps_;
  std::optional<Error> error_;
  bool finishing_ = false;
  bool finished_ = false;
  Observer observer_;
  Finish finish_;
  std::stop_source stop_;
  std::optional<std::stop_callback<std::function<void()>>> outer_stop_;
  std::vector<std::thread> threads_;
};

}  // namespace rouse::engine
