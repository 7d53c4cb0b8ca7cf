// The client against a scripted server on the same clock: marks, timeouts, connections, limits,
// TLS, and what is on the wire.
#include "wire/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <thread>

#include "support/scripted_server.h"

namespace rouse::wire {
namespace {

using rouse::testing::Chunk;
using rouse::testing::Head;
using rouse::testing::Hold;
using rouse::testing::kEventStream;
using rouse::testing::kLastChunk;
using rouse::testing::PauseFor;
using rouse::testing::ReadRequest;
using rouse::testing::Reset;
using rouse::testing::Script;
using rouse::testing::ScriptedServer;
using rouse::testing::Send;
using rouse::testing::ServerOptions;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMs = kNsPerMs;
// Marks are compared with the server's own stamps; a busy machine may wake either side late.
constexpr int64_t kSlackNs = 60 * kMs;

std::string Token(std::string_view text) {
  return "data: {\"choices\":[{\"delta\":{\"content\":\"" + std::string(text) + "\"}}]}\n\n";
}
const std::string kRole = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n";
const std::string kFinish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const std::string kDone = "data: [DONE]\n\n";
const std::string kWholeStream =
    Head(kEventStream) + Chunk(Token("x") + kFinish + kDone) + std::string(kLastChunk);

RequestSpec SpecFor(const std::string& url) {
  RequestSpec spec;
  spec.url = url;
  spec.prompt = "hi";
  spec.timeouts.total_ns = 20 * kNsPerSecond;
  return spec;
}

Exchange Ask(const RequestSpec& spec, Connection* kept = nullptr) {
  const Result<PreparedRequest> request = Prepare(spec);
  EXPECT_TRUE(request.ok()) << (request.ok() ? "" : request.error().message());
  if (!request.ok()) return {};
  return Perform(*request, {}, kept);
}

std::vector<std::string> Codes(const Exchange& exchange) {
  std::vector<std::string> codes;
  for (const Warning& warning : exchange.warnings) codes.push_back(warning.code);
  return codes;
}

TEST(Client, MarksAgreeWithTheServersOwnStamps) {
  const ScriptedServer server(
      {{ReadRequest(), Send(Head(kEventStream)), PauseFor(30 * kMs), Send(Chunk(kRole)),
        PauseFor(40 * kMs), Send(Chunk(Token("a"))), PauseFor(20 * kMs), Send(Chunk(Token("b"))),
        PauseFor(20 * kMs), Send(Chunk(kFinish + kDone) + std::string(kLastChunk))}});
  const Exchange exchange = Ask(SpecFor(server.url()));
  ASSERT_EQ(exchange.outcome, Outcome::kOk) << exchange.outcome_detail;
  const auto sends = server.Log(0).sends;
  ASSERT_EQ(sends.size(), 5U);
  const Marks& marks = exchange.marks;
  const auto expect_near = [&sends](std::optional<MonoTime> mark, size_t send) {
    ASSERT_TRUE(mark.has_value());
    // A read can't return before the server began to send; it must return soon after.
    EXPECT_GE(*mark - sends[send].before, 0) << "send " << send;
    EXPECT_LT(*mark - sends[send].before, kSlackNs) << "send " << send;
  };
  expect_near(marks.response_headers, 0);
  expect_near(marks.first_byte, 1);
  expect_near(marks.first_event, 1);
  expect_near(marks.first_token, 2);
  expect_near(marks.first_content, 2);
  expect_near(marks.last_token, 3);
  expect_near(marks.end, 4);
  EXPECT_LE(marks.send_start, *marks.connect_start);
  EXPECT_LE(*marks.connect_start, *marks.connected);
  EXPECT_LE(*marks.connected, *marks.request_sent);
  EXPECT_LE(*marks.request_sent, *marks.response_headers);
  EXPECT_FALSE(exchange.stream.coalesced);
  EXPECT_EQ(exchange.stream.reads, 5);
  EXPECT_EQ(exchange.connection.family, "ipv4");
  EXPECT_EQ(exchange.connection.remote, "127.0.0.1:" + std::to_string(server.port()));
  EXPECT_FALSE(*exchange.connection.reused);
}

// An event of 12 MB takes tens of milliseconds to parse, and its last byte comes after a pause: a
// stamp that is taken after parsing would lie behind the return of the next read.
TEST(Client, StampsAtTheReadAndNotAfterParsing) {
  std::string big = "data: {\"pad\":[";
  for (int i = 0; i < 3'000'000; ++i) big += "1,2,";
  big += "3],\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
  const size_t last = big.size() - 1;
  // The second send follows at once, while the client parses: its bytes wait in the kernel, whose
  // receive stamp says since when.
  const ScriptedServer server(
      {{ReadRequest(), Send(Head("Connection: close\r\n")), Send(big.substr(0, last)),
        PauseFor(300 * kMs), Send(big.substr(last)), PauseFor(kMs), Send(kFinish + kDone)}});
  const Exchange exchange = Ask(SpecFor(server.url()));
  ASSERT_EQ(exchange.outcome, Outcome::kOk) << exchange.outcome_detail;
  const auto sends = server.Log(0).sends;
  const MonoTime stamp = *exchange.marks.first_token;
  const MonoTime next_read = exchange.reads.back().at;
  const int64_t parsing_ns = next_read - stamp;
  // On a crawling machine (sanitizers, load) one read takes in both sends: nothing can be told.
  if (parsing_ns == 0) GTEST_SKIP() << "both sends came in one read";
  ASSERT_GT(parsing_ns, 10 * kMs) << "parsing was too fast for this test to mean anything";
  EXPECT_GE(stamp - sends[2].before, 0);
  EXPECT_LT(stamp - sends[2].before, parsing_ns / 2);
}

TEST(Client, SendsTheRequestThatTheContractDescribes) {
  const ScriptedServer server({{ReadRequest(), Send(kWholeStream)}});
  RequestSpec spec = SpecFor(server.url() + "/v1");
  spec.model = "m";
  spec.max_tokens = 7;
  spec.extra_body_json = R"({"cache_prompt": false, "temperature": null})";
  spec.headers = {{"Authorization", "Bearer abc"}, {"user-agent", "mine"}};
  ASSERT_EQ(Ask(spec).outcome, Outcome::kOk);
  const std::string request = server.Log(0).requests.at(0);
  EXPECT_THAT(request, ::testing::StartsWith("POST /v1/chat/completions HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Accept: text/event-stream\r\n"));
  EXPECT_THAT(request, HasSubstr("Accept-Encoding: identity\r\n"));
  EXPECT_THAT(request, HasSubstr("Host: 127.0.0.1:" + std::to_string(server.port()) + "\r\n"));
  EXPECT_THAT(request, HasSubstr("Authorization: Bearer abc\r\n"));
  EXPECT_THAT(request, HasSubstr("user-agent: mine\r\n"));
  EXPECT_THAT(request, Not(HasSubstr("User-Agent: rouse/")));
  EXPECT_THAT(request, HasSubstr(R"("stream_options":{"include_usage":true})"));
  EXPECT_THAT(request, HasSubstr(R"("cache_prompt":false)"));
  EXPECT_THAT(request, HasSubstr(R"("max_tokens":7)"));
  EXPECT_THAT(request, Not(HasSubstr("temperature")));
  EXPECT_EQ(server.connection_count(), 1U);
}

TEST(Client, CountsLatenessAgainstTheIntendedSend) {
  const ScriptedServer server({{ReadRequest(), Send(kWholeStream)}});
  const Result<PreparedRequest> request = Prepare(SpecFor(server.url()));
  ASSERT_TRUE(request.ok());
  const MonoTime intended = MonoNow() + -50 * kMs;
  const Exchange late = Perform(*request, {.intended_send = intended, .interrupt = nullptr});
  EXPECT_EQ(late.marks.send_start, intended);
  EXPECT_GE(*late.marks.connect_start - intended, 50 * kMs);
  const MonoTime ahead = MonoNow() + 50 * kMs;
  const Exchange early = Perform(*request, {.intended_send = ahead, .interrupt = nullptr});
  EXPECT_EQ(early.marks.send_start, ahead);
  EXPECT_GE(*early.marks.connect_start, ahead);
}

TEST(Client, SpeaksOverIpv6AndUnixSockets) {
  for (const auto family : {ServerOptions::Family::kIpv6, ServerOptions::Family::kUnix}) {
    const ScriptedServer server({{ReadRequest(), Send(kWholeStream)}}, {.family = family});
    const Exchange exchange = Ask(SpecFor(server.url()));
    ASSERT_EQ(exchange.outcome, Outcome::kOk) << exchange.outcome_detail;
    const bool ipv6 = family == ServerOptions::Family::kIpv6;
    EXPECT_EQ(exchange.connection.family, ipv6 ? "ipv6" : "unix");
    EXPECT_EQ(exchange.client_read_delay_ns.has_value(), ipv6);
    if (!ipv6) {
      EXPECT_THAT(server.Log(0).requests.at(0), HasSubstr("Host: localhost\r\n"));
    }
  }
}

TEST(Client, KnowsItsOwnReadDelayFromTheKernel) {
  const ScriptedServer server(
      {{ReadRequest(), Send(Head(kEventStream)), PauseFor(20 * kMs), Send(Chunk(Token("x"))),
        PauseFor(20 * kMs), Send(Chunk(kFinish + kDone) + std::string(kLastChunk))}});
  const Exchange exchange = Ask(SpecFor(server.url()));
  ASSERT_TRUE(exchange.client_read_delay_ns.has_value());
  const int64_t since_send_ns = *exchange.marks.first_token - server.Log(0).sends[1].before;
  // The kernel's stamp lies between the server's send and the client's read.
  EXPECT_GT(*exchange.client_read_delay_ns, 0);
  EXPECT_LE(*exchange.client_read_delay_ns, since_send_ns + 5 * kNsPerUs);
  EXPECT_GE(*exchange.client_read_delay_max_ns, *exchange.client_read_delay_ns);
}

TEST(Client, SaysConnectErrorForRefusedAndUnresolvable) {
  int port = 0;
  {
    port = ScriptedServer({{ReadRequest()}}).port();
  }
  const Exchange refused = Ask(SpecFor("http://127.0.0.1:" + std::to_string(port)));
  EXPECT_EQ(refused.outcome, Outcome::kConnectError);
  EXPECT_EQ(refused.connection.connect_errno, ECONNREFUSED);
  EXPECT_THAT(refused.outcome_detail, HasSubstr("refused"));
  EXPECT_FALSE(refused.marks.connected.has_value());
  EXPECT_TRUE(refused.marks.end.has_value());
  const Exchange unknown = Ask(SpecFor("http://no-such-host.invalid:1"));
  EXPECT_EQ(unknown.outcome, Outcome::kConnectError);
  EXPECT_THAT(unknown.outcome_detail, HasSubstr("no-such-host.invalid"));
  const Exchange missing = Ask(SpecFor("unix:/tmp/rouse-no-such.sock"));
  EXPECT_EQ(missing.outcome, Outcome::kConnectError);
  EXPECT_EQ(missing.connection.connect_errno, ENOENT);
}

struct TimeoutCase {
  std::string stage;
  std::function<void(Timeouts&)> set;
  Script script;
  bool has_token;
};

TEST(Client, NamesTheTimeoutThatEndedIt) {
  const std::vector<TimeoutCase> cases = {
      {"first byte",
       [](Timeouts& t) { t.first_byte_ns = 80 * kMs; },
       {ReadRequest(), Send(Head(kEventStream)), Hold()},
       false},
      {"first token",
       [](Timeouts& t) { t.first_token_ns = 80 * kMs; },
       {ReadRequest(), Send(Head(kEventStream) + Chunk(kRole) + Chunk(":\n\n")), Hold()},
       false},
      {"between tokens",
       [](Timeouts& t) { t.between_tokens_ns = 80 * kMs; },
       {ReadRequest(), Send(Head(kEventStream) + Chunk(Token("x"))), Hold()},
       true},
      {"total",
       [](Timeouts& t) { t.total_ns = 80 * kMs; },
       {ReadRequest(), Send(Head(kEventStream) + Chunk(Token("x"))), Hold()},
       true},
  };
  for (const TimeoutCase& tested : cases) {
    const ScriptedServer server({tested.script});
    RequestSpec spec = SpecFor(server.url());
    tested.set(spec.timeouts);
    const Exchange exchange = Ask(spec);
    EXPECT_EQ(exchange.outcome, Outcome::kTimeout) << tested.stage;
    EXPECT_THAT(exchange.outcome_detail, HasSubstr(tested.stage + " timeout"));
    EXPECT_EQ(exchange.marks.first_token.has_value(), tested.has_token) << tested.stage;
    const int64_t waited_ns = *exchange.marks.end - exchange.marks.send_start;
    EXPECT_GE(waited_ns, 80 * kMs) << tested.stage;
    EXPECT_LT(waited_ns, 80 * kMs + 10 * kSlackNs) << tested.stage;
  }
}

TEST(Client, TimesOutInAConnectThatIsNeverAccepted) {
  // A Unix socket with a full backlog accepts no further connection.
  const Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/tmp/rouse-backlog-" + std::to_string(getpid()) + ".sock";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  ASSERT_EQ(bind(listener.get(), generic, sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 0), 0);
  const Fd first(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(connect(first.get(), generic, sizeof address), 0);
  RequestSpec spec = SpecFor("unix:" + path);
  spec.timeouts.connect_ns = 60 * kMs;
  const Exchange exchange = Ask(spec);
  unlink(path.c_str());
  EXPECT_EQ(exchange.outcome, Outcome::kTimeout);
  EXPECT_THAT(exchange.outcome_detail, HasSubstr("connect timeout"));
}

TEST(Client, EndsAtOnceWhenInterrupted) {
  const ScriptedServer server({{ReadRequest(), Send(Head(kEventStream)), Hold()}});
  const Result<PreparedRequest> request = Prepare(SpecFor(server.url()));
  ASSERT_TRUE(request.ok());
  std::atomic<bool> interrupt{false};
  std::thread later([&interrupt] {
    RealClock().SleepFor(50 * kMs);
    interrupt = true;
  });
  const Exchange exchange = Perform(*request, {.intended_send = {}, .interrupt = &interrupt});
  later.join();
  EXPECT_EQ(exchange.outcome, Outcome::kInterrupted);
  EXPECT_LT(*exchange.marks.end - exchange.marks.send_start, kNsPerSecond);
}

TEST(Client, StopsWaitingSoonAfterDone) {
  const ScriptedServer server(
      {{ReadRequest(), Send(Head(kEventStream) + Chunk(Token("x") + kFinish + kDone)), Hold()}});
  const MonoTime before = MonoNow();
  const Exchange exchange = Ask(SpecFor(server.url()));
  EXPECT_EQ(exchange.outcome, Outcome::kOk);
  EXPECT_LT(MonoNow() - before, 5 * kNsPerSecond);
  EXPECT_EQ(exchange.marks.end, exchange.marks.last_token);
  EXPECT_THAT(Codes(exchange), Contains("no_end_of_message"));
}

TEST(Client, TellsAResetAtAnyByte) {
  const std::string stream = Head(kEventStream) + Chunk(Token("x"));
  for (const size_t at : {size_t{1}, size_t{20}, Head(kEventStream).size(), stream.size() - 1}) {
    const ScriptedServer server(
        {{ReadRequest(), Send(stream.substr(0, at)), PauseFor(20 * kMs), Reset()}});
    const Exchange exchange = Ask(SpecFor(server.url()));
    EXPECT_EQ(exchange.outcome, Outcome::kTruncated) << at;
    EXPECT_THAT(exchange.outcome_detail, HasSubstr("reset")) << at;
    EXPECT_EQ(exchange.stream_end, StreamEnd::kReset) << at;
  }
}

TEST(Client, ReadsTheAnswerOfAServerThatRefusesALongRequest) {
  const ScriptedServer server(
      {{PauseFor(30 * kMs), Send(Head("Content-Length: 8\r\n", "413 Too Large") + "too long")}});
  RequestSpec spec = SpecFor(server.url());
  spec.prompt = std::string(40 << 20, 'x');
  const Exchange exchange = Ask(spec);
  EXPECT_EQ(exchange.outcome, Outcome::kHttpError);
  EXPECT_EQ(exchange.http_status, 413);
  EXPECT_THAT(Codes(exchange), Contains("request_cut"));
}

TEST(Client, CrossesNoLimitSilently) {
  const std::string long_field = "X: " + std::string(70'000, 'x') + "\r\n";
  const ScriptedServer header({{ReadRequest(), Send(Head(long_field)), Hold()}});
  const Exchange long_header = Ask(SpecFor(header.url()));
  EXPECT_EQ(long_header.outcome, Outcome::kMalformed);
  EXPECT_THAT(long_header.outcome_detail, HasSubstr("header_limit"));

  const ScriptedServer event({{ReadRequest(), Send(Head(kEventStream)),
                               Send(Chunk("data: " + std::string(3000, 'x'))), Hold()}});
  RequestSpec spec = SpecFor(event.url());
  spec.limits.event_bytes = 2000;
  const Exchange long_event = Ask(spec);
  EXPECT_EQ(long_event.outcome, Outcome::kMalformed);
  EXPECT_THAT(long_event.outcome_detail, HasSubstr("event_limit"));

  const ScriptedServer total({{ReadRequest(), Send(Head(kEventStream)),
                               Send(Chunk(":" + std::string(5000, 'x') + "\n")), Hold()}});
  spec = SpecFor(total.url());
  spec.limits.total_bytes = 4000;
  const Exchange long_total = Ask(spec);
  EXPECT_EQ(long_total.outcome, Outcome::kMalformed);
  EXPECT_THAT(long_total.outcome_detail, HasSubstr("total_limit"));
}

TEST(Client, UsesAKeptConnectionAgain) {
  const ScriptedServer server(
      {{ReadRequest(), Send(kWholeStream), ReadRequest(), Send(kWholeStream)}});
  Connection kept;
  const Exchange first = Ask(SpecFor(server.url()), &kept);
  EXPECT_FALSE(*first.connection.reused);
  ASSERT_TRUE(kept.open());
  const Exchange second = Ask(SpecFor(server.url()), &kept);
  EXPECT_EQ(second.outcome, Outcome::kOk);
  EXPECT_TRUE(*second.connection.reused);
  EXPECT_FALSE(second.marks.connected.has_value());
  EXPECT_EQ(second.connection.remote, first.connection.remote);
  EXPECT_TRUE(second.warnings.empty());
  EXPECT_EQ(server.connection_count(), 1U);
}

TEST(Client, SaysThatItHadToConnectAgain) {
  const ScriptedServer server({{ReadRequest(), Send(kWholeStream)}});
  Connection kept;
  Ask(SpecFor(server.url()), &kept);
  ASSERT_TRUE(kept.open());
  server.Log(0);  // the server has closed
  RealClock().SleepFor(20 * kMs);
  const Exchange second = Ask(SpecFor(server.url()), &kept);
  EXPECT_EQ(second.outcome, Outcome::kOk);
  EXPECT_FALSE(*second.connection.reused);
  EXPECT_TRUE(second.marks.connected.has_value());
  EXPECT_THAT(second.stream.faults, Contains("reconnect"));
  EXPECT_THAT(Codes(second), Contains("reconnect"));
  EXPECT_EQ(server.connection_count(), 2U);
}

TEST(Client, SendsNothingAgainWhenAKeptConnectionDiesUnderTheRequest) {
  const ScriptedServer server({{ReadRequest(), Send(kWholeStream), ReadRequest()}});
  Connection kept;
  Ask(SpecFor(server.url()), &kept);
  const Exchange second = Ask(SpecFor(server.url()), &kept);
  EXPECT_EQ(second.outcome, Outcome::kTruncated);
  EXPECT_THAT(Codes(second), Contains("kept_connection_closed"));
  EXPECT_FALSE(kept.open());
  EXPECT_EQ(server.connection_count(), 1U);
}

TEST(Client, KeepsNoConnectionThatCannotBeUsedAgain) {
  for (const std::string& bytes :
       {Head("Connection: close\r\nContent-Type: text/event-stream\r\n") + Token("x") + kFinish,
        Head("Content-Length: 2\r\n", "500 Oops") + "noX",
        Head("Connection: close\r\nContent-Length: 2\r\n", "500 Oops") + "no"}) {
    const ScriptedServer server({{ReadRequest(), Send(bytes)}});
    Connection kept;
    Ask(SpecFor(server.url()), &kept);
    EXPECT_FALSE(kept.open()) << bytes;
  }
}

TEST(Client, WarnsOfALocalhostWithTwoFamilies) {
  const ScriptedServer server({{ReadRequest(), Send(kWholeStream)}});
  const Exchange exchange = Ask(SpecFor("http://localhost:" + std::to_string(server.port())));
  ASSERT_EQ(exchange.outcome, Outcome::kOk) << exchange.outcome_detail;
  EXPECT_EQ(exchange.connection.family, "ipv4");
  const bool warned = Codes(exchange) == std::vector<std::string>{"localhost_two_families"};
  EXPECT_EQ(warned, exchange.connection.two_families);
}

TEST(Client, VerifiesCertificatesUnlessToldOtherwise) {
  const ScriptedServer server(
      {{ReadRequest(), Send(Head(kEventStream)), PauseFor(20 * kMs), Send(Chunk(Token("x"))),
        PauseFor(20 * kMs), Send(Chunk(kFinish + kDone) + std::string(kLastChunk))}},
      {.family = ServerOptions::Family::kIpv4, .tls = true});
  RequestSpec spec = SpecFor(server.url());
  const Exchange refused = Ask(spec);
  EXPECT_EQ(refused.outcome, Outcome::kConnectError);
  EXPECT_THAT(refused.outcome_detail, HasSubstr("certificate"));
  EXPECT_FALSE(refused.marks.connected.has_value());
  EXPECT_TRUE(refused.marks.tcp_connected.has_value());

  spec.insecure_tls = true;
  const Exchange insecure = Ask(spec);
  ASSERT_EQ(insecure.outcome, Outcome::kOk) << insecure.outcome_detail;
  EXPECT_THAT(insecure.connection.tls, HasSubstr("TLSv1."));
  EXPECT_LT(*insecure.marks.tcp_connected, *insecure.marks.connected);
  const int64_t late_ns = *insecure.marks.first_token - server.Log(1).sends[1].before;
  EXPECT_GE(late_ns, 0);
  EXPECT_LT(late_ns, kSlackNs);

  setenv("SSL_CERT_FILE", server.certificate_file().c_str(), 1);
  spec.insecure_tls = false;
  const Exchange trusted = Ask(spec);
  EXPECT_EQ(trusted.outcome, Outcome::kOk) << trusted.outcome_detail;
  unsetenv("SSL_CERT_FILE");
}

TEST(Client, ChecksTheNameInTheCertificate) {
  const ScriptedServer server({{ReadRequest(), Send(kWholeStream)}},
                              {.family = ServerOptions::Family::kIpv4, .tls = true});
  setenv("SSL_CERT_FILE", server.certificate_file().c_str(), 1);
  const Exchange by_name = Ask(SpecFor("https://localhost:" + std::to_string(server.port())));
  EXPECT_EQ(by_name.outcome, Outcome::kOk) << by_name.outcome_detail;
  const Exchange other = Ask(SpecFor("https://ip6-localhost:" + std::to_string(server.port())));
  unsetenv("SSL_CERT_FILE");
  EXPECT_EQ(other.outcome, Outcome::kConnectError);
}

TEST(Client, KeepsATlsConnectionInSpiteOfSessionTickets) {
  const ScriptedServer server(
      {{ReadRequest(), Send(kWholeStream), ReadRequest(), Send(kWholeStream)}},
      {.family = ServerOptions::Family::kIpv4, .tls = true});
  RequestSpec spec = SpecFor(server.url());
  spec.insecure_tls = true;
  Connection kept;
  Ask(spec, &kept);
  const Exchange second = Ask(spec, &kept);
  EXPECT_EQ(second.outcome, Outcome::kOk) << second.outcome_detail;
  EXPECT_TRUE(*second.connection.reused);
}

TEST(Client, MasksSecretsThatTheServerRepeats) {
  const std::string secret = "sk-very\"secret-0123";
  const std::string body = "{\"error\":{\"message\":\"wrong key sk-very\\\"secret-0123 given\"}}";
  const ScriptedServer server(
      {{ReadRequest(),
        Send(Head("Content-Length: " + std::to_string(body.size()) + "\r\n", "401 No") +
             body.substr(0, 40)),
        PauseFor(30 * kMs), Send(body.substr(40))}});
  RequestSpec spec = SpecFor(server.url());
  spec.headers = {{"Authorization", "Bearer " + secret}};
  spec.keep_raw = true;
  const Exchange exchange = Ask(spec);
  EXPECT_EQ(exchange.outcome, Outcome::kHttpError);
  EXPECT_THAT(exchange.outcome_detail, HasSubstr("wrong key **"));
  EXPECT_THAT(exchange.outcome_detail, Not(HasSubstr("secret-0123")));
  std::string all;
  for (const ReadStamp& read : exchange.reads) {
    EXPECT_EQ(read.bytes, static_cast<int64_t>(read.data.size()));
    all += read.data;
  }
  EXPECT_THAT(all, Not(HasSubstr("secret-0123")));
}

TEST(Prepare, RefusesWhatCannotBeSent) {
  const auto code_of = [](const std::function<void(RequestSpec&)>& change) {
    RequestSpec spec = SpecFor("http://127.0.0.1:1");
    change(spec);
    const Result<PreparedRequest> request = Prepare(spec);
    return request.ok() ? std::optional<ErrorCode>() : request.error().code();
  };
  EXPECT_EQ(code_of([](RequestSpec&) {}), std::nullopt);
  const std::vector<std::function<void(RequestSpec&)>> changes = {
      [](RequestSpec& s) { s.url = "nonsense"; },
      [](RequestSpec& s) { s.headers = {{"A B", "x"}}; },
      [](RequestSpec& s) { s.headers = {{"", "x"}}; },
      [](RequestSpec& s) { s.headers = {{"A", "x\r\nB: y"}}; },
      [](RequestSpec& s) { s.headers = {{"Content-Length", "3"}}; },
      [](RequestSpec& s) { s.max_tokens = 0; },
      [](RequestSpec& s) { s.prompt = "\xFF"; },
      [](RequestSpec& s) { s.extra_body_json = "[1]"; },
      [](RequestSpec& s) { s.extra_body_json = "{"; },
      [](RequestSpec& s) { s.timeouts.total_ns = 0; },
      [](RequestSpec& s) { s.limits.event_bytes = 0; },
      [](RequestSpec& s) {
        s.url += "/api/chat";
        s.api = Api::kOpenAiChat;
      },
  };
  for (size_t i = 0; i < changes.size(); ++i)
    EXPECT_EQ(code_of(changes[i]), ErrorCode::kUsage) << i;
}

TEST(Prepare, SelectsTheApiByTheFullEndpoint) {
  const auto prepared = [](const std::string& url, std::optional<Api> api) {
    RequestSpec spec = SpecFor(url);
    spec.api = api;
    return Prepare(spec).value();
  };
  EXPECT_EQ(prepared("http://127.0.0.1:1/v1/messages", {}).api(), Api::kAnthropic);
  EXPECT_EQ(prepared("http://127.0.0.1:1/api/generate?x=1", {}).api(), Api::kOllamaGenerate);
  EXPECT_EQ(prepared("http://127.0.0.1:1/completion", {}).api(), Api::kLlamaCompletion);
  const PreparedRequest base = prepared("http://127.0.0.1:1/v1?key=s", Api::kOllamaChat);
  EXPECT_EQ(base.display_url(), "http://127.0.0.1:1/api/chat");
}

}  // namespace
}  // namespace rouse::wire
