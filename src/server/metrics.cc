#include "server/metrics.h"

#include <cstdio>

#include "base/check.h"

namespace rouse::server {
namespace {

std::string Number(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

double Seconds(int64_t ns) { return static_cast<double>(ns) / kNsPerSecond; }

int64_t BucketLimitNs(int bucket) { return kNsPerMs << bucket; }

// A label's value: backslash, quote and line break are escaped.
std::string LabelValue(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\n') {
      escaped += "\\n";
      continue;
    }
    if (letter == '"' || letter == '\\') escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

void Head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  out += "# HELP ";
  out += name;
  out += ' ';
  out += help;
  out += "\n# TYPE ";
  out += name;
  out += ' ';
  out += type;
  out += '\n';
}

void Sample(std::string& out, std::string_view name, const std::string& labels,
            const std::string& value) {
  out += name;
  if (!labels.empty()) {
    out += '{';
    out += labels;
    out += '}';
  }
  out += ' ';
  out += value;
  out += '\n';
}

}  // namespace

std::string_view RequestOutcomeName(RequestOutcome outcome) {
  switch (outcome) {
    case RequestOutcome::kOk:
      return "ok";
    case RequestOutcome::kCancelled:
      return "cancelled";
    case RequestOutcome::kRefused:
      return "refused";
    case RequestOutcome::kOverload:
      return "overload";
    case RequestOutcome::kFailed:
      return "failed";
  }
  CHECK(false);
}

void Histogram::Observe(int64_t ns) {
  int bucket = 0;
  while (bucket < kBuckets && ns > BucketLimitNs(bucket)) ++bucket;
  ++counts_[static_cast<size_t>(bucket)];
  sum_ns_ += ns;
}

void Histogram::Render(std::string& out, std::string_view name, const std::string& labels) const {
  const std::string base(name);
  const std::string comma = labels.empty() ? "" : ",";
  int64_t total = 0;
  for (int bucket = 0; bucket <= kBuckets; ++bucket) {
    total += counts_[static_cast<size_t>(bucket)];
    const std::string limit = bucket == kBuckets ? "+Inf" : Number(Seconds(BucketLimitNs(bucket)));
    Sample(out, base + "_bucket", labels + comma + "le=\"" + limit + "\"", std::to_string(total));
  }
  Sample(out, base + "_sum", labels, Number(Seconds(sum_ns_)));
  Sample(out, base + "_count", labels, std::to_string(total));
}

void Metrics::CountRequest(RequestOutcome outcome) {
  const std::lock_guard lock(mutex_);
  ++requests_[static_cast<size_t>(outcome)];
}

void Metrics::ObserveFirstToken(int64_t ttft_ns, const std::vector<TimelineSegment>& segments) {
  std::map<std::string_view, int64_t> sums;
  for (const TimelineSegment& segment : segments) {
    sums[segment.stage] += segment.end - segment.start;
  }
  const std::lock_guard lock(mutex_);
  ttft_.Observe(ttft_ns);
  for (const auto& [stage, ns] : sums) {
    const auto found = stages_.try_emplace(std::string(stage)).first;
    found->second.Observe(ns);
  }
}

void Metrics::CountTokens(int64_t prompt, int64_t cached, int64_t generated) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += prompt;
  cached_tokens_ += cached;
  generated_tokens_ += generated;
}

void Metrics::ObserveLoad(bool ok, int64_t duration_ns) {
  const std::lock_guard lock(mutex_);
  ++loads_[ok ? 1 : 0];
  if (ok) load_.Observe(duration_ns);
}

