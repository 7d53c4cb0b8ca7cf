// Format: "Trace Event Format" (the Chromium project): complete events "X" with ts and dur in
// microseconds, instants "i", and metadata "M" that names processes and threads.
#include "report/trace.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

namespace rouse::report {
namespace {

using Json = nlohmann::ordered_json;
using results::Attempt;

constexpr int kClientRow = 1;
constexpr int kRequestRow = 2;
constexpr int kFirstLaneRow = 3;

double Us(int64_t ns) { return static_cast<double>(ns) / 1000.0; }

class Writer {
 public:
  void Name(int64_t process, int row, const char* kind, const std::string& name) {
    events_.push_back(
        {{"ph", "M"}, {"pid", process}, {"tid", row}, {"name", kind}, {"args", {{"name", name}}}});
  }
  void Span(int64_t process, int row, const std::string& name, int64_t start_ns, int64_t end_ns,
            Json arguments = Json::object()) {
    events_.push_back({{"ph", "X"},
                       {"pid", process},
                       {"tid", row},
                       {"name", name},
                       {"ts", Us(start_ns)},
                       {"dur", Us(end_ns - start_ns)},
                       {"args", std::move(arguments)}});
  }
  void Instant(int64_t process, int row, const std::string& name, int64_t at_ns) {
    events_.push_back({{"ph", "i"},
                       {"pid", process},
                       {"tid", row},
                       {"name", name},
                       {"ts", Us(at_ns)},
                       {"s", "t"}});
  }
  std::string Text() const {
    const Json out = {{"displayTimeUnit", "ms"}, {"traceEvents", events_}};
    return out.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  Json events_ = Json::array();
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
  writer.Name(process, kClientRow, "thread_name", "client");
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

void WriteLanes(const Attempt& attempt, int64_t process, Writer& writer) {
  std::map<std::string, int> rows;
  for (const results::Lane& lane : attempt.lanes) {
    const auto [row, is_new] =
        rows.emplace(lane.name, kFirstLaneRow + static_cast<int>(rows.size()));
    if (is_new) writer.Name(process, row->second, "thread_name", lane.name);
    Json arguments = Json::object();
    if (lane.bytes) arguments["bytes"] = *lane.bytes;
    writer.Span(process, row->second, lane.name, lane.start_ns, lane.end_ns, arguments);
  }
}

}  // namespace

std::string TraceJson(std::span<const Attempt> attempts) {
  Writer writer;
  int64_t fallback = 0;
  for (const Attempt& attempt : attempts) {
    const int64_t process = attempt.id.value_or(--fallback);
    writer.Name(process, 0, "process_name",
                "attempt " + std::to_string(process) + ", " + attempt.condition + ", " +
                    std::string(results::OutcomeName(attempt.outcome)) +
                    (attempt.prime ? ", prime" : ""));
    WriteClient(attempt, process, writer);
    if (!attempt.segments.empty()) writer.Name(process, kRequestRow, "thread_name", "request");
    for (const results::Segment& segment : attempt.segments) {
      writer.Span(process, kRequestRow, std::string(results::StageName(segment.stage)),
                  segment.start_ns, segment.end_ns);
    }
    WriteLanes(attempt, process, writer);
  }
  return writer.Text();
}

}  // namespace rouse::report
