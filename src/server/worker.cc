#include "server/worker.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "server/api_error.h"
#include "server/completion.h"
#include "server/residency.h"

namespace rouse::server {
namespace {

// After so long without a request, pages may have gone.
constexpr int64_t kRestedNs = kNsPerSecond;
// Work for later requests begins when nobody has asked for so long.
constexpr int64_t kImproveAfterNs = 500 * kNsPerMs;
constexpr int64_t kBytesPerToken = 4;

int64_t EstimatePromptTokens(const CompletionRequest& request) {
  if (!request.prompt_tokens.empty()) return std::ssize(request.prompt_tokens);
  return (std::ssize(request.messages_json) + std::ssize(request.prompt)) / kBytesPerToken + 1;
}

}  // namespace

std::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kStarting:
      return "starting";
    case Phase::kUnloaded:
      return "unloaded";
    case Phase::kAsleep:
      return "asleep";
    case Phase::kLoading:
      return "loading";
    case Phase::kReady:
      return "ready";
    case Phase::kFailed:
      return "failed";
  }
  CHECK(false);
}

Worker::Worker(int64_t queue_limit, Metrics* metrics, Log log)
    : metrics_(metrics), log_(std::move(log)), queue_(queue_limit) {
  SetPhase(Phase::kStarting);
}

Worker::~Worker() { Stop(); }

void Worker::Start(StartOptions options) {
  CHECK(!thread_.joinable());
  engine_ = std::move(options.engine);
  engine_for_facts_ = engine_;
  make_engine_ = std::move(options.make_engine);
  reader_ = std::move(options.reader);
  idle_ = options.idle;
  process_ = options.process;
  model_ = std::make_shared<const ModelInfo>(std::move(options.model));
  if (options.load_now) on_first_load_failed_ = std::move(options.on_first_load_failed);
  // Before the thread runs, so that nobody sees a server that is to load at once as unloaded.
  SetPhase(options.load_now ? Phase::kLoading : Phase::kUnloaded);
  thread_ = std::thread([this, load_now = options.load_now] {
    pthread_setname_np(pthread_self(), "rouse-engine");
    Run(load_now);
  });
}

std::shared_ptr<const engine::EngineFacts> Worker::facts() const {
  const std::shared_ptr<engine::Engine> engine = engine_for_facts_.load();
  return engine == nullptr ? nullptr : engine->Facts();
}

Admission Worker::Submit(const std::shared_ptr<Job>& job) {
  const Admission admission = queue_.Push(job);
  if (admission == Admission::kQueued) {
    const std::lock_guard lock(improve_mutex_);
    improve_stop_.request_stop();
  }
  if (admission != Admission::kQueued || job->writer == nullptr) return admission;
  // Set after the push, so that a client that went before is noticed as well. A load or unload that
  // was asked for happens although its client went.
  job->writer->OnClientGone([this, weak = std::weak_ptr(job)] {
    const auto gone = weak.lock();
    if (gone == nullptr) return;
    gone->stop.request_stop();
    if (gone->kind == Job::Kind::kCompletion && queue_.Remove(gone.get())) {
      metrics_->CountRequest(RequestOutcome::kCancelled);
      queue_.Wake();
    }
  });
  return admission;
}

void Worker::Stop() {
  stopping_.request_stop();
  {
    const std::lock_guard lock(load_mutex_);
    load_stop_.request_stop();
  }
  {
    const std::lock_guard lock(improve_mutex_);
    improve_stop_.request_stop();
  }
  queue_.Close();
  if (thread_.joinable()) thread_.join();
  // Without a thread, nobody has answered.
  RefuseWaiting(ShuttingDown());
}

