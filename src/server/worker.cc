#include "server/worker.h"

#include <pthread.h>

#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "server/completion.h"
#include "server/residency.h"

namespace rouse::server {
namespace {

// A request is seldom here for more than two loads; older ones are of no interest to anybody.
constexpr size_t kLoadsKept = 8;

ApiError ShuttingDown() {
  return {.status = 503, .message = "the server is shutting down", .code = "shutting_down"};
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
  process_ = options.process;
  model_ = std::make_shared<const ModelInfo>(std::move(options.model));
  engine_for_facts_ = engine_.get();
  // Before the thread runs, so that nobody sees a server that is to load at once as unloaded.
  SetPhase(options.load_now ? Phase::kLoading : Phase::kUnloaded);
  thread_ = std::thread(
      [this, load_now = options.load_now, on_failed = std::move(options.on_first_load_failed)] {
        pthread_setname_np(pthread_self(), "rouse-engine");
        Run(load_now, on_failed);
      });
}

std::shared_ptr<const engine::EngineFacts> Worker::facts() const {
  const engine::Engine* const engine = engine_for_facts_;
  return engine == nullptr ? nullptr : engine->Facts();
}

Admission Worker::Submit(const std::shared_ptr<Job>& job) {
  const Admission admission = queue_.Push(job);
  if (admission != Admission::kQueued || job->writer == nullptr) return admission;
  // Set after the push, so that a client that went before is noticed as well. A load or unload that
  // was asked for happens although its client went.
  job->writer->OnClientGone([this, weak = std::weak_ptr(job)] {
    const auto gone = weak.lock();
    if (gone == nullptr) return;
    gone->stop.request_stop();
    if (gone->kind == Job::Kind::kCompletion && queue_.Remove(gone.get())) {
      metrics_->CountRequest(RequestOutcome::kCancelled);
    }
  });
  return admission;
}

void Worker::Stop() {
  stopping_.request_stop();
  queue_.Close();
  if (thread_.joinable()) thread_.join();
  // Without a thread, nobody has answered.
  RefuseWaiting(ShuttingDown());
}

void Worker::Run(bool load_now, const std::function<void(const Error&)>& on_first_load_failed) {
  if (load_now) {
    const Status loaded = EnsureLoaded();
    if (!loaded.ok() && !stopping_.stop_requested()) {
      RefuseWaiting(FromEngineError(loaded.error()));
      if (on_first_load_failed) on_first_load_failed(loaded.error());
    }
  }
  while (const std::shared_ptr<Job> job = queue_.Pop()) {
    if (stopping_.stop_requested()) {
      if (job->writer) job->writer->Send(ErrorResponse(ShuttingDown()));
      continue;
    }
    RunJob(*job);
  }
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
    case Job::Kind::kUnload:
      return RunUnload(job);
  }
}

void Worker::RunCompletion(Job& job) {
  const auto model = model_.load();
  // The client may have gone, and the stop been asked for, before this job was popped.
  if (job.stop.stop_requested()) return metrics_->CountRequest(RequestOutcome::kCancelled);
  if (!job.request.model.empty() && job.request.model != model->id) {
    metrics_->CountRequest(RequestOutcome::kRefused);
    return job.writer->Send(ErrorResponse(UnknownModel(job.request.model, model->id)));
  }
  if (const Status loaded = EnsureLoaded(); !loaded.ok()) {
    metrics_->CountRequest(RequestOutcome::kFailed);
    const bool stopping = stopping_.stop_requested();
    return job.writer->Send(
        ErrorResponse(stopping ? ShuttingDown() : FromEngineError(loaded.error())));
  }
  const MonoTime taken = MonoNow();
  CompletionContext context{engine_.get(), model->id, &process_, {}, taken};
  bool found_loaded = true;
  for (const LoadWindow& load : loads_) {
    if (load.end <= job.times.Start()) continue;
    context.loads.push_back(load);
    found_loaded = false;
  }
  // A stop of the server ends the answer too.
  const std::stop_callback on_stop(stopping_.get_token(), [&] { job.stop.request_stop(); });
  server::RunCompletion(job, context, [&](const CompletionResult& result) {
    Account(result, job.times.Start(), taken, found_loaded);
  });
}

void Worker::Account(const CompletionResult& result, MonoTime start, MonoTime taken,
                     bool found_loaded) {
  metrics_->CountRequest(result.outcome);
  if (result.report) {
    metrics_->CountTokens(result.report->prompt_tokens, result.report->cached_tokens,
                          result.report->generated_tokens);
  }
  if (result.first_written) {
    metrics_->ObserveFirstToken(*result.first_written - start, result.segments);
  }
  Publish([&](WorkerSnapshot& next) {
    next.running_since.reset();
    if (found_loaded && result.first_written && result.outcome == RequestOutcome::kOk) {
      next.history.AddRequest(*result.first_written - taken, MonoNow() - taken);
    }
  });
  if (result.outcome == RequestOutcome::kFailed) {
    log_(LogLevel::kError, "a request failed: " + result.problem);
  }
}

void Worker::RunLoad(Job& job) {
  const Status loaded = EnsureLoaded();
  if (!job.writer) return;
  job.writer->Send(loaded.ok() ? Success() : ErrorResponse(FromEngineError(loaded.error())));
}

void Worker::RunUnload(Job& job) {
  const MonoTime start = MonoNow();
  engine_->Unload();
  SetPhase(Phase::kUnloaded);
  log_(LogLevel::kDetail,
       "unloaded " + model_.load()->id + " in " + FormatDuration(MonoNow() - start));
  if (job.writer) job.writer->Send(Success());
}

Status Worker::EnsureLoaded() {
  if (snapshot()->phase == Phase::kReady) return {};
  SetPhase(Phase::kLoading);
  const auto model = model_.load();
  LoadWindow window{MonoNow(), {}, {}};
  const std::optional<double> resident_ratio = QuickResidentRatio(model->parts);
  const bool tokenizer_kept = engine_->Facts()->tokenizer.state == engine::LayerState::kReady;
  const auto report = engine_->Load(stopping_.get_token(), {});
  window.end = MonoNow();
  metrics_->ObserveLoad(report.ok(), window.end - window.start);
  if (!report.ok()) {
    if (!stopping_.stop_requested()) {
      log_(LogLevel::kError, "cannot load " + model->id + ": " + report.error().message());
    }
    SetPhase(Phase::kFailed, report.error().message());
    return report.error();
  }
  window.steps = report->steps;
  if (loads_.empty() && !model->earlier_steps.empty()) {
    window.steps.insert(window.steps.begin(), model->earlier_steps.begin(),
                        model->earlier_steps.end());
    window.start = std::min(window.start, window.steps.front().start);
  }
  loads_.push_back(window);
  if (loads_.size() > kLoadsKept) loads_.pop_front();
  Publish([&](WorkerSnapshot& next) {
    next.phase = Phase::kReady;
    next.since = window.end;
    next.failure.clear();
    next.history.AddLoad(report->end - report->start, resident_ratio, tokenizer_kept);
  });
  log_(LogLevel::kDetail,
       "loaded " + model->id + " in " + FormatDuration(window.end - window.start));
  return {};
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
