#include "lab/calibration.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/strings.h"
#include "base/time.h"
#include "base/units.h"
#include "http/server.h"
#include "stats/summary.h"
#include "wire/client.h"

namespace rouse::lab {
namespace {

struct Shape {
  int streams;
  int tokens;           // of each stream
  int64_t interval_ns;  // between two tokens of a stream
};

// One stream at 1,000 tokens/s, and 64 at 100 tokens/s each, which a small machine still serves. A
// p99 is told from 299 samples on, its interval from 368.
constexpr Shape kShapes[] = {{.streams = 1, .tokens = 400, .interval_ns = kNsPerMs},
                             {.streams = 64, .tokens = 25, .interval_ns = 10 * kNsPerMs}};
constexpr int64_t kConnectLimitNs = 2 * kNsPerSecond;

std::string Event(std::string_view delta) {
  return "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":" +
         std::string(delta) + ",\"finish_reason\":null}]}\n\n";
}

// Answers every request with a stream of tokens at times of its own, and notes when it was about to
// write each.
class NullServer {
 public:
  explicit NullServer(Shape shape)
      : shape_(shape),
        writers_(static_cast<size_t>(shape.streams)),
        stamps_(static_cast<size_t>(shape.streams)) {}

  Status Start() {
    ASSIGN_OR_RETURN(server_, http::Server::Listen({}));
    server_->Start(
        [this](const http::Request& request, std::shared_ptr<http::ResponseWriter> writer) {
          Accept(request, std::move(writer));
        });
    return {};
  }

  ~NullServer() {
    if (server_) server_->Stop();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }

  // Waits for all streams, then writes their tokens in turn, evenly spread over the interval.
  Status Play() {
    RETURN_IF_ERROR(WaitForAll());
    const std::string token = Event("{\"content\":\"x\"}");
    const MonoTime begin = MonoNow() + kNsPerMs;
    const int64_t step_ns = shape_.interval_ns / shape_.streams;
    for (int token_index = 0; token_index < shape_.tokens; ++token_index) {
      for (int stream = 0; stream < shape_.streams; ++stream) {
        RealClock().SleepUntil(begin + token_index * shape_.interval_ns + stream * step_ns);
        const auto index = static_cast<size_t>(stream);
        stamps_[index].push_back(MonoNow());
        if (!writers_[index]->Write(token)) {
          return Error(ErrorCode::kIo, "calibration: a stream broke");
        }
      }
    }
    for (const auto& writer : writers_) {
      writer->Write("data: [DONE]\n\n");
      writer->End();
    }
    return {};
  }

  const std::vector<MonoTime>& stamps(int stream) const {
    return stamps_[static_cast<size_t>(stream)];
  }

 private:
  void Accept(const http::Request& request, std::shared_ptr<http::ResponseWriter> writer) {
    const nlohmann::json body = nlohmann::json::parse(request.body, nullptr, false);
    size_t index = writers_.size();
    if (body.is_object() && body.contains("model") && body["model"].is_string()) {
      const std::optional<int64_t> number = ParseInt64(body["model"].get<std::string>());
      if (number && *number >= 0) index = static_cast<size_t>(*number);
    }
    if (index >= writers_.size()) {
      writer->Send(http::ErrorResponse(404, "no such stream"));
      return;
    }
    http::Response head;
    head.content_type = "text/event-stream";
    writer->Begin(std::move(head));
    writer->Write(Event("{\"role\":\"assistant\"}"));
    const std::lock_guard lock(mutex_);
    writers_[index] = std::move(writer);
    ++arrived_;
    all_here_.notify_one();
  }

  Status WaitForAll() {
    std::unique_lock lock(mutex_);
    const bool here = all_here_.wait_for(lock, std::chrono::nanoseconds(kConnectLimitNs),
                                         [&] { return arrived_ == shape_.streams; });
    if (here) return {};
    return Error(ErrorCode::kTimeout, "calibration: only " + std::to_string(arrived_) + " of " +
                                          std::to_string(shape_.streams) + " streams connected");
  }

