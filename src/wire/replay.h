// A recorded stream: the file of `rouse probe --events`, and putting it through the parser again.
// One JSON object a line, each with kind, time_ns (since the intended send) and bytes:
//
//   {"kind":"request", ..., "schema":"rouse.events/1", "api":"openai-chat"}      what was written
//   {"kind":"read", ..., "data":"HTTP/1.1 200 OK..."}     or "data_base64" when it is not UTF-8
//   {"kind":"event", ..., "class":"token", "channel":"content"}                  what it completed
//   {"kind":"end", ..., "how":"complete"}                                        why no more came
//
// `event` lines are for people; a replay makes them anew from the reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/exchange.h"

namespace rouse::wire {

// The whole file. The exchange must have been made with keep_raw.
std::string EventsJsonl(const Exchange& exchange);

struct RecordedRead {
  int64_t time_ns = 0;
  std::string data;
};

struct Recording {
  Api api = Api::kOpenAiChat;
  int64_t request_sent_ns = 0;
  std::vector<RecordedRead> reads;
  StreamEnd end = StreamEnd::kComplete;
  int64_t end_ns = 0;
};

// kCorrupt with the number of the line that is at fault. Lines of unknown kinds are skipped.
Result<Recording> ParseRecording(std::string_view jsonl);

// What the client would have concluded from these reads. Marks are relative to time 0.
Exchange Replay(const Recording& recording, const Limits& limits = {});

}  // namespace rouse::wire
