// Worker's loads: begun, waited for, stopped, begun once more, and taken in.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "server/api_error.h"
#include "server/residency.h"
#include "server/worker.h"

namespace rouse::server {
namespace {

// A request is seldom here for more than two loads; older ones are of no interest to anybody.
constexpr size_t kLoadsKept = 8;

}  // namespace

void Worker::BeginLoad(LoadWish wish) {
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
  load_wish_ = wish;
  if (reader_ != nullptr) reader_->Begin();
  engine::Engine::LoadOptions options;
  {
    const std::lock_guard lock(load_mutex_);
    load_done_ = false;
    load_stop_ = std::stop_source();
    if (stopping_.stop_requested()) load_stop_.request_stop();
    options.stop = load_stop_.get_token();
  }
  options.prompt_tokens = wish.prompt_tokens;
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
  if (!loading_ || !load_wish_.by_request || queue_.waiting() > 0) return;
  {
    const std::lock_guard lock(load_mutex_);
    load_stop_.request_stop();
  }
  log_(LogLevel::kDetail, "nobody waits for " + model_.load()->id + " any more");
  // Milliseconds. One that ended just now stays loaded.
  SettleLoad();
}

void Worker::SettleLoad() {
  while (loading_) {
    const std::optional<Status> loaded = EndLoad();
    if (loaded && !loaded->ok()) AfterFailedLoad(loaded->error());
  }
}

// Files that changed meanwhile deserve another look, once and if anybody still wants it.
bool Worker::MayLoadAgain() {
  const std::lock_guard lock(load_mutex_);
  return changed_while_loading_ && !load_wish_.again && !load_stop_.stop_requested();
}

std::optional<Status> Worker::EndLoad() {
  CHECK(loading_);
  Status status = TakeLoad();
  if (!status.ok()) {
    if (MayLoadAgain()) {
      log_(LogLevel::kNotice,
           model_.load()->path + " changed while it was loaded; loading it once more");
      LoadWish wish = load_wish_;
      wish.again = true;
      BeginLoad(wish);
      return std::nullopt;
    }
    TellFailure(status.error());
  }
  // Those who waited first: whoever is answered below may ask again, and that is another try.
  const bool failed = !status.ok() && status.error().code() != ErrorCode::kInterrupted;
  if (failed && !stopping_.stop_requested()) RefuseWaiting(FromLoadError(status.error()));
  for (const auto& writer : std::exchange(load_waiters_, {})) {
    writer->Send(status.ok()                  ? Success()
                 : stopping_.stop_requested() ? ErrorResponse(ShuttingDown())
                                              : ErrorResponse(FromLoadError(status.error())));
  }
  return status;
}

void Worker::TellFailure(const Error& error) {
  if (error.code() == ErrorCode::kInterrupted) {
    const bool asleep = engine_->Facts()->tier == engine::Tier::kAsleep;
    return SetPhase(asleep ? Phase::kAsleep : Phase::kUnloaded);
  }
  if (!stopping_.stop_requested()) {
    log_(LogLevel::kError, "cannot load " + model_.load()->id + ": " + error.message());
  }
  SetPhase(Phase::kFailed, error.message());
}

Status Worker::TakeLoad() {
  const Result<engine::LoadReport> report = engine_->FinishLoad();
  loading_ = false;
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
    // What a load that was stopped has brought in goes again.
    if (engine_->Facts()->tier == engine::Tier::kAsleep) static_cast<void>(engine_->Sleep().ok());
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

}  // namespace rouse::server
