#include "wire/replay.h"

#include <openssl/evp.h>

#include <array>
#include <optional>

#include "base/strings.h"
#include "wire/exchange_builder.h"
#include "wire/json_read.h"

namespace rouse::wire {
namespace {

std::string EncodeBase64(std::string_view data) {
  std::string text(4 * ((data.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(data.data()),
                                   static_cast<int>(data.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string data(text.size() / 4 * 3 + 1, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(data.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0) return std::nullopt;
  // The library counts the padding as zero bytes.
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  data.resize(static_cast<size_t>(size) - padding);
  return data;
}

void AppendLine(const nlohmann::ordered_json& line, std::string& text) {
  text += line.dump() + "\n";
}

nlohmann::ordered_json Line(std::string_view kind, int64_t time_ns, int64_t bytes) {
  return {{"kind", kind}, {"time_ns", time_ns}, {"bytes", bytes}};
}

nlohmann::ordered_json ReadLine(const ReadStamp& read, MonoTime start) {
  nlohmann::ordered_json line = Line("read", read.at - start, read.bytes);
  if (read.kernel_delay_ns) line["kernel_delay_ns"] = *read.kernel_delay_ns;
  if (IsValidUtf8(read.data)) {
    line["data"] = read.data;
  } else {
    line["data_base64"] = EncodeBase64(read.data);
  }
  return line;
}

nlohmann::ordered_json EventLine(const EventStamp& event, MonoTime start) {
  nlohmann::ordered_json line = Line("event", event.at - start, event.bytes);
  line["class"] = EventClassName(event.event_class);
  if (event.channel) line["channel"] = ChannelName(*event.channel);
  return line;
}

std::optional<StreamEnd> EndFromName(std::string_view name) {
  for (const StreamEnd end :
       {StreamEnd::kNone, StreamEnd::kComplete, StreamEnd::kClosed, StreamEnd::kReset,
        StreamEnd::kTimeout, StreamEnd::kInterrupted, StreamEnd::kStopped}) {
    if (StreamEndName(end) == name) return end;
  }
  return std::nullopt;
}

// "" or what is wrong with the line.
std::string_view AddLine(const Json& line, Recording& recording) {
  const std::string_view kind = TextAt(line, "kind");
  const std::optional<int64_t> time_ns = Count(At(line, "time_ns"));
  if (kind.empty()) return "has no kind";
  if (kind != "request" && kind != "read" && kind != "end") return "";
  if (!time_ns) return "has no time_ns";
  if (kind == "request") {
    const std::optional<Api> api = ApiFromName(TextAt(line, "api"));
    if (!api) return "names no known api";
    recording.api = *api;
    recording.request_sent_ns = *time_ns;
  } else if (kind == "end") {
    const std::optional<StreamEnd> end = EndFromName(TextAt(line, "how"));
    if (!end) return "does not say how it ended";
    recording.end = *end;
    recording.end_ns = *time_ns;
  } else if (const Json& base64 = At(line, "data_base64"); base64.is_string()) {
    std::optional<std::string> data = DecodeBase64(Text(base64));
    if (!data) return "has bad base64";
    recording.reads.push_back({*time_ns, *std::move(data)});
  } else {
    recording.reads.push_back({*time_ns, std::string(TextAt(line, "data"))});
  }
  return "";
}

}  // namespace

std::string EventsJsonl(const Exchange& exchange) {
  const MonoTime start = exchange.marks.send_start;
  std::string text;
  if (exchange.marks.request_sent) {
    nlohmann::ordered_json request =
        Line("request", *exchange.marks.request_sent - start, exchange.request_bytes);
    request["schema"] = "rouse.events/1";
    request["api"] = ApiName(exchange.api);
    AppendLine(request, text);
  }
  // An event has the stamp of the read that completed it, and stands behind that read.
  auto event = exchange.events.begin();
  for (size_t i = 0; i < exchange.reads.size(); ++i) {
    AppendLine(ReadLine(exchange.reads[i], start), text);
    const bool last = i + 1 == exchange.reads.size();
    while (event != exchange.events.end() && (last || event->at < exchange.reads[i + 1].at)) {
      AppendLine(EventLine(*event++, start), text);
    }
  }
  if (exchange.marks.end) {
    nlohmann::ordered_json end =
        Line("end", *exchange.marks.end - start, exchange.stream.read_bytes);
    end["how"] = StreamEndName(exchange.stream_end);
    end["outcome"] = OutcomeName(exchange.outcome);
    AppendLine(end, text);
  }
  return text;
}

Result<Recording> ParseRecording(std::string_view jsonl) {
  Recording recording;
  int64_t number = 0;
  for (const std::string_view text : SplitAt(jsonl, '\n')) {
    ++number;
    if (TrimBlanks(text).empty()) continue;
    const std::optional<Json> line = ParseJson(text);
    const std::string_view problem = line ? AddLine(*line, recording) : "is no JSON";
    if (!problem.empty()) {
      return Error(ErrorCode::kCorrupt,
                   "line " + std::to_string(number) + " of the recording " + std::string(problem));
    }
  }
  return recording;
}

Exchange Replay(const Recording& recording, const Limits& limits) {
  Exchange exchange;
  exchange.marks.request_sent = MonoTime{recording.request_sent_ns};
  ExchangeBuilder builder(recording.api, limits, false, exchange);
  for (const RecordedRead& read : recording.reads) {
    if (!builder.OnRead(read.data, {read.time_ns}, std::nullopt)) {
      builder.Finish(StreamEnd::kComplete, {read.time_ns}, "");
      return exchange;
    }
  }
  builder.Finish(recording.end, {recording.end_ns}, "recorded timeout");
  return exchange;
}

}  // namespace rouse::wire
