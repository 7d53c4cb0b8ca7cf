#include "server/worker.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "server/completion.h"
#include "server/residency.h"

namespace rouse::server {
namespace {

// A request is seldom here for more than two loads; older ones are of no interest to anybody.
constexpr size_t kLoadsKept = 8;
// After so long without a request, pages may have gone.
constexpr int64_t kRestedNs = kNsPerSecond;
// Work for later requests begins when nobody has asked for so long.
constexpr int64_t kImproveAfterNs = 500 * kNsPerMs;
constexpr int64_t kBytesPerToken = 4;

ApiError ShuttingDown() {
  return {.status = 503, .message = "the server is shutting down", .code = "shutting_down"};
}

int64_t EstimatePromptTokens(const CompletionRequest& request) {
  if (!request.prompt_tokens.empty()) return std::ssize(request.prompt_tokens);
  return (std::ssize(request.messages_json) + std::ssize(request.prompt)) / kBytesPerToken + 1;
}

http::Response Success() {
  http::Response response;
  response.body = "{\"success\":true}";
  return response;
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
  if (load_now) BeginLoad(/*by_request=*/false, std::nullopt);
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
      const Status loaded = EndLoad();
      last_used_ = MonoNow();
      if (!loaded.ok()) AfterFailedLoad(loaded.error());
    } else if (!stopping_.stop_requested()) {
      DoIdleWork();
    }
  }
  if (loading_) static_cast<void>(EndLoad().ok());
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
  for (bool again = false;; again = true) {
    if (!loading_ && snapshot()->phase != Phase::kReady) {
      BeginLoad(/*by_request=*/true, EstimatePromptTokens(job.request));
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
      const Status loaded = EndLoad(/*may_try_again=*/!again);
      // Files that were replaced meanwhile deserve another look, once.
      if (!loaded.ok() && changed_while_loading_ && !again) continue;
      if (!loaded.ok()) {
        refuse(stopping_.stop_requested() ? ShuttingDown() : FromEngineError(loaded.error()));
        AfterFailedLoad(loaded.error());
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
  if (!loading_) BeginLoad(/*by_request=*/false, std::nullopt);
  load_is_by_request_ = false;
  // Answered when the load has ended; meanwhile requests may come and prepare their prompts.
  if (job.writer) load_waiters_.push_back(job.writer);
}

void Worker::RunSleep(Job& job) {
  if (loading_) {
    const Status loaded = EndLoad();
    if (!loaded.ok()) AfterFailedLoad(loaded.error());
  }
  const Status slept = Sleep();
  if (!job.writer) return;
  job.writer->Send(slept.ok() ? Success() : ErrorResponse(FromEngineError(slept.error())));
}

void Worker::RunUnload(Job& job) {
  if (loading_) {
    const Status loaded = EndLoad();
    if (!loaded.ok()) AfterFailedLoad(loaded.error());
  }
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

void Worker::BeginLoad(bool by_request, std::optional<int64_t> prompt_tokens) {
  CHECK(!loading_);
  SetPhase(Phase::kLoading);
  const auto model = model_.load();
  changed_while_loading_ = false;
  const auto identities = ReadIdentities(model->parts);
  if (identities && !identities_.empty() && *identities != identities_) {
    log_(LogLevel::kNotice, model->path + " was replaced; loading it anew");
    // Without another engine the old vocabulary stays, and the load notices where it does not fit.
    static_cast<void>(RenewEngine().ok());
  }
  identities_ = identities.value_or(std::vector<FileIdentity>());
  load_started_ = MonoNow();
  load_start_.tier = engine_->Facts()->tier;
  load_start_.tokenizer_kept = engine_->Facts()->tokenizer.state == engine::LayerState::kReady;
  load_start_.resident_ratio = QuickResidentRatio(model->parts);
  start_is_counted_ = false;
  loading_ = true;
  load_is_by_request_ = by_request;
  if (reader_ != nullptr) reader_->Begin();
  engine::Engine::LoadOptions options;
  {
    const std::lock_guard lock(load_mutex_);
    load_done_ = false;
    load_stop_ = std::stop_source();
    if (stopping_.stop_requested()) load_stop_.request_stop();
    options.stop = load_stop_.get_token();
  }
  options.prompt_tokens = prompt_tokens;
  options.done = [this](const Result<engine::LoadReport>&) {
    {
      const std::lock_guard lock(load_mutex_);
      load_done_ = true;
    }
    load_changed_.notify_all();
    queue_.Wake();
  };
  engine_->StartLoad(std::move(options));
}

bool Worker::AwaitLoad(const Job& job) {
  std::unique_lock lock(load_mutex_);
  return load_changed_.wait(lock, job.stop.get_token(), [&] { return load_done_; });
}

void Worker::StopUnwantedLoad() {
  if (!loading_ && reader_ != nullptr) reader_->EndEarly();
  if (!loading_ || !load_is_by_request_ || queue_.waiting() > 0) return;
  {
    const std::lock_guard lock(load_mutex_);
    load_stop_.request_stop();
  }
  log_(LogLevel::kDetail, "nobody waits for " + model_.load()->id + " any more");
  // Milliseconds. One that ended just now stays loaded.
  static_cast<void>(EndLoad().ok());
}

Status Worker::EndLoad(bool may_try_again) {
  CHECK(loading_);
  const Status status = TakeLoad();
  if (!status.ok() && changed_while_loading_ && may_try_again) return status;
  // Those who waited first: whoever is answered below may ask again, and that is another try.
  const bool failed = !status.ok() && status.error().code() != ErrorCode::kInterrupted;
  if (failed && !stopping_.stop_requested()) RefuseWaiting(FromEngineError(status.error()));
  for (const auto& writer : std::exchange(load_waiters_, {})) {
    writer->Send(status.ok()                  ? Success()
                 : stopping_.stop_requested() ? ErrorResponse(ShuttingDown())
                                              : ErrorResponse(FromEngineError(status.error())));
  }
  return status;
}

Status Worker::TakeLoad() {
  Result<engine::LoadReport> report = engine_->FinishLoad();
  loading_ = false;
  {
    // A step may fail of being stopped before anybody looks at the stop.
    const std::lock_guard lock(load_mutex_);
    if (!report.ok() && load_stop_.stop_requested()) {
      report = Error(ErrorCode::kInterrupted, "the load was stopped");
    }
  }
  const auto model = model_.load();
  LoadWindow window{load_started_, MonoNow(), {}};
  Status status = report.ok() ? Status() : Status(report.error());
  const bool interrupted = !report.ok() && report.error().code() == ErrorCode::kInterrupted;
  if (!interrupted) {
    if (const auto broken = reader_ == nullptr ? std::nullopt : reader_->Broken()) status = *broken;
    const auto identities = ReadIdentities(model->parts);
    changed_while_loading_ = identities.has_value() && *identities != identities_;
    if (status.ok() && changed_while_loading_) {
      status = Error(ErrorCode::kCorrupt, model->path + " changed while it was loaded");
    }
  }
  metrics_->ObserveLoad(status.ok(), window.end - window.start);
  if (!status.ok()) {
    if (reader_ != nullptr) reader_->End();
    if (report.ok()) engine_->Unload();
    if (changed_while_loading_) static_cast<void>(RenewEngine().ok());
    const bool wanted = !stopping_.stop_requested() && !interrupted;
    if (wanted) {
      log_(LogLevel::kError, "cannot load " + model->id + ": " + status.error().message());
    }
    const bool asleep = engine_->Facts()->tier == engine::Tier::kAsleep;
    if (asleep) static_cast<void>(engine_->Sleep().ok());  // what the load brought in goes again
    SetPhase(!interrupted ? Phase::kFailed
             : asleep     ? Phase::kAsleep
                          : Phase::kUnloaded,
             interrupted ? "" : status.error().message());
    return status;
  }
  on_first_load_failed_ = nullptr;
  window.steps = report->steps;
  if (loads_.empty() && !model->earlier_steps.empty()) {
    window.steps.insert(window.steps.begin(), model->earlier_steps.begin(),
                        model->earlier_steps.end());
    window.start = std::min(window.start, window.steps.front().start);
  }
  loads_.push_back(window);
  if (loads_.size() > kLoadsKept) loads_.pop_front();
  may_improve_ = true;
  Publish([&](WorkerSnapshot& next) {
    next.phase = Phase::kReady;
    next.since = window.end;
    next.failure.clear();
    next.loaded_files = identities_;
    next.history.AddLoad(load_start_, report->end - report->start);
  });
  log_(LogLevel::kDetail,
       "loaded " + model->id + " in " + FormatDuration(window.end - window.start));
  return {};
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

template <typename Change>
void Worker::Publish(Change change) {
  const auto now = snapshot_.load();
  auto next =
      now == nullptr ? std::make_shared<WorkerSnapshot>() : std::make_shared<WorkerSnapshot>(*now);
  change(*next);
  snapshot_ = std::shared_ptr<const WorkerSnapshot>(std::move(next));
}

void Worker::SetPhase(Phase phase, std::string failure) {
  Publish([&](WorkerSnapshot& next) {
    next.phase = phase;
    next.since = MonoNow();
    next.failure = std::move(failure);
  });
}

}  // namespace rouse::server
