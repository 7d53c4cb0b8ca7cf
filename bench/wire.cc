// How far the client's marks are from the truth, and what it costs: the error of every token's
// stamp against the scripted server's own (taken right before send(), same clock, another process)
// at 1 and at 64 streams of 100 tokens/s; the speed of the parsers; memory at 64 streams.
// Raw data goes to stdout as CSV, the summary to stderr.
//   build/release/bench/wire > bench/wire/results/DATE.csv
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/fd.h"
#include "base/strings.h"
#include "support/scripted_server.h"
#include "wire/client.h"
#include "wire/replay.h"
#include "wire/sse.h"

namespace {

using rouse::kNsPerMs;
using rouse::MonoNow;
using rouse::MonoTime;
using rouse::testing::Chunk;

constexpr int64_t kTokenGapNs = 10 * kNsPerMs;

std::string TokenEvent(int stream) {
  return "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,"
         "\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" +
         std::to_string(stream) + " \"},\"finish_reason\":null}]}\n\n";
}

// The token's text names its stream, so that the client's stamps find the server's.
rouse::testing::Script MakeScript(int stream, int tokens) {
  rouse::testing::Script script = {
      rouse::testing::ReadRequest(),
      rouse::testing::Send(rouse::testing::Head(rouse::testing::kEventStream))};
  for (int i = 0; i < tokens; ++i) {
    script.push_back(rouse::testing::PauseFor(kTokenGapNs));
    script.push_back(rouse::testing::Send(Chunk(TokenEvent(stream))));
  }
  script.push_back(rouse::testing::Send(
      Chunk("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n") +
      std::string(rouse::testing::kLastChunk)));
  return script;
}

// The server's process: says its port, plays, and writes streams * tokens stamps.
[[noreturn]] void Serve(int out_fd, int streams, int tokens) {
  std::vector<rouse::testing::Script> scripts;
  for (int i = 0; i < streams; ++i) scripts.push_back(MakeScript(i, tokens));
  const rouse::testing::ScriptedServer server(std::move(scripts));
  const int port = server.port();
  CHECK(write(out_fd, &port, sizeof port) == sizeof port);
  std::vector<int64_t> stamps;
  while (server.connection_count() < static_cast<size_t>(streams)) {
    rouse::RealClock().SleepFor(kNsPerMs);
  }
  rouse::RealClock().SleepFor(kTokenGapNs * (tokens + 20));
  for (int i = 0; i < streams; ++i) {
    const auto sends = server.Log(static_cast<size_t>(i)).sends;
    CHECK(sends.size() == static_cast<size_t>(tokens) + 2);
    for (int t = 0; t < tokens; ++t) stamps.push_back(sends[static_cast<size_t>(t) + 1].before.ns);
  }
  const std::string_view bytes(reinterpret_cast<const char*>(stamps.data()),
                               stamps.size() * sizeof(int64_t));
  CHECK(rouse::WriteAll(out_fd, bytes).ok());
  std::_Exit(0);
}

void ReadExactly(int fd, void* to, size_t size) {
  auto* at = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t count = read(fd, at, size);
    CHECK(count > 0);
    at += count;
    size -= static_cast<size_t>(count);
  }
}

int64_t At(const std::vector<int64_t>& sorted, double share) {
  const auto index = static_cast<size_t>(share * static_cast<double>(sorted.size() - 1));
  return sorted.at(index);
}

void Summarize(const char* what, int streams, std::vector<int64_t> values) {
  if (values.empty()) return;
  std::ranges::sort(values);
  std::fprintf(stderr, "%2d streams  %-12s n %6zu  median %6.1f us  p99 %7.1f us  max %8.1f us\n",
               streams, what, values.size(), static_cast<double>(At(values, 0.5)) / 1e3,
               static_cast<double>(At(values, 0.99)) / 1e3,
               static_cast<double>(values.back()) / 1e3);
}

int64_t MemoryBytes() {
  const auto text = rouse::ReadSmallFile("/proc/self/status");
  CHECK(text.ok());
  for (const std::string_view line : rouse::SplitAt(*text, '\n')) {
    if (!line.starts_with("VmHWM:")) continue;
    return std::strtoll(std::string(line.substr(6)).c_str(), nullptr, 10) * 1024;
  }
  return 0;
}

std::vector<rouse::wire::Exchange> RunStreams(int port, int streams) {
  std::vector<rouse::wire::Exchange> exchanges(static_cast<size_t>(streams));
  rouse::wire::RequestSpec spec;
  spec.url = "http://127.0.0.1:" + std::to_string(port);
  spec.prompt = "hi";
  const auto request = rouse::wire::Prepare(spec);
  CHECK(request.ok());
  const MonoTime start = MonoNow() + 20 * kNsPerMs;
  std::vector<std::thread> threads;
  for (int i = 0; i < streams; ++i) {
    threads.emplace_back([&, i] {
      // Spread over one gap between tokens, as independent users are.
      const MonoTime at = start + kTokenGapNs * i / streams;
      exchanges[static_cast<size_t>(i)] =
          rouse::wire::Perform(*request, {.intended_send = at, .interrupt = nullptr});
    });
  }
  for (std::thread& thread : threads) thread.join();
  return exchanges;
}