  Shape shape_;
  std::unique_ptr<http::Server> server_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  int arrived_ = 0;
  std::vector<std::shared_ptr<http::ResponseWriter>> writers_;
  std::vector<std::vector<MonoTime>> stamps_;
};

Result<wire::PreparedRequest> RequestFor(const std::string& url, int stream) {
  wire::RequestSpec spec;
  spec.url = url;
  spec.api = wire::Api::kOpenAiChat;
  spec.model = std::to_string(stream);
  spec.prompt = "x";
  spec.timeouts.total_ns = 10 * kNsPerSecond;
  return wire::Prepare(spec);
}

// Client mark minus server stamp for each token of one stream.
Status Compare(const wire::Exchange& exchange, const std::vector<MonoTime>& stamps,
               std::vector<double>& delays) {
  std::vector<MonoTime> marks;
  for (const wire::EventStamp& event : exchange.events) {
    if (event.event_class == wire::EventClass::kToken) marks.push_back(event.at);
  }
  if (exchange.outcome != wire::Outcome::kOk || marks.size() != stamps.size()) {
    return Error(ErrorCode::kInternal, "calibration: saw " + std::to_string(marks.size()) + " of " +
                                           std::to_string(stamps.size()) + " tokens (" +
                                           std::string(wire::OutcomeName(exchange.outcome)) + ": " +
                                           exchange.outcome_detail + ")");
  }
  for (size_t i = 0; i < marks.size(); ++i) {
    delays.push_back(static_cast<double>(marks[i] - stamps[i]));
  }
  return {};
}

std::optional<int64_t> Whole(const stats::Estimate& estimate) {
  const std::optional<double> value = estimate.Value();
  return value ? std::optional<int64_t>(static_cast<int64_t>(*value)) : std::nullopt;
}

Result<results::CalibrationRow> Measure(Shape shape) {
  NullServer server(shape);
  RETURN_IF_ERROR(server.Start());
  std::vector<wire::PreparedRequest> requests;
  for (int stream = 0; stream < shape.streams; ++stream) {
    ASSIGN_OR_RETURN(wire::PreparedRequest request, RequestFor(server.url(), stream));
    requests.push_back(std::move(request));
  }
  std::vector<wire::Exchange> exchanges(requests.size());
  Status played;
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < requests.size(); ++i) {
      threads.emplace_back([&, i] { exchanges[i] = wire::Perform(requests[i]); });
    }
    played = server.Play();
  }
  if (!played.ok()) return played.error();
  stats::Sample sample;
  for (int stream = 0; stream < shape.streams; ++stream) {
    RETURN_IF_ERROR(
        Compare(exchanges[static_cast<size_t>(stream)], server.stamps(stream), sample.values));
  }
  const stats::SampleSummary summary = stats::Summarize(sample);
  return results::CalibrationRow{.streams = shape.streams,
                                 .samples = summary.n,
                                 .median_ns = Whole(summary.median.value),
                                 .p99_ns = Whole(summary.p99.value),
                                 .max_ns = Whole(summary.max)};
}

std::string Known(std::optional<int64_t> ns) { return ns ? FormatDuration(*ns) : "unknown"; }

}  // namespace

Result<std::vector<results::CalibrationRow>> Calibrate() {
  std::vector<results::CalibrationRow> rows;
  for (const Shape shape : kShapes) {
    ASSIGN_OR_RETURN(results::CalibrationRow row, Measure(shape));
    rows.push_back(row);
  }
  return rows;
}

std::string CalibrationLine(const std::vector<results::CalibrationRow>& rows) {
  std::string line;
  for (const results::CalibrationRow& row : rows) {
    line += line.empty() ? "Client overhead " : "; at " + std::to_string(row.streams) + " streams ";
    line += Known(row.median_ns) + " (p99 " + Known(row.p99_ns) + ")";
  }
  return line.empty() ? "Client overhead not measured." : line + ".";
}

std::string JitterWarning(const std::vector<results::CalibrationRow>& rows,
                          const std::vector<results::HypothesisRow>& hypotheses) {
  if (rows.empty() || !rows.front().p99_ns) return "";
  const results::HypothesisRow* tightest = nullptr;
  int64_t smallest_ns = *rows.front().p99_ns;
  for (const results::HypothesisRow& hypothesis : hypotheses) {
    const Result<int64_t> margin_ns = ParseDuration(hypothesis.margin);
    if (!margin_ns.ok() || *margin_ns >= smallest_ns) continue;
    smallest_ns = *margin_ns;
    tightest = &hypothesis;
  }
  if (tightest == nullptr) return "";
  return "Warning: this client's own p99 (" + FormatDuration(*rows.front().p99_ns) +
         ") exceeds the margin " + tightest->margin + " of hypothesis \"" + tightest->name +
         "\": what it finds may be the client's jitter.";
}

}  // namespace rouse::lab
