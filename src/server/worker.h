// The engine thread: takes jobs from the queue, one at a time, and is the only thread that calls
// the engine. What others may know is published as an immutable snapshot, so that nobody waits for
// it.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "server/completion.h"
#include "server/eta.h"
#include "server/job_queue.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/timeline.h"

namespace rouse::server {

// The one model of this server.
struct ModelInfo {
  std::string id;
  std::string path;                // the file, or a split model's first part
  std::vector<std::string> parts;  // all files
  int64_t bytes = 0;               // of all files
  // What was done for the first load before the engine was there: reading the header.
  std::vector<engine::Step> earlier_steps;
};

enum class Phase {
  kStarting,  // no engine yet
  kUnloaded,
  kLoading,
  kReady,
  kFailed,  // the last load failed; the next request tries again
};
std::string_view PhaseName(Phase phase);  // "starting", "unloaded", ...

struct WorkerSnapshot {
  Phase phase = Phase::kStarting;
  MonoTime since;                         // when the phase began
  std::string failure;                    // of kFailed
  std::optional<MonoTime> running_since;  // a request is being answered
  EtaHistory history;
};

class Worker {
 public:
  // `metrics` must outlive the worker.
  Worker(int64_t queue_limit, Metrics* metrics, Log log);
  ~Worker();  // Stop()

  struct StartOptions {
    ModelInfo model;
    std::unique_ptr<engine::Engine> engine;
    ProcessFacts process;
    bool load_now = true;
    // Runs on the engine thread when the load of `load_now` failed; everyone who waited has been
    // answered by then.
    std::function<void(const Error&)> on_first_load_failed;
  };
  // Starts the thread. Jobs may have been submitted before; they wait.
  void Start(StartOptions options);

  // Any thread, never blocks. A job's client that goes away cancels it.
  Admission Submit(const std::shared_ptr<Job>& job);
  int64_t waiting() const { return queue_.waiting(); }

  // Any thread, never waits for the engine.
  std::shared_ptr<const WorkerSnapshot> snapshot() const { return snapshot_.load(); }
  // Null before Start().
  std::shared_ptr<const ModelInfo> model() const { return model_.load(); }
  std::shared_ptr<const engine::EngineFacts> facts() const;

  // Interrupts a load and the running answer, refuses what waits, and joins the thread. Not from
  // the engine thread.
  void Stop();

 private:
  void Run(bool load_now, const std::function<void(const Error&)>& on_first_load_failed);
  void RunJob(Job& job);
  void RunCompletion(Job& job);
  // Counts a request whose answer is about to end.
  void Account(const CompletionResult& result, MonoTime start, MonoTime taken, bool found_loaded);
  void RunLoad(Job& job);
  void RunUnload(Job& job);
  // Loads what is missing.
  Status EnsureLoaded();
  void RefuseWaiting(const ApiError& error);

  template <typename Change>
  void Publish(Change change);
  void SetPhase(Phase phase, std::string failure = "");

  Metrics* const metrics_;
  const Log log_;
  JobQueue queue_;
  std::unique_ptr<engine::Engine> engine_;
  std::atomic<engine::Engine*> engine_for_facts_{nullptr};
  ProcessFacts process_;
  std::atomic<std::shared_ptr<const ModelInfo>> model_;
  std::atomic<std::shared_ptr<const WorkerSnapshot>> snapshot_;
  std::deque<LoadWindow> loads_;  // the latest; engine thread only
  std::stop_source stopping_;
  std::thread thread_;
};

}  // namespace rouse::server