void Worker::Run(bool load_now) {
  last_used_ = MonoNow();
  if (load_now) BeginLoad({});
  while (!queue_.closed()) {
    const std::shared_ptr<Job> job = queue_.PopUntil(NextIdleWork());
    if (job != nullptr && stopping_.stop_requested()) {
      if (job->writer) job->writer->Send(ErrorResponse(ShuttingDown()));
    } else if (job != nullptr) {
      RunJob(*job);
      last_used_ = MonoNow();
    } else if (loading_) {
      bool done = false;
      {
        const std::lock_guard lock(load_mutex_);
        done = load_done_;
      }
      if (!done) {
        StopUnwantedLoad();  // woken since a client went
        continue;
      }
      const std::optional<Status> loaded = EndLoad();
      last_used_ = MonoNow();
      if (loaded && !loaded->ok()) AfterFailedLoad(loaded->error());
    } else if (!stopping_.stop_requested()) {
      DoIdleWork();
    }
  }
  SettleLoad();
  if (reader_ != nullptr) reader_->End();
}

void Worker::RunJob(Job& job) {
  switch (job.kind) {
    case Job::Kind::kCompletion:
      Publish([](WorkerSnapshot& next) { next.running_since = MonoNow(); });
      RunCompletion(job);
      Publish([](WorkerSnapshot& next) { next.running_since.reset(); });
      return;
    case Job::Kind::kLoad:
      return RunLoad(job);
    case Job::Kind::kSleep:
      return RunSleep(job);
    case Job::Kind::kUnload:
      return RunUnload(job);
  }
}

void Worker::RunCompletion(Job& job) {
  const auto model = model_.load();
  // The client may have gone, and the stop been asked for, before this job was popped.
  if (job.stop.stop_requested()) {
    metrics_->CountRequest(RequestOutcome::kCancelled);
    return StopUnwantedLoad();
  }
  if (!job.request.model.empty() && job.request.model != model->id) {
    metrics_->CountRequest(RequestOutcome::kRefused);
    return job.writer->Send(ErrorResponse(UnknownModel(job.request.model, model->id)));
  }
  const bool has_files = CheckFiles();
  const bool rested = MonoNow() - last_used_ > kRestedNs;
  const bool ready = snapshot()->phase == Phase::kReady;
  if (reader_ != nullptr && ready && has_files) reader_->BeginIfCold(rested);
  std::optional<PreparedPrompt> prompt = Prepare(job);
  if (!prompt) return;
  Answer(job, *std::move(prompt));
  LearnReadRate();
  CheckBroken();
}

std::optional<PreparedPrompt> Worker::Prepare(Job& job) {
  const auto refuse = [&](const ApiError& error) {
    RefuseCompletion(job, error, [&](const CompletionResult& result) {
      metrics_->CountRequest(result.outcome);
      if (result.outcome == RequestOutcome::kFailed) {
        log_(LogLevel::kError, "a request failed: " + result.problem);
      }
    });
  };
  while (true) {
    if (!loading_ && snapshot()->phase != Phase::kReady) {
      BeginLoad({.by_request = true, .prompt_tokens = EstimatePromptTokens(job.request)});
    }
    std::expected<PreparedPrompt, ApiError> prompt = PreparePrompt(job.request, *engine_);
    if (!prompt && prompt.error().status < 500) {
      refuse(prompt.error());
      StopUnwantedLoad();
      return std::nullopt;
    }
    if (loading_) {
      if (!AwaitLoad(job)) {
        metrics_->CountRequest(RequestOutcome::kCancelled);
        StopUnwantedLoad();
        return std::nullopt;
      }
      const std::optional<Status> loaded = EndLoad();
      if (!loaded) continue;
      if (!loaded->ok()) {
        refuse(stopping_.stop_requested() ? ShuttingDown() : FromLoadError(loaded->error()));
        AfterFailedLoad(loaded->error());
        return std::nullopt;
      }
    }
    if (prompt) return *std::move(prompt);
    refuse(prompt.error());
    return std::nullopt;
  }
}

