#include "results/metrics.h"

#include <array>
#include <string>
#include <variant>

#include "base/check.h"
#include "results/fields.h"

namespace rouse::results {
namespace {

constexpr MetricKind kInt = MetricKind::kInteger;
constexpr MetricKind kRat = MetricKind::kRatio;

constexpr auto kMetrics = std::to_array<Metric>({
    // The answer's times, on the client.
    {"ttft_ns", "ns", kInt, MetricHome::kAttempt,
     "from the intended send to the first token of any channel"},
    {"ttfc_ns", "ns", kInt, MetricHome::kAttempt,
     "from the intended send to the first visible content"},
    {"uncertainty_ns", "ns", kInt, MetricHome::kAttempt,
     "how much later than the server's readiness the accepted try may have been"},
    {"tries", "count", kInt, MetricHome::kAttempt, "times that the request was sent or tried"},
    {"idle_ns", "ns", kInt, MetricHome::kAttempt, "time without any contact before the request"},
    {"suspended_ns", "ns", kInt, MetricHome::kAttempt,
     "time that the machine has been suspended since boot, at the send"},
    {"mark_connected_ns", "ns", kInt, MetricHome::kMark, "connection stands"},
    {"mark_request_sent_ns", "ns", kInt, MetricHome::kMark, "last byte of the request written"},
    {"mark_response_headers_ns", "ns", kInt, MetricHome::kMark,
     "read that completed the final header block"},
    {"mark_first_byte_ns", "ns", kInt, MetricHome::kMark, "read with the body's first byte"},
    {"mark_first_event_ns", "ns", kInt, MetricHome::kMark, "read that completed the first event"},
    {"mark_first_token_ns", "ns", kInt, MetricHome::kMark, "read that completed the first token"},
    {"mark_first_content_ns", "ns", kInt, MetricHome::kMark,
     "read that completed the first visible content"},
    {"mark_last_token_ns", "ns", kInt, MetricHome::kMark, "read that completed the last token"},
    {"mark_end_ns", "ns", kInt, MetricHome::kMark, "end of the answer, or of waiting for it"},
    // What the request was waiting for.
    {"stage_queue_ns", "ns", kInt, MetricHome::kStage, "waiting for the server to take it up"},
    {"stage_process_start_ns", "ns", kInt, MetricHome::kStage,
     "waiting for the server's process to accept a connection"},
    {"stage_weights_ns", "ns", kInt, MetricHome::kStage, "weights being made available"},
    {"stage_runtime_init_ns", "ns", kInt, MetricHome::kStage,
     "backend, context, KV buffers, graph, compilation"},
    {"stage_tokenize_ns", "ns", kInt, MetricHome::kStage, "template and tokenizer"},
    {"stage_prefill_ns", "ns", kInt, MetricHome::kStage, "evaluation of the prompt"},
    {"stage_first_decode_ns", "ns", kInt, MetricHome::kStage,
     "from the prompt's last logits to the first token's bytes being written"},
    {"stage_transport_ns", "ns", kInt, MetricHome::kStage, "connect, send, wire and read"},
    {"stage_unattributed_ns", "ns", kInt, MetricHome::kStage, "what no source could tell"},
    // Tokens and stream.
    {"prompt_tokens", "tokens", kInt, MetricHome::kTokens, "tokens of the prompt"},
    {"cached_tokens", "tokens", kInt, MetricHome::kTokens,
     "tokens of the prompt that the server did not evaluate again"},
    {"completion_tokens", "tokens", kInt, MetricHome::kTokens, "tokens generated"},
    {"first_chunk_tokens", "tokens", kInt, MetricHome::kTokens,
     "tokens that the first token event carried"},
    {"stream_events", "count", kInt, MetricHome::kStream, "data events of the stream"},
    {"stream_token_events", "count", kInt, MetricHome::kStream, "events that carried tokens"},
    {"stream_pings", "count", kInt, MetricHome::kStream, "comments, empty data and pings"},
    {"stream_reads", "count", kInt, MetricHome::kStream, "reads of the socket that brought bytes"},
    // The client's own error bar.
    {"client_read_delay_ns", "ns", kInt, MetricHome::kCounter,
     "from the kernel's receive stamp to the read that completed the first token"},
    {"client_read_delay_max_ns", "ns", kInt, MetricHome::kCounter,
     "the largest such delay of all reads of the answer"},
    // The target's whole process tree.
    {"target_read_bytes", "bytes", kInt, MetricHome::kCounter, "read from the block layer"},
    {"target_write_bytes", "bytes", kInt, MetricHome::kCounter, "sent to the block layer"},
    {"target_read_syscall_bytes", "bytes", kInt, MetricHome::kCounter,
     "asked of read() and its kin, page-cache hits included"},
    {"target_major_faults", "count", kInt, MetricHome::kCounter, "page faults that waited for I/O"},
    {"target_minor_faults", "count", kInt, MetricHome::kCounter, "page faults without I/O"},
    {"target_cpu_ns", "ns", kInt, MetricHome::kCounter, "CPU time of all threads"},
    {"target_user_cpu_ns", "ns", kInt, MetricHome::kCounter, "CPU time in user mode"},
    {"target_system_cpu_ns", "ns", kInt, MetricHome::kCounter, "CPU time in the kernel"},
    {"target_run_queue_wait_ns", "ns", kInt, MetricHome::kCounter,
     "time that runnable threads waited for a CPU"},
    {"target_block_io_delay_ns", "ns", kInt, MetricHome::kCounter,
     "time that threads waited for block I/O"},
    {"target_voluntary_context_switches", "count", kInt, MetricHome::kCounter,
     "times that a thread gave up its CPU to wait"},
    {"target_involuntary_context_switches", "count", kInt, MetricHome::kCounter,
     "times that a thread was taken off its CPU"},
    {"target_rss_bytes", "bytes", kInt, MetricHome::kCounter, "resident memory after the answer"},
    {"target_rss_anon_bytes", "bytes", kInt, MetricHome::kCounter,
     "its part that is backed by no file"},
    {"target_rss_file_bytes", "bytes", kInt, MetricHome::kCounter, "its part that maps files"},
    {"target_swap_bytes", "bytes", kInt, MetricHome::kCounter, "memory in swap after the answer"},
    {"target_locked_bytes", "bytes", kInt, MetricHome::kCounter, "memory that is locked"},
    {"target_pss_bytes", "bytes", kInt, MetricHome::kCounter,
     "resident memory with shared pages divided among their users"},
    {"target_threads", "count", kInt, MetricHome::kCounter, "threads after the answer"},
    {"target_processes", "count", kInt, MetricHome::kCounter, "processes of the tree"},
    // The machine.
    {"psi_cpu_some_us", "us", kInt, MetricHome::kCounter, "some task waited for a CPU"},
    {"psi_cpu_full_us", "us", kInt, MetricHome::kCounter,
     "every task of the target's cgroup that wanted to run waited for a CPU"},
    {"psi_io_some_us", "us", kInt, MetricHome::kCounter, "some task waited for I/O"},
    {"psi_io_full_us", "us", kInt, MetricHome::kCounter,
     "every task that wanted to run waited"
     " for I/O"},
    {"psi_memory_some_us", "us", kInt, MetricHome::kCounter, "some task waited for memory"},
    {"psi_memory_full_us", "us", kInt, MetricHome::kCounter,
     "every task that wanted to run waited for memory"},
    {"machine_available_bytes", "bytes", kInt, MetricHome::kCounter,
     "memory that can be had without swapping"},
    {"machine_swap_in_bytes", "bytes", kInt, MetricHome::kCounter, "read back from swap"},
    {"machine_reclaimed_bytes", "bytes", kInt, MetricHome::kCounter,
     "memory that the kernel took back"},
    {"machine_disk_read_bytes", "bytes", kInt, MetricHome::kCounter,
     "read from the disk that holds the model"},
    {"cgroup_throttled_us", "us", kInt, MetricHome::kCounter,
     "time that the target's cgroup was kept off the CPUs by its quota"},
    {"cpu_clock_hz", "hz", kInt, MetricHome::kCounter, "CPU frequency at the request"},
    {"gpu_clock_hz", "hz", kInt, MetricHome::kCounter, "GPU frequency at the request"},
    {"cotenant_slowdown_ratio", "ratio", kRat, MetricHome::kCounter,
     "how much slower the co-tenant sentinel ran than alone"},
    // The idle time before the request.
    {"sampler_cpu_ns", "ns", kInt, MetricHome::kCounter,
     "CPU time that rouse's own sampling took during the attempt"},
    {"idle_target_wakeups", "count", kInt, MetricHome::kCounter,
     "times that the server's threads went back to sleep during the idle time"},
    {"idle_target_cpu_ns", "ns", kInt, MetricHome::kCounter,
     "CPU time of the server during the idle time"},
    {"idle_others_cpu_ns", "ns", kInt, MetricHome::kCounter,
     "CPU time of all other programs during the idle time"},
    {"idle_reclaimed_bytes", "bytes", kInt, MetricHome::kCounter,
     "memory that the kernel took back during the idle time"},
    {"idle_proactively_reclaimed_bytes", "bytes", kInt, MetricHome::kCounter,
     "its part that somebody asked for by memory.reclaim"},
    {"idle_damon_reclaimed_bytes", "bytes", kInt, MetricHome::kCounter,
     "memory that DAMON took back as idle during the idle time"},
    {"idle_swap_in_bytes", "bytes", kInt, MetricHome::kCounter,
     "read back from swap during the idle time"},
    {"idle_swap_out_bytes", "bytes", kInt, MetricHome::kCounter,
     "written to swap during the idle time"},
    {"idle_psi_memory_full_us", "us", kInt, MetricHome::kCounter,
     "every task that wanted to run waited for memory, during the idle time"},
    {"target_kv_bytes", "bytes", kInt, MetricHome::kCounter,
     "memory of the server's KV cache, as it says itself"},
    {"target_prefix_bytes", "bytes", kInt, MetricHome::kCounter,
     "size of the held prefix's KV outside of the context: as it is kept in memory, or as a file"},
    {"target_prefix_tokens", "count", kInt, MetricHome::kCounter,
     "tokens of that prefix: the prompt and the answer"},
    {"companions_ttft_median_ns", "ns", kInt, MetricHome::kCounter,
     "median TTFT of the requests that were sent together with the measured one"},
    {"companions_ttft_max_ns", "ns", kInt, MetricHome::kCounter,
     "longest TTFT of the requests that were sent together with the measured one"},
    {"companions_failed_count", "count", kInt, MetricHome::kCounter,
     "requests sent together with the measured one that failed"},
    // States that are numbers.
    {"page_cache_resident_ratio", "ratio", kRat, MetricHome::kState,
     "share of the model file in the page cache right before the request"},
});

std::optional<double> CounterOf(const Attempt& attempt, const Metric& metric) {
  const auto row = attempt.counters.find(metric.name);
  if (row == attempt.counters.end() || !row->second) return std::nullopt;
  return std::visit([](auto number) { return static_cast<double>(number); }, *row->second);
}

// The field of a metric of the table, found once: reports ask for each metric of each attempt.
const IntegerField& FieldOf(const Metric& metric) {
  static const auto field_of = [] {
    std::array<const IntegerField*, kMetrics.size()> fields{};
    std::transform(kMetrics.begin(), kMetrics.end(), fields.begin(),
                   [](const Metric& each) { return FindIntegerField(each.name); });
    return fields;
  }();
  const std::less<const Metric*> before;
  const bool of_table =
      !before(&metric, kMetrics.data()) && before(&metric, kMetrics.data() + kMetrics.size());
  const IntegerField* const field =
      of_table ? field_of.at(static_cast<size_t>(&metric - kMetrics.data()))
               : FindIntegerField(metric.name);
  CHECK(field != nullptr);
  return *field;
}

std::optional<double> PageCacheShare(const LayerReadings& readings) {
  const auto row = readings.find("page_cache");
  if (row == readings.end()) return std::nullopt;
  const double* const share = std::get_if<double>(&row->second.value);
  return share == nullptr ? std::nullopt : std::optional<double>(*share);
}

}  // namespace

std::string_view MetricHomeName(MetricHome home) {
  constexpr std::array<std::string_view, 7> kNames = {"attempt", "mark",    "stage", "tokens",
                                                      "stream",  "counter", "state"};
  return kNames[static_cast<size_t>(home)];
}

std::span<const Metric> Metrics() { return kMetrics; }

const Metric* FindMetric(std::string_view name) {
  for (const Metric& metric : kMetrics) {
    if (metric.name == name) return &metric;
    const size_t shorter = name.size();
    if (metric.name.size() == shorter + 1 + metric.unit.size() && metric.name.starts_with(name) &&
        metric.name[shorter] == '_' && metric.name.ends_with(metric.unit)) {
      return &metric;
    }
  }
  return nullptr;
}

std::vector<std::string_view> MetricNames() {
  std::vector<std::string_view> names;
  for (const Metric& metric : kMetrics) {
    names.push_back(metric.name);
    const std::string suffix = "_" + std::string(metric.unit);
    if (metric.name.ends_with(suffix)) {
      names.push_back(metric.name.substr(0, metric.name.size() - suffix.size()));
    }
  }
  return names;
}

std::optional<double> MetricOf(const Attempt& attempt, const Metric& metric) {
  if (metric.home == MetricHome::kCounter) return CounterOf(attempt, metric);
  if (metric.home == MetricHome::kState) {
    // The reading at the send is the one that says what the request met.
    const auto at_send = PageCacheShare(attempt.state_at_send);
    return at_send ? at_send : PageCacheShare(attempt.state_before);
  }
  const std::optional<int64_t>& value = Read(FieldOf(metric), attempt);
  return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
}

std::optional<double> LongestWait(const Attempt& attempt) {
  std::optional<int64_t> longest = attempt.marks.end;
  if (attempt.ttft_ns && (!longest || *longest < *attempt.ttft_ns)) longest = attempt.ttft_ns;
  return longest ? std::optional<double>(static_cast<double>(*longest)) : std::nullopt;
}

}  // namespace rouse::results