void MeasureMarks(int streams, int tokens) {
  int pipe_fds[2];
  CHECK(pipe(pipe_fds) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) Serve(pipe_fds[1], streams, tokens);
  int port = 0;
  ReadExactly(pipe_fds[0], &port, sizeof port);
  const auto exchanges = RunStreams(port, streams);
  const int64_t memory_bytes = MemoryBytes();
  std::vector<int64_t> stamps(static_cast<size_t>(streams * tokens));
  ReadExactly(pipe_fds[0], stamps.data(), stamps.size() * sizeof(int64_t));
  CHECK(waitpid(child, nullptr, 0) == child);
  std::vector<int64_t> errors;
  std::vector<int64_t> delays;
  for (const auto& exchange : exchanges) {
    CHECK(exchange.outcome == rouse::wire::Outcome::kOk);
    const int stream = std::atoi(exchange.content_text.c_str());
    size_t token = 0;
    for (const auto& event : exchange.events) {
      if (event.event_class != rouse::wire::EventClass::kToken) continue;
      const size_t index = static_cast<size_t>(stream * tokens) + token;
      errors.push_back(event.at.ns - stamps.at(index));
      std::printf("%d,%d,%zu,%ld\n", streams, stream, token++, errors.back());
    }
    for (const auto& read : exchange.reads) {
      if (read.kernel_delay_ns) delays.push_back(*read.kernel_delay_ns);
    }
  }
  Summarize("mark error", streams, std::move(errors));
  Summarize("read delay", streams, std::move(delays));
  std::fprintf(stderr, "%2d streams  memory of the client's process at most %.1f MB\n", streams,
               static_cast<double>(memory_bytes) / 1e6);
}

// CPU time of this thread: what parsing costs, however busy the machine is.
int64_t CpuNowNs() {
  timespec now{};
  CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return now.tv_sec * rouse::kNsPerSecond + now.tv_nsec;
}

class Counter : public rouse::wire::SseSink {
 public:
  void OnEvent(const rouse::wire::SseEvent& event) override { bytes += event.data.size(); }
  void OnComment(std::string_view /*text*/) override {}
  size_t bytes = 0;
};

void MeasureParsing(const char* what, const std::string& event, size_t total_bytes) {
  std::string stream;
  while (stream.size() < (size_t{4} << 20)) stream += event;
  constexpr size_t kRead = size_t{64} << 10;
  Counter counter;
  rouse::wire::SseParser parser(size_t{16} << 20);
  size_t fed = 0;
  const int64_t before = CpuNowNs();
  while (fed < total_bytes) {
    for (size_t at = 0; at < stream.size(); at += kRead) {
      parser.Feed(std::string_view(stream).substr(at, kRead), counter);
    }
    fed += stream.size();
  }
  const auto ns = static_cast<double>(CpuNowNs() - before);
  std::fprintf(stderr, "SSE, %-22s %7.0f MB/s of CPU time\n", what,
               static_cast<double>(fed) / ns * 1e3);
}

// Everything that happens between a read and its conclusions: HTTP, SSE, JSON, marks.
void MeasurePipeline(size_t total_bytes) {
  rouse::wire::Recording recording;
  recording.reads.push_back({0, "HTTP/1.1 200 OK\r\n\r\n"});
  const std::string event = TokenEvent(1);
  std::string read;
  while (read.size() < (size_t{60} << 10)) read += event;
  size_t bytes = 0;
  for (; bytes < total_bytes; bytes += read.size()) recording.reads.push_back({0, read});
  recording.end = rouse::wire::StreamEnd::kClosed;
  const int64_t before = CpuNowNs();
  const auto exchange = rouse::wire::Replay(recording);
  const auto ns = static_cast<double>(CpuNowNs() - before);
  std::fprintf(stderr, "whole, %ld token events     %7.0f MB/s of CPU time, %.2f us an event\n",
               exchange.stream.token_events, static_cast<double>(bytes) / ns * 1e3,
               ns / 1e3 / static_cast<double>(exchange.stream.token_events));
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::strcmp(argv[1], "--smoke") == 0;
  std::printf("streams,stream,token,mark_error_ns\n");
  // Before any thread exists: these fork.
  MeasureMarks(1, smoke ? 20 : 500);
  MeasureMarks(smoke ? 8 : 64, smoke ? 20 : 100);
  const size_t total = smoke ? size_t{8} << 20 : size_t{512} << 20;
  MeasureParsing("chat chunks of 170 B", TokenEvent(1), total);
  MeasureParsing("events of 20 B", "data: {\"a\":\"b\"}\n\n", total);
  MeasureParsing("events of 4 KB", "data: \"" + std::string(4000, 'x') + "\"\n\n", total);
  MeasurePipeline(smoke ? size_t{1} << 20 : size_t{64} << 20);
  return 0;
}
