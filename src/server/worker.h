// The engine thread: takes jobs from the queue, one at a time, and is the only thread that calls
// the engine. What others may know is published as an immutable snapshot, so that nobody waits for
// it.
//
// While the engine loads (on threads of its own), this one prepares the prompt of the first request
// that waits. A load that only requests wanted is stopped when the last of them has gone. When
// nobody asks for a while, the model is put to sleep and then unloaded, and before that the engine
// may do work that makes later requests faster.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "server/completion.h"
#include "server/eta.h"
#include "server/file_identity.h"
#include "server/job_queue.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/timeline.h"
#include "server/weights_reader.h"

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
  kAsleep,  // everything is there but the weights' pages and the KV's memory
  kLoading,
  kReady,
  kFailed,  // the last load failed; the next request tries again
};
std::string_view PhaseName(Phase phase);  // "starting", "unloaded", ...

struct WorkerSnapshot {
  Phase phase = Phase::kStarting;
  MonoTime since;                          // when the phase began
  std::string failure;                     // of kFailed
  std::vector<FileIdentity> loaded_files;  // by the latest load that succeeded
  std::optional<MonoTime> running_since;   // a request is being answered, its load included
  EtaHistory history;
  // Bytes a second that the reader brought in when it last had enough to tell.
  std::optional<int64_t> read_bytes_per_s;
  int64_t sleeps = 0;
  int64_t unloads = 0;
};

// When the model gives memory back by itself; empty: never.
struct IdlePolicy {
  std::optional<int64_t> sleep_after_ns;
  std::optional<int64_t> unload_after_ns;
};

using EngineMaker = std::function<Result<std::unique_ptr<engine::Engine>>()>;

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
    IdlePolicy idle;
    // Makes another engine for the same model, when its files were replaced and what the engine
    // keeps of the old ones must go. Empty: such a model is a failed load.
    EngineMaker make_engine;
    std::shared_ptr<WeightsReader> reader;  // may be null
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
  void Run(bool load_now);
  // Until when to wait for a job, before something is to be done without one.
  std::optional<MonoTime> NextIdleWork() const;
  void DoIdleWork();
  void Improve();
  void RunJob(Job& job);
  void RunCompletion(Job& job);
  // The prompt, prepared beside the load that it caused or found, and a model that is loaded.
  // Empty: the job has been answered, or its client has gone.
  std::optional<PreparedPrompt> Prepare(Job& job);
  void Answer(Job& job, PreparedPrompt prompt);
  // Counts a request whose answer is about to end.
  void Account(const CompletionResult& result, const Job& job, const CompletionContext& context);
  void RunLoad(Job& job);
  void RunSleep(Job& job);
  void RunUnload(Job& job);

  struct LoadWish {
    // Nobody else wants it, so that it may be stopped when its clients go.
    bool by_request = false;
    std::optional<int64_t> prompt_tokens;
    // The files changed under the load before.
    bool again = false;
  };
  void BeginLoad(LoadWish wish);
  // Waits for the load; false when `job`'s client goes before that.
  bool AwaitLoad(const Job& job);
  // Takes the load's result in and answers those who asked for the load; refuses those who wait
  // when it failed. Waits for its end. Empty: it failed since the files changed meanwhile, and has
  // begun once more, for whomever it was for; what was prepared with the engine is void then.
  std::optional<Status> EndLoad();
  // The same until one has ended for good, and tells the owner of a failure.
  void SettleLoad();
  Status TakeLoad();
  bool MayLoadAgain();
  // To the log and in the snapshot.
  void TellFailure(const Error& error);
  // Tells the owner when it was the first load.
  void AfterFailedLoad(const Error& error);
  // Stops a load that nobody wants any more.
  void StopUnwantedLoad();
  Status Sleep();
  void Unload();
  // Looks whether the files are still those that were loaded; gives up what is not theirs. False
  // when others, or none, have their names by now.
  bool CheckFiles();
  // Gives up the engine's tokenizer too.
  Status RenewEngine();
  void CheckBroken();
  void LearnReadRate();
  void RefuseWaiting(const ApiError& error);

  template <typename Change>
  void Publish(Change change);
  void SetPhase(Phase phase, std::string failure = "");

  Metrics* const metrics_;
  const Log log_;
  JobQueue queue_;
  std::shared_ptr<engine::Engine> engine_;  // engine thread only; what others may use:
  std::atomic<std::shared_ptr<engine::Engine>> engine_for_facts_;
  EngineMaker make_engine_;
  std::shared_ptr<WeightsReader> reader_;
  IdlePolicy idle_;
  std::function<void(const Error&)> on_first_load_failed_;  // until the first load has ended
  ProcessFacts process_;
  std::atomic<std::shared_ptr<const ModelInfo>> model_;
  std::atomic<std::shared_ptr<const WorkerSnapshot>> snapshot_;

  // Engine thread only.
  std::deque<LoadWindow> loads_;  // the latest
  bool loading_ = false;          // between BeginLoad() and EndLoad()
  LoadWish load_wish_;
  LoadStart load_start_;
  MonoTime load_started_;
  bool start_is_counted_ = false;  // a request's first token after the last load was
  bool changed_while_loading_ = false;
  std::vector<std::shared_ptr<http::ResponseWriter>> load_waiters_;
  std::vector<FileIdentity> identities_;  // of the files that were loaded last
  MonoTime last_used_;
  bool may_improve_ = false;
  bool may_sleep_ = true;  // the engine has not said that it can't

  std::mutex load_mutex_;  // guards the next three
  std::condition_variable_any load_changed_;
  bool load_done_ = false;
  std::stop_source load_stop_;
  std::mutex improve_mutex_;  // guards the next
  std::stop_source improve_stop_;
  std::stop_source stopping_;
  std::thread thread_;
};

template <typename Change>
void Worker::Publish(Change change) {
  const auto now = snapshot_.load();
  auto next =
      now == nullptr ? std::make_shared<WorkerSnapshot>() : std::make_shared<WorkerSnapshot>(*now);
  change(*next);
  snapshot_ = std::shared_ptr<const WorkerSnapshot>(std::move(next));
}

}  // namespace rouse::server
