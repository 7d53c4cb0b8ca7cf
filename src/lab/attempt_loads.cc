#include "lab/attempt_loads.h"

#include <optional>

#include "base/units.h"
#include "lab/targets.h"
#include "models/catalog.h"

namespace rouse::lab {
namespace {

using results::LayerReading;

constexpr int64_t kStartLimitNs = 60 * kNsPerSecond;  // filling memory takes about 1 s a GB
constexpr int64_t kEndLimitNs = 10 * kNsPerSecond;
// For the sentinel's units before the request: 8, so that their median is one of an ordinary
// moment.
constexpr int64_t kBaselineNs = 400 * kNsPerMs;
constexpr int64_t kSettleNs = 100 * kNsPerMs;
constexpr const char* kSlowdown = "cotenant_slowdown_ratio";

std::string Name(Layer layer) { return std::string(LayerName(layer)); }

LoadSpec BackgroundSpec(StateContext& context, const std::string& background) {
  LoadSpec spec;
  spec.background = background;
  spec.disk_file = context.target.model_file();
  spec.url = context.target.url();
  spec.api = context.plan.target.api;
  spec.model = context.target.request_model();
  spec.headers_env = context.plan.target.headers_env;
  if (background != "model") return spec;
  // Another one than the target's, where there is one: two servers of one file share its pages.
  const Result<models::ModelFile> other = models::Resolve(models::kDefaultModel);
  spec.other_model = other.ok() ? other->path : spec.disk_file;
  return spec;
}

Result<std::unique_ptr<Loads>> StartLoads(StateContext& context, const LoadSpec& spec) {
  if (context.loads == nullptr) return Error(ErrorCode::kUnsupported, "no loads can be started");
  return context.loads->StartLoads(spec, context.clock.Now() + kStartLimitNs);
}

}  // namespace

std::string AttemptLoads::Begin(results::Attempt& attempt) {
  if (!Wants(Layer::kMemoryPressure)) return "";
  LoadSpec spec;
  spec.ballast_bytes = std::stoll(condition_.Value(Layer::kMemoryPressure));
  if (context_.on_step)
    context_.on_step("filling " + FormatBytes(*spec.ballast_bytes) + " of ballast");
  Result<std::unique_ptr<Loads>> started = StartLoads(context_, spec);
  LayerReading& reading = attempt.state_before[Name(Layer::kMemoryPressure)];
  if (started.ok()) {
    ballast_ = *std::move(started);
    reading = BallastReading();
  } else {
    reading.wanted = condition_.Value(Layer::kMemoryPressure);
    reading.reached = false;
    reading.detail = started.error().message();
  }
  return WhyNotReached({{Name(Layer::kMemoryPressure), reading}});
}

LayerReading AttemptLoads::BallastReading() const {
  LayerReading reading;
  reading.wanted = condition_.Value(Layer::kMemoryPressure);
  reading.proof = "anonymous resident memory of the ballast process";
  const std::optional<int64_t> bytes = ballast_->Read().ballast_bytes;
  const int64_t wanted = std::stoll(reading.wanted);
  reading.reached = bytes.has_value() && *bytes >= wanted - wanted / 100;
  if (bytes) reading.value = std::to_string(*bytes);
  reading.detail = bytes ? FormatBytes(*bytes) + " resident, " + ballast_->BallastGroup()
                         : "the ballast process is gone";
  return reading;
}

std::string AttemptLoads::BeforeSend(results::LayerReadings& readings) {
  if (Wants(Layer::kBackground)) {
    const std::string& wanted = condition_.Value(Layer::kBackground);
    Result<std::unique_ptr<Loads>> started = StartLoads(context_, BackgroundSpec(context_, wanted));
    LayerReading& reading = readings[Name(Layer::kBackground)];
    reading.wanted = wanted;
    reading.proof = "its process says that the load stands";
    reading.reached = started.ok();
    if (started.ok()) {
      background_ = *std::move(started);
      reading.value = wanted;
      context_.clock.SleepFor(kSettleNs);
    } else {
      reading.detail = started.error().message();
    }
  }
  if (WantsSentinel(context_.plan) && context_.loads != nullptr) {
    Result<std::unique_ptr<Sentinel>> started =
        context_.loads->StartSentinel(context_.clock.Now() + kStartLimitNs);
    if (started.ok()) {
      sentinel_ = *std::move(started);
      context_.clock.SleepFor(kBaselineNs);
    }
  }
  if (ballast_) readings[Name(Layer::kMemoryPressure)] = BallastReading();
  return WhyNotReached(readings);
}

void AttemptLoads::MarkSend() {
  if (background_) at_send_ = background_->Read();
}

void AttemptLoads::End(MonoTime from, MonoTime to, results::Attempt& attempt) {
  if (background_) EndBackground(from, to, attempt);
  if (ballast_) {
    attempt.state_after[Name(Layer::kMemoryPressure)] = BallastReading();
    const Result<LoadReport> ended = ballast_->Finish(context_.clock.Now() + kEndLimitNs);
    if (!ended.ok()) attempt.warnings.push_back({"load_not_ended", ended.error().message()});
    ballast_.reset();
  }
  if (WantsSentinel(context_.plan)) EndSentinel(from, to, attempt);
}

void AttemptLoads::EndBackground(MonoTime from, MonoTime to, results::Attempt& attempt) {
  LayerReading reading;
  reading.wanted = condition_.Value(Layer::kBackground);
  const LoadReading now = background_->Read();
  const Result<LoadReport> report = background_->Finish(context_.clock.Now() + kEndLimitNs);
  background_.reset();
  const auto since = [](std::optional<int64_t> a, std::optional<int64_t> b) {
    return a && b ? std::optional<int64_t>(*b - *a) : std::nullopt;
  };
  if (reading.wanted == "cpu") {
    reading.proof = "processor time of its process during the request";
    const std::optional<int64_t> cpu_ns = since(at_send_.cpu_ns, now.cpu_ns);
    // At least a tenth of one processor: on a busy machine it has to share.
    reading.reached = cpu_ns && *cpu_ns * 10 >= to - from;
    if (cpu_ns) reading.detail = FormatDuration(*cpu_ns) + " in " + FormatDuration(to - from);
  } else if (reading.wanted == "disk") {
    reading.proof = "bytes that its process read from the disk during the request";
    const std::optional<int64_t> bytes = since(at_send_.read_bytes, now.read_bytes);
    reading.reached = bytes && *bytes > 0;
    if (bytes) reading.detail = FormatBytes(*bytes);
  } else {
    reading.proof = reading.wanted == "model" ? "requests that the other server answered"
                                              : "requests that its streams were answered";
    const std::optional<int64_t> count = report.ok() ? report->requests_answered : std::nullopt;
    reading.reached = count.value_or(0) > 0;
    if (count) reading.detail = std::to_string(*count) + " answered";
  }
  if (!report.ok()) {
    reading.reached = false;
    reading.detail = report.error().message();
  }
  if (*reading.reached) reading.value = reading.wanted;
  attempt.state_after[Name(Layer::kBackground)] = reading;
}

void AttemptLoads::EndSentinel(MonoTime from, MonoTime to, results::Attempt& attempt) {
  attempt.counters[kSlowdown] = std::nullopt;
  if (!sentinel_) {
    attempt.null_reasons[kSlowdown] = "the sentinel did not start";
    return;
  }
  const Result<SentinelReading> reading =
      sentinel_->Finish(from, to, context_.clock.Now() + kEndLimitNs);
  sentinel_.reset();
  if (reading.ok()) {
    attempt.counters[kSlowdown] = results::MetricValue(reading->slowdown);
  } else {
    attempt.null_reasons[kSlowdown] = reading.error().message();
  }
}

}  // namespace rouse::lab
