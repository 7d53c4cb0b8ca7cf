// Format: "Trace Event Format" (the Chromium project): complete events "X" with ts and dur in
// microseconds, instants "i", counters "C" (a track each, by name within a process), and metadata
// "M" that names processes and threads.
#include "report/trace.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "results/samples.h"

namespace rouse::report {
namespace {

using Json = nlohmann::ordered_json;
using results::Attempt;

constexpr int kClientRow = 1;
constexpr int kRequestRow = 2;
constexpr int kFirstLaneRow = 3;

double Us(int64_t ns) { return static_cast<double>(ns) / 1000.0; }

// So that a viewer that adds it to the start, in its own floating point, gets no more than the end:
// what begins there would else seem to overlap (speedscope then leaves spans open).
double DurationUs(double start_us, double end_us) {
  double duration = end_us - start_us;
  while (duration > 0 && start_us + duration > end_us) duration = std::nextafter(duration, 0.0);
  return duration;
}

class Writer {
 public:
  void Name(int64_t process, int row, const char* kind, const std::string& name) {
    Add("M", process, row, kind)["args"] = {{"name", name}};
  }
  void SortIndex(int64_t process, int row, const char* kind, int64_t index) {
    Add("M", process, row, kind)["args"] = {{"sort_index", index}};
  }
  // A row of the process, with its name and its place.
  void Row(int64_t process, int row, const std::string& name) {
    Name(process, row, "thread_name", name);
    SortIndex(process, row, "thread_sort_index", row);
  }
  // What ends before it begins (an import may say so) is a moment, not a span.
  void Span(int64_t process, int row, const std::string& name, int64_t start_ns, int64_t end_ns,
            Json arguments = Json::object()) {
    if (end_ns < start_ns) return Instant(process, row, name, start_ns);
    Add("X", process, row, name, start_ns, end_ns)["args"] = std::move(arguments);
  }
  void Instant(int64_t process, int row, const std::string& name, int64_t at_ns) {
    Add("i", process, row, name, at_ns)["s"] = "t";
  }
  // A value that holds from here on.
  void Counter(int64_t process, const std::string& name, int64_t at_ns, double value) {
    Add("C", process, 0, name, at_ns)["args"] = {{"value", value}};
  }
  // An arrow from what begins at `from_ns` on one row to what begins at `to_ns` on another.
  void Flow(int64_t process, const std::string& name, int from_row, int64_t from_ns, int to_row,
            int64_t to_ns) {
    const int64_t id = ++flows_;
    Json& from = Add("s", process, from_row, name, from_ns);
    from["id"] = id;
    from["cat"] = "flow";
    Json& to = Add("f", process, to_row, name, to_ns);
    to["id"] = id;
    to["cat"] = "flow";
    to["bp"] = "e";
  }
  // Puts the times in, now that the first is known: Perfetto drops what has a negative one, so the
  // intended send is as many whole milliseconds after 0 as it takes.
  std::string Text() {
    constexpr double kMs = 1000.0;
    const double send_us = std::ceil(std::abs(Us(first_ns_)) / kMs) * kMs;
    Json events = Json::array();
    for (Event& event : events_) {
      if (event.start_ns) event.json["ts"] = Us(*event.start_ns) + send_us;
      if (event.end_ns) {
        event.json["dur"] = DurationUs(event.json["ts"], Us(*event.end_ns) + send_us);
      }
      events.push_back(std::move(event.json));
    }
    const Json out = {{"displayTimeUnit", "ms"},
                      {"otherData", {{"source", "rouse"}, {"intended_send_us", send_us}}},
                      {"traceEvents", std::move(events)}};
    return out.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  struct Event {
    Json json;
    std::optional<int64_t> start_ns;
    std::optional<int64_t> end_ns;
  };

  Json& Add(const char* phase, int64_t process, int row, const std::string& name,
            std::optional<int64_t> start_ns = std::nullopt,
            std::optional<int64_t> end_ns = std::nullopt) {
    first_ns_ = std::min(first_ns_, start_ns.value_or(0));
    events_.push_back(
        {{{"ph", phase}, {"pid", process}, {"tid", row}, {"name", name}}, start_ns, end_ns});
    return events_.back().json;
  }

  std::deque<Event> events_;  // what Add returns stays where it is
  int64_t first_ns_ = 0;
  int64_t flows_ = 0;
};

struct NamedMark {
  std::string_view name;
  std::optional<int64_t> at_ns;
  std::string_view until;  // what the client was doing up to this mark
};

std::vector<NamedMark> MarksInOrder(const results::Marks& marks) {
  return {{"connected", marks.connected, "connect"},
          {"request_sent", marks.request_sent, "send"},
          {"response_headers", marks.response_headers, "wait for the headers"},
          {"first_byte", marks.first_byte, "wait for the body"},
          {"first_event", marks.first_event, "wait for an event"},
          {"first_token", marks.first_token, "wait for the first token"},
          {"last_token", marks.last_token, "receive tokens"},
          {"end", marks.end, "wait for the end"}};
}

void WriteClient(const Attempt& attempt, int64_t process, Writer& writer) {
  writer.Row(process, kClientRow, "client");
  writer.Instant(process, kClientRow, "intended_send", 0);
  int64_t last = attempt.marks.send_start.value_or(0);
  for (const NamedMark& mark : MarksInOrder(attempt.marks)) {
    if (!mark.at_ns) continue;
    // Marks of one read coincide: no span of no length.
    if (*mark.at_ns > last) {
      writer.Span(process, kClientRow, std::string(mark.until), last, *mark.at_ns);
      last = *mark.at_ns;
    }
    writer.Instant(process, kClientRow, std::string(mark.name), *mark.at_ns);
  }
  if (attempt.marks.first_content) {
    writer.Instant(process, kClientRow, "first_content", *attempt.marks.first_content);
  }
}

// Spans of one row must not overlap: work of one name that ran side by side gets further rows.
void WriteLanes(const Attempt& attempt, int64_t process, Writer& writer) {
  struct Row {
    int number;
    int64_t busy_until_ns;
  };
  std::vector<const results::Lane*> lanes;
  for (const results::Lane& lane : attempt.lanes) lanes.push_back(&lane);
  std::stable_sort(lanes.begin(), lanes.end(),
                   [](const auto* a, const auto* b) { return a->start_ns < b->start_ns; });
  std::map<std::string, std::vector<Row>> rows;
  int next = kFirstLaneRow;
  for (const results::Lane* const lane : lanes) {
    std::vector<Row>& named = rows[lane->name];
    auto row = std::find_if(named.begin(), named.end(),
                            [&](const Row& each) { return each.busy_until_ns <= lane->start_ns; });
    if (row == named.end()) {
      const std::string number = named.empty() ? "" : " " + std::to_string(named.size() + 1);
      writer.Row(process, next, lane->name + number);
      named.push_back({next++, 0});
      row = std::prev(named.end());
    }
    row->busy_until_ns = std::max(lane->start_ns, lane->end_ns);
    Json arguments = Json::object();
    if (lane->bytes) arguments["bytes"] = *lane->bytes;
    writer.Span(process, row->number, lane->name, lane->start_ns, lane->end_ns, arguments);
  }
}

void WriteRequest(const Attempt& attempt, int64_t process, Writer& writer) {
  if (attempt.segments.empty()) return;
  writer.Row(process, kRequestRow, "request");
  const std::optional<int64_t> sent = attempt.marks.request_sent;
  const results::Segment* first = nullptr;
  const results::Segment* last = nullptr;
  for (const results::Segment& segment : attempt.segments) {
    writer.Span(process, kRequestRow, std::string(results::StageName(segment.stage)),
                segment.start_ns, segment.end_ns);
    if (sent && segment.start_ns >= *sent && first == nullptr) first = &segment;
    if (attempt.marks.first_token && segment.start_ns <= *attempt.marks.first_token) {
      last = &segment;
    }
  }
  if (first != nullptr) {
    writer.Flow(process, "request", kClientRow, *sent, kRequestRow, first->start_ns);
  }
  if (last != nullptr) {
    writer.Flow(process, "first token", kRequestRow, last->start_ns, kClientRow,
                *attempt.marks.first_token);
  }
}

// Counts and bytes as totals, which a viewer can show as rates; pressure as the share of each
// interval that was waited through.
void WriteSamples(const Attempt& attempt, int64_t process, Writer& writer) {
  if (attempt.samples_json.empty()) return;
  const Result<results::Samples> samples = results::ParseSamples(attempt.samples_json);
  if (!samples.ok()) return;
  const std::vector<int64_t>& at_ns = samples->at_ns;
  for (size_t i = 0; i < samples->page_cache.size(); ++i) {
    writer.Counter(process, "page cache of the model file, %", at_ns[i],
                   100 * results::ResidentShare(samples->page_cache[i]));
  }
  for (const auto& [name, column] : samples->totals) {
    const bool pressure = name.starts_with("psi_");
    for (size_t i = 0; i < column.size(); ++i) {
      if (!column[i]) continue;
      if (!pressure) {
        writer.Counter(process, name, at_ns[i], static_cast<double>(*column[i]));
      } else if (i + 1 < column.size() && column[i + 1] && at_ns[i + 1] > at_ns[i]) {
        const int64_t waited_us = *column[i + 1] - *column[i];
        writer.Counter(process, name.substr(0, name.size() - 3) + ", %", at_ns[i],
                       100 * static_cast<double>(waited_us) / Us(at_ns[i + 1] - at_ns[i]));
      } else if (i > 0) {
        writer.Counter(process, name.substr(0, name.size() - 3) + ", %", at_ns[i], 0);
      }
    }
  }
}

}  // namespace

std::string TraceJson(std::span<const Attempt> attempts) {
  Writer writer;
  int64_t order = 0;
  for (const Attempt& attempt : attempts) {
    ++order;
    const int64_t process = attempt.id.value_or(order);
    writer.Name(process, 0, "process_name",
                "attempt " + std::to_string(process) + ", " + attempt.condition + ", " +
                    std::string(results::OutcomeName(attempt.outcome)) +
                    (attempt.prime ? ", prime" : ""));
    writer.SortIndex(process, 0, "process_sort_index", order);
    WriteClient(attempt, process, writer);
    WriteRequest(attempt, process, writer);
    WriteLanes(attempt, process, writer);
    WriteSamples(attempt, process, writer);
  }
  return writer.Text();
}

}  // namespace rouse::report