std::string Metrics::Render(const Gauges& gauges) const {
  std::string out;
  const std::string model = "model=\"" + LabelValue(gauges.model) + "\"";
  const auto counter = [&](std::string_view name, std::string_view help, int64_t value) {
    Head(out, name, "counter", help);
    Sample(out, name, "", std::to_string(value));
  };
  const auto gauge = [&](std::string_view name, std::string_view help, const std::string& labels,
                         const std::string& value) {
    Head(out, name, "gauge", help);
    Sample(out, name, labels, value);
  };

  const std::lock_guard lock(mutex_);
  gauge("rouse_build_info", "Always 1; the label tells the version.",
        "version=\"" ROUSE_VERSION "\"", "1");
  Head(out, "rouse_requests_total", "counter", "Requests for text by how they ended.");
  for (int outcome = 0; outcome < kRequestOutcomeCount; ++outcome) {
    const auto name = RequestOutcomeName(static_cast<RequestOutcome>(outcome));
    Sample(out, "rouse_requests_total", "outcome=\"" + std::string(name) + "\"",
           std::to_string(requests_[static_cast<size_t>(outcome)]));
  }
  Head(out, "rouse_loads_total", "counter", "Loads of the model by how they ended.");
  Sample(out, "rouse_loads_total", "result=\"ok\"", std::to_string(loads_[1]));
  Sample(out, "rouse_loads_total", "result=\"failed\"", std::to_string(loads_[0]));
  counter("rouse_prompt_tokens_total", "Prompt tokens, cached ones included.", prompt_tokens_);
  counter("rouse_cached_tokens_total", "Prompt tokens that were reused from the request before.",
          cached_tokens_);
  counter("rouse_generated_tokens_total", "Generated tokens.", generated_tokens_);

  RenderTimes(out);

  gauge("rouse_queue_waiting", "Requests that wait for the engine.", "",
        std::to_string(gauges.queue_waiting));
  gauge("rouse_queue_limit", "Requests that may wait; one more gets 429.", "",
        std::to_string(gauges.queue_limit));
  gauge("rouse_requests_running", "Requests that the engine works on.", "",
        std::to_string(gauges.running));
  gauge("rouse_connections", "Open connections.", "", std::to_string(gauges.connections));
  gauge("rouse_model_loaded", "1 when the model could answer at once.", model,
        gauges.loaded ? "1" : "0");
  gauge("rouse_model_loading", "1 while the model is being loaded.", model,
        gauges.loading ? "1" : "0");
  if (gauges.memory_bytes) {
    gauge("rouse_model_memory_bytes", "Memory that tokenizer, weights and context hold.", model,
          std::to_string(*gauges.memory_bytes));
  }
  if (gauges.prefix_tokens) {
    gauge("rouse_prefix_tokens", "Tokens whose state the context holds.", model,
          std::to_string(*gauges.prefix_tokens));
  }
  if (gauges.resident_ratio) {
    gauge("rouse_model_resident_ratio", "Share of the model's file in the page cache.", model,
          Number(*gauges.resident_ratio));
  }
  counter("rouse_sleeps_total", "Times that the model was put to sleep.", gauges.sleeps);
  counter("rouse_unloads_total", "Times that the model was unloaded.", gauges.unloads);
  counter("rouse_reader_bytes_total", "Bytes that were read ahead of their use.",
          gauges.reader_bytes);
  RenderTiers(out, gauges);
  RenderProcess(out, gauges);
  return out;
}

void Metrics::RenderTimes(std::string& out) const {
  Head(out, "rouse_ttft_seconds", "histogram",
       "From a request's arrival to the departure of its first token.");
  ttft_.Render(out, "rouse_ttft_seconds", "");
  Head(out, "rouse_stage_seconds", "histogram",
       "What requests waited for until their first token, by stage.");
  for (const auto& [stage, histogram] : stages_) {
    histogram.Render(out, "rouse_stage_seconds", "stage=\"" + stage + "\"");
  }
  Head(out, "rouse_load_seconds", "histogram", "Loads of the model that succeeded.");
  load_.Render(out, "rouse_load_seconds", "");
}

void Metrics::RenderTiers(std::string& out, const Gauges& gauges) {
  if (!gauges.tier) return;
  const std::string model = "model=\"" + LabelValue(gauges.model) + "\"";
  const auto labels = [&](engine::Tier tier) {
    return model + ",tier=\"" + std::string(engine::TierName(tier)) + "\"";
  };
  Head(out, "rouse_model_tier", "gauge", "1 for how much of the model is in memory now.");
  for (const Gauges::TierCost& cost : gauges.tiers) {
    Sample(out, "rouse_model_tier", labels(cost.tier), cost.tier == *gauges.tier ? "1" : "0");
  }
  Head(out, "rouse_tier_process_bytes", "gauge",
       "Resident memory of this process when it last entered the tier.");
  for (const Gauges::TierCost& cost : gauges.tiers) {
    if (!cost.process_bytes) continue;
    Sample(out, "rouse_tier_process_bytes", labels(cost.tier), std::to_string(*cost.process_bytes));
  }
  Head(out, "rouse_tier_first_token_seconds", "gauge",
       "Median time from the beginning of a load from the tier to the first token.");
  for (const Gauges::TierCost& cost : gauges.tiers) {
    if (!cost.first_token_ns) continue;
    Sample(out, "rouse_tier_first_token_seconds", labels(cost.tier),
           Number(Seconds(*cost.first_token_ns)));
  }
}

void Metrics::RenderProcess(std::string& out, const Gauges& gauges) {
  if (!gauges.process_memory) return;
  const os::ProcStatus& memory = *gauges.process_memory;
  Head(out, "rouse_process_memory_bytes", "gauge", "Memory of this process by kind.");
  for (const auto& [kind, bytes] :
       {std::pair("anonymous", &memory.rss_anon_bytes), std::pair("file", &memory.rss_file_bytes),
        std::pair("locked", &memory.locked_bytes), std::pair("peak", &memory.peak_rss_bytes)}) {
    if (!*bytes) continue;
    Sample(out, "rouse_process_memory_bytes", "kind=\"" + std::string(kind) + "\"",
           std::to_string(**bytes));
  }
}

}  // namespace rouse::server