void Worker::Answer(Job& job, PreparedPrompt prompt) {
  CompletionContext context;
  context.engine = engine_.get();
  context.model_id = model_.load()->id;
  context.process = &process_;
  context.taken = prompt.start;
  for (const LoadWindow& load : loads_) {
    if (load.end > job.times.Start()) context.loads.push_back(load);
  }
  // A prompt that was prepared beside the load is one of its steps.
  if (!context.loads.empty() && prompt.start < context.loads.back().end) {
    LoadWindow& load = context.loads.back();
    load.steps.push_back({engine::Stage::kTokenize, "prompt", prompt.start, prompt.end, {}});
    load.end = std::max(load.end, prompt.end);
    context.taken = MonoNow();
  }
  context.prompt = std::move(prompt);
  if (reader_ != nullptr) {
    context.broken = [this] { return reader_->Broken(); };
    context.reader_lane = [this] { return reader_->Lane(); };
    reader_->SetComputing(true);
  }
  {
    // A stop of the server ends the answer too.
    const std::stop_callback on_stop(stopping_.get_token(), [&] { job.stop.request_stop(); });
    server::RunCompletion(job, context,
                          [&](const CompletionResult& result) { Account(result, job, context); });
  }
  if (reader_ != nullptr) reader_->SetComputing(false);
}

void Worker::Account(const CompletionResult& result, const Job& job,
                     const CompletionContext& context) {
  metrics_->CountRequest(result.outcome);
  if (result.report) {
    metrics_->CountTokens(result.report->prompt_tokens, result.report->cached_tokens,
                          result.report->generated_tokens);
  }
  if (result.first_written) {
    metrics_->ObserveFirstToken(*result.first_written - job.times.Start(), result.segments);
  }
  Publish([&](WorkerSnapshot& next) {
    next.running_since.reset();
    if (!result.first_written || result.outcome != RequestOutcome::kOk) return;
    if (context.loads.empty()) {
      next.history.AddRequest(*result.first_written - context.taken, MonoNow() - context.taken);
    } else if (!start_is_counted_) {
      next.history.AddStart(load_start_, *result.first_written - load_started_);
      start_is_counted_ = true;
    }
  });
  if (result.outcome == RequestOutcome::kFailed) {
    log_(LogLevel::kError, "a request failed: " + result.problem);
  }
}

void Worker::RunLoad(Job& job) {
  if (!loading_ && snapshot()->phase == Phase::kReady) {
    if (job.writer) job.writer->Send(Success());
    return;
  }
  if (!loading_) BeginLoad({});
  load_wish_.by_request = false;
  // Answered when the load has ended; meanwhile requests may come and prepare their prompts.
  if (job.writer) load_waiters_.push_back(job.writer);
}

void Worker::RunSleep(Job& job) {
  SettleLoad();
  const Status slept = Sleep();
  if (!job.writer) return;
  job.writer->Send(slept.ok() ? Success() : ErrorResponse(FromEngineError(slept.error())));
}

void Worker::RunUnload(Job& job) {
  SettleLoad();
  Unload();
  if (job.writer) job.writer->Send(Success());
}

Status Worker::Sleep() {
  const MonoTime start = MonoNow();
  if (reader_ != nullptr) reader_->End();
  RETURN_IF_ERROR(engine_->Sleep());
  if (snapshot()->phase == Phase::kAsleep) return {};
  SetPhase(Phase::kAsleep);
  Publish([](WorkerSnapshot& next) { ++next.sleeps; });
  log_(LogLevel::kDetail,
       model_.load()->id + " sleeps; that took " + FormatDuration(MonoNow() - start));
  return {};
}

void Worker::Unload() {
  const MonoTime start = MonoNow();
  if (reader_ != nullptr) reader_->End();
  engine_->Unload();
  may_sleep_ = true;
  SetPhase(Phase::kUnloaded);
  Publish([](WorkerSnapshot& next) { ++next.unloads; });
  log_(LogLevel::kDetail,
       "unloaded " + model_.load()->id + " in " + FormatDuration(MonoNow() - start));
}

std::optional<MonoTime> Worker::NextIdleWork() const {
  if (loading_) return std::nullopt;
  const Phase phase = snapshot()->phase;
  std::optional<MonoTime> next;
  const auto at = [&](const std::optional<int64_t>& after_ns) {
    if (!after_ns) return;
    const MonoTime time = last_used_ + *after_ns;
    if (!next || time < *next) next = time;
  };
  if (phase == Phase::kReady) at(idle_.sleep_after_ns);
  if (phase == Phase::kReady && may_improve_) at(kImproveAfterNs);
  if (phase == Phase::kReady || phase == Phase::kAsleep) at(idle_.unload_after_ns);
  return next;
}

