#include "lab/companions.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace rouse::lab {
namespace {

using results::Attempt;
using results::MetricValue;

std::optional<int64_t> Since(MonoTime from, const std::optional<MonoTime>& mark) {
  return mark ? std::optional<int64_t>(*mark - from) : std::nullopt;
}

int64_t MedianOf(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return values[middle - 1] + (values[middle] - values[middle - 1]) / 2;
}

nlohmann::json OrNull(std::optional<int64_t> value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

// Whether it was under way while the measured one was.
bool Overlaps(const wire::Exchange& exchange, MonoTime intended, const Attempt& attempt) {
  if (!exchange.marks.request_sent || !exchange.marks.end) return false;
  const int64_t sent_ns = *exchange.marks.request_sent - intended;
  const int64_t end_ns = *exchange.marks.end - intended;
  const int64_t until_ns = attempt.ttft_ns ? *attempt.ttft_ns : attempt.marks.end.value_or(0);
  return sent_ns <= until_ns && end_ns >= 0;
}

void AddReading(int64_t together, int64_t wanted, Attempt& attempt) {
  results::LayerReading& reading = attempt.state_after["concurrency"];
  reading.wanted = std::to_string(wanted);
  reading.value = std::to_string(together);
  reading.proof = "marks of all requests";
  reading.reached = together == wanted;
  reading.detail = std::to_string(together) + " of " + std::to_string(wanted) +
                   " requests were under way before the measured first token";
}

}  // namespace

Companions::~Companions() { Finish(true); }

Status Companions::Prepare(const std::vector<wire::RequestSpec>& requests, int64_t measured_place,
                           const SenderMaker& make_sender, const std::atomic<bool>* interrupt) {
  ordered_ = order_.get_future().share();
  seen_.resize(requests.size());
  int64_t place = 0;
  for (size_t i = 0; i < requests.size(); ++i, ++place) {
    if (place == measured_place) ++place;
    seen_[i].place = place;
    senders_.push_back(make_sender());
    RETURN_IF_ERROR(senders_.back()->Prepare(requests[i]));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    threads_.emplace_back([this, i, interrupt] { Run(*senders_[i], seen_[i], interrupt); });
  }
  return {};
}

void Companions::Run(Sender& sender, Seen& seen, const std::atomic<bool>* interrupt) {
  const Order order = ordered_.get();
  if (order.cancelled) return;
  const MonoTime intended = order.first + seen.place * kBurstStepNs;
  MonoTime tried = intended;
  for (;;) {
    seen.exchange = sender.Perform(intended, interrupt);
    const bool interrupted = interrupt != nullptr && interrupt->load();
    if (!order.starting || !IsStarting(seen.exchange) || give_up_ || interrupted) return;
    RealClock().SleepUntil(tried + RetryPauseNs(MonoNow() - intended));
    tried = MonoNow();
  }
}

void Companions::Go(MonoTime first, bool starting) {
  if (gone_ || threads_.empty()) return;
  gone_ = true;
  order_.set_value({.first = first, .starting = starting});
}

std::vector<Companions::Seen> Companions::Finish(bool give_up) {
  if (!gone_ && !threads_.empty()) {
    gone_ = true;
    order_.set_value({.first = {}, .starting = false, .cancelled = true});
  }
  if (give_up) give_up_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  return std::move(seen_);
}

void StoreCompanions(const std::vector<Companions::Seen>& seen, int64_t measured_place,
                     MonoTime intended, Attempt& attempt) {
  nlohmann::json companions = nlohmann::json::array();
  std::vector<int64_t> ttfts;
  int64_t failed = 0;
  int64_t together = 1;
  for (const Companions::Seen& each : seen) {
    const wire::Exchange& exchange = each.exchange;
    const std::optional<int64_t> ttft =
        Since(exchange.marks.send_start, exchange.marks.first_token);
    if (exchange.outcome != wire::Outcome::kOk) ++failed;
    if (exchange.outcome == wire::Outcome::kOk && ttft) ttfts.push_back(*ttft);
    if (Overlaps(exchange, intended, attempt)) ++together;
    companions.push_back({{"place", each.place},
                          {"outcome", std::string(wire::OutcomeName(exchange.outcome))},
                          {"ttft_ns", OrNull(ttft)},
                          {"prompt_tokens", OrNull(exchange.usage.prompt_tokens)}});
  }
  const int64_t wanted = static_cast<int64_t>(seen.size()) + 1;
  nlohmann::json extra = nlohmann::json::parse(attempt.extra_json, nullptr, false);
  if (!extra.is_object()) extra = nlohmann::json::object();
  extra["burst"] = {{"concurrency", wanted}, {"place", measured_place}, {"companions", companions}};
  attempt.extra_json = extra.dump();
  attempt.counters["companions_failed_count"] = MetricValue(failed);
  for (const char* const name : {"companions_ttft_median_ns", "companions_ttft_max_ns"}) {
    attempt.counters[name] = std::nullopt;
    if (ttfts.empty()) attempt.null_reasons[name] = "no companion had a first token";
  }
  if (!ttfts.empty()) {
    attempt.counters["companions_ttft_median_ns"] = MetricValue(MedianOf(ttfts));
    attempt.counters["companions_ttft_max_ns"] =
        MetricValue(*std::max_element(ttfts.begin(), ttfts.end()));
  }
  AddReading(together, wanted, attempt);
}

}  // namespace rouse::lab