void Worker::DoIdleWork() {
  const Phase phase = snapshot()->phase;
  const int64_t idle_ns = MonoNow() - last_used_;
  const bool loaded = phase == Phase::kReady || phase == Phase::kAsleep;
  if (loaded && idle_.unload_after_ns && idle_ns >= *idle_.unload_after_ns) return Unload();
  if (phase != Phase::kReady) return;
  if (idle_.sleep_after_ns && idle_ns >= *idle_.sleep_after_ns) {
    const Status slept = Sleep();
    if (slept.ok()) return;
    // Weights in private memory: there is nothing between ready and unloaded.
    log_(LogLevel::kDetail, slept.error().message() + "; unloading instead");
    return Unload();
  }
  if (may_improve_ && idle_ns >= kImproveAfterNs) Improve();
}

void Worker::Improve() {
  std::stop_token stop;
  {
    const std::lock_guard lock(improve_mutex_);
    improve_stop_ = std::stop_source();
    stop = improve_stop_.get_token();
  }
  if (queue_.waiting() > 0 || stopping_.stop_requested()) return;
  const MonoTime start = MonoNow();
  const Result<std::string> done = engine_->Improve(stop);
  if (!done.ok() && done.error().code() == ErrorCode::kInterrupted) return;
  may_improve_ = done.ok() && !done->empty();
  if (!done.ok()) {
    log_(LogLevel::kNotice, done.error().message());
  } else if (!done->empty()) {
    log_(LogLevel::kDetail, *done + " in " + FormatDuration(MonoNow() - start));
  }
}

void Worker::AfterFailedLoad(const Error& error) {
  if (stopping_.stop_requested()) return;  // those who wait are told why below
  if (error.code() == ErrorCode::kInterrupted) return;
  if (const auto on_failed = std::exchange(on_first_load_failed_, nullptr)) on_failed(error);
}

bool Worker::CheckFiles() {
  const Phase phase = snapshot()->phase;
  if (loading_ || identities_.empty() || (phase != Phase::kReady && phase != Phase::kAsleep)) {
    return true;
  }
  const auto model = model_.load();
  const FileChange change = ChangeOf(identities_, model->parts);
  // What was replaced is still what is mapped, and serves until the next load.
  if (change != FileChange::kWritten) return change == FileChange::kNone;
  log_(LogLevel::kNotice, model->path + " was written to; loading it anew");
  Unload();
  static_cast<void>(RenewEngine().ok());
  return true;
}

void Worker::CheckBroken() {
  const auto broken = reader_ == nullptr ? std::nullopt : reader_->Broken();
  if (!broken) return;
  reader_->End();
  engine_->Unload();
  static_cast<void>(RenewEngine().ok());
  SetPhase(Phase::kFailed, broken->message());
}

Status Worker::RenewEngine() {
  if (!make_engine_) return Error(ErrorCode::kUnsupported, "there is no other engine");
  engine_->Unload();
  Result<std::unique_ptr<engine::Engine>> made = make_engine_();
  if (!made.ok()) return made.error();
  engine_ = *std::move(made);
  engine_for_facts_ = engine_;
  identities_.clear();
  return {};
}

void Worker::LearnReadRate() {
  const auto rate = reader_ == nullptr ? std::nullopt : reader_->BytesPerSecond();
  if (rate) Publish([&](WorkerSnapshot& next) { next.read_bytes_per_s = rate; });
}

void Worker::RefuseWaiting(const ApiError& error) {
  while (const std::shared_ptr<Job> job = queue_.TryPop()) {
    if (job->kind == Job::Kind::kCompletion) metrics_->CountRequest(RequestOutcome::kFailed);
    if (job->writer) job->writer->Send(ErrorResponse(error));
  }
}

void Worker::SetPhase(Phase phase, std::string failure) {
  Publish([&](WorkerSnapshot& next) {
    next.phase = phase;
    next.since = MonoNow();
    next.failure = std::move(failure);
  });
}

}  // namespace rouse::server
