// The HTTP server over real loopback sockets.
#include "http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "http/test_client.h"

namespace rouse::http {
namespace {

using test::Client;
using test::Signal;

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Get(const std::string& path, const std::string& more = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: h\r\n" + more + "\r\n";
}

std::string Post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

std::unique_ptr<Server> Serve(Handler handler, ServerOptions options = {}) {
  auto server = Server::Listen(std::move(options));
  EXPECT_TRUE(server.ok());
  (*server)->Start(std::move(handler));
  return std::move(*server);
}

void Echo(const Request& request, const std::shared_ptr<ResponseWriter>& writer) {
  Response response;
  response.content_type = "text/plain";
  response.body = request.method + " " + request.path + " [" + request.body + "]";
  writer->Send(std::move(response));
}

TEST(HttpServer, AnswersManyRequestsOnOneConnection) {
  const auto server = Serve(Echo);
  Client client(server->port());
  for (int count = 0; count < 50; ++count) {
    client.Say(Post("/p", std::to_string(count)));
    EXPECT_THAT(client.HearUntil("]"), EndsWith("POST /p [" + std::to_string(count) + "]"));
  }
  EXPECT_EQ(server->ConnectionCount(), 1);
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  const auto server = Serve(Echo);
  Client client(server->port());
  client.Say(Post("/1", "a") + Get("/2") + Post("/3", "c"));
  EXPECT_THAT(client.HearUntil("]"), EndsWith("POST /1 [a]"));
  EXPECT_THAT(client.HearUntil("]"), EndsWith("GET /2 []"));
  EXPECT_THAT(client.HearUntil("]"), EndsWith("POST /3 [c]"));
}

TEST(HttpServer, AnswersARequestThatComesByteByByte) {
  const auto server = Serve(Echo);
  Client client(server->port());
  for (const char byte : Post("/slow", "body")) client.Say(std::string(1, byte));
  EXPECT_THAT(client.HearUntil("]"), EndsWith("POST /slow [body]"));
}

TEST(HttpServer, AnswersAClientThatHasFinishedSending) {
  const auto server = Serve(Echo);
  Client client(server->port());
  client.Say(Get("/half"));
  client.HalfClose();
  EXPECT_THAT(client.HearAll(), EndsWith("GET /half []"));
}

TEST(HttpServer, SendsNoBodyForHead) {
  const auto server = Serve(Echo);
  Client client(server->port());
  client.Say("HEAD /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string heard = client.HearAll();
  EXPECT_THAT(heard, HasSubstr("Content-Length: 10\r\n"));
  EXPECT_THAT(heard, EndsWith("\r\n\r\n"));
}

TEST(HttpServer, StampsArrivalAndDeparture) {
  RequestTimes first;
  RequestTimes second;
  ResponseTimes left;
  Signal stamped[2];
  int count = 0;
  const auto server =
      Serve([&](const Request& request, const std::shared_ptr<ResponseWriter>& writer) {
        (count == 0 ? first : second) = request.times;
        writer->Send({.body = "[]"});
        left = writer->Times();
        stamped[count++].Set();
      });
  const MonoTime before = MonoNow();
  Client client(server->port());
  client.Say("GET / HTTP/1.1\r\n");
  ::usleep(20'000);
  client.Say("Host: h\r\n\r\n");
  client.HearUntil("[]");
  ASSERT_TRUE(stamped[0].Wait());
  const MonoTime between = MonoNow();
  client.Say(Get("/"));
  client.HearUntil("[]");
  // The client may have read the answer before send() returned to the server.
  ASSERT_TRUE(stamped[1].Wait());
  const MonoTime after = MonoNow();

  EXPECT_LE(before, first.accepted);
  EXPECT_LE(first.accepted, first.first_byte);
  EXPECT_GE(first.complete - first.first_byte, 15 * kNsPerMs);
  EXPECT_EQ(first.Start(), first.accepted);
  EXPECT_FALSE(second.first_on_connection);
  EXPECT_EQ(second.Start(), second.first_byte);
  EXPECT_EQ(second.accepted, first.accepted);
  EXPECT_LE(between, second.first_byte);
  ASSERT_TRUE(left.first_write.has_value());
  EXPECT_LE(second.complete, *left.first_write);
  EXPECT_LE(*left.first_write, after);
  EXPECT_EQ(left.first_write, left.last_write);
}

TEST(HttpServer, StreamsChunksAsTheyAreWritten) {
  std::shared_ptr<ResponseWriter> kept;
  Signal begun;
  const auto server = Serve([&](const Request& request, std::shared_ptr<ResponseWriter> writer) {
    if (request.path == "/again") return Echo(request, writer);
    kept = std::move(writer);
    begun.Set();
  });
  Client client(server->port());
  client.Say(Get("/"));
  ASSERT_TRUE(begun.Wait());
  kept->Begin({.content_type = "text/event-stream"});
  EXPECT_FALSE(kept->Times().first_write.has_value());
  EXPECT_TRUE(kept->Write("one"));
  EXPECT_TRUE(kept->Times().first_write.has_value());
  const std::string first = client.HearUntil("one\r\n");
  EXPECT_THAT(first, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(first, EndsWith("\r\n\r\n3\r\none\r\n"));
  EXPECT_TRUE(kept->Write("second"));
  EXPECT_EQ(client.HearUntil("second\r\n"), "6\r\nsecond\r\n");
  kept->End();
  EXPECT_EQ(client.HearUntil("0\r\n\r\n"), "0\r\n\r\n");
  kept.reset();
  // The connection is good for another request.
  client.Say(Get("/again"));
  EXPECT_THAT(client.HearUntil("]"), EndsWith("GET /again []"));
}

TEST(HttpServer, StreamsToHttp10WithoutChunks) {
  const auto server = Serve([](const Request&, const std::shared_ptr<ResponseWriter>& writer) {
    writer->Begin({});
    writer->Write("one ");
    writer->Write("two");
    writer->End();
  });
  Client client(server->port());
  client.Say("GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(client.HearAll(), EndsWith("Connection: close\r\n\r\none two"));
}

TEST(HttpServer, TellsTheWriterThatTheClientHungUp) {
  std::shared_ptr<ResponseWriter> kept;
  Signal begun;
  Signal gone;
  const auto server = Serve([&](const Request&, std::shared_ptr<ResponseWriter> writer) {
    writer->OnClientGone([&] { gone.Set(); });
    kept = std::move(writer);
    begun.Set();
  });
  Client client(server->port());
  client.Say(Get("/"));
  ASSERT_TRUE(begun.Wait());
  EXPECT_FALSE(kept->ClientGone());
  client.HangUp();
  EXPECT_TRUE(gone.Wait());
  EXPECT_TRUE(kept->ClientGone());
  kept->Begin({});
  EXPECT_FALSE(kept->Write("too late"));
  // A callback that is set now runs at once.
  Signal at_once;
  kept->OnClientGone([&] { at_once.Set(); });
  EXPECT_TRUE(at_once.Wait(0));
}

TEST(HttpServer, ForgetsTheCallbackOfACompleteResponse) {
  std::atomic<bool> called = false;
  Signal done;
  const auto server = Serve([&](const Request&, const std::shared_ptr<ResponseWriter>& writer) {
    writer->OnClientGone([&] { called = true; });
    writer->Send({.body = "[]"});
    writer->OnClientGone([&] { called = true; });
    done.Set();
  });
  Client client(server->port());
  client.Say(Get("/"));
  client.HearUntil("[]");
  ASSERT_TRUE(done.Wait());
  client.HangUp();
  for (int tries = 0; tries < 1000 && server->ConnectionCount() > 0; ++tries) ::usleep(1000);
  EXPECT_EQ(server->ConnectionCount(), 0);
  EXPECT_FALSE(called);
}

TEST(HttpServer, CutsAReaderThatIsTooSlow) {
  std::shared_ptr<ResponseWriter> kept;
  Signal begun;
  Signal gone;
  const auto server = Serve(
      [&](const Request&, std::shared_ptr<ResponseWriter> writer) {
        writer->OnClientGone([&] { gone.Set(); });
        kept = std::move(writer);
        begun.Set();
      },
      {.write_buffer_limit_bytes = 64 * 1024});
  Client client(server->port(), 4096);
  client.Say(Get("/"));
  ASSERT_TRUE(begun.Wait());
  kept->Begin({});
  const std::string part(16 * 1024, 'x');
  int written = 0;
  while (written < 10'000 && kept->Write(part)) ++written;
  EXPECT_LT(written, 10'000);
  EXPECT_TRUE(gone.Wait());
  EXPECT_TRUE(kept->ClientGone());
}

TEST(HttpServer, BuffersForAReaderThatIsALittleSlow) {
  Signal written;
  std::thread writing;
  const std::string part(1000, '#');
  const auto server = Serve([&](const Request&, std::shared_ptr<ResponseWriter> writer) {
    writing = std::thread([&, writer] {
      writer->Begin({});
      for (int count = 0; count < 3000; ++count) EXPECT_TRUE(writer->Write(part));
      writer->End();
      written.Set();
    });
  });
  Client client(server->port(), 4096);
  client.Say(Get("/", "Connection: close\r\n"));
  ASSERT_TRUE(written.Wait());
  const std::string heard = client.HearAll();
  writing.join();
  EXPECT_THAT(heard, EndsWith("\r\n0\r\n\r\n"));
  EXPECT_EQ(std::count(heard.begin(), heard.end(), '#'), 3'000'000);
}

TEST(HttpServer, GivesUpOnAReaderThatTakesNothing) {
  Signal gone;
  const auto server = Serve(
      [&](const Request&, const std::shared_ptr<ResponseWriter>& writer) {
        writer->OnClientGone([&] { gone.Set(); });
        writer->Send({.body = std::string(64 << 20, 'x')});
      },
      {.write_stall_timeout_ns = 100 * kNsPerMs});
  Client client(server->port(), 4096);
  client.Say(Get("/"));
  EXPECT_TRUE(gone.Wait());
}

TEST(HttpServer, AbortLooksDifferentFromAnEnd) {
  const auto server = Serve([](const Request&, const std::shared_ptr<ResponseWriter>& writer) {
    writer->Begin({});
    writer->Write("part");
    writer->Abort();
  });
  Client client(server->port());
  client.Say(Get("/"));
  EXPECT_THAT(client.HearAll(), EndsWith("4\r\npart\r\n"));
}

TEST(HttpServer, AnswersForAHandlerThatDropsItsWriter) {
  const auto server = Serve([](const Request&, const std::shared_ptr<ResponseWriter>&) {});
  Client client(server->port());
  client.Say(Get("/"));
  EXPECT_THAT(client.HearUntil("\r\n"), StartsWith("HTTP/1.1 500 "));
}

TEST(HttpServer, RefusesALargeBodyWithAnAnswerAlthoughTheClientGoesOnSending) {
  const auto server = Serve(Echo, {.body_limit_bytes = 1000});
  Client client(server->port());
  client.Say("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4000000\r\n\r\n");
  client.Say(std::string(4'000'000, 'x'));
  client.HalfClose();
  const std::string heard = client.HearAll();
  EXPECT_THAT(heard, StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(heard, HasSubstr("1000 bytes"));
  EXPECT_THAT(heard, HasSubstr("Connection: close"));
}

TEST(HttpServer, RefusesLongHeaders) {
  const auto server = Serve(Echo);
  Client client(server->port());
  client.Say("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(70'000, 'x') + "\r\n\r\n");
  EXPECT_THAT(client.HearUntil("\r\n"), StartsWith("HTTP/1.1 431 "));
}

TEST(HttpServer, RefusesNonsenseWithAnErrorObject) {
  const auto server = Serve(Echo);
  Client client(server->port());
  client.Say("nonsense\r\n\r\n");
  const std::string heard = client.HearAll();
  EXPECT_THAT(heard, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(heard, HasSubstr("{\"error\":{\"message\":\"not a valid HTTP request"));
}

TEST(HttpServer, RendersItsErrorsAsTheOwnerLikes) {
  const auto server = Serve(Echo, {.render_error = [](int status, std::string_view) {
                              return Response{.status = status, .body = "mine"};
                            }});
  Client client(server->port());
  client.Say("nonsense\r\n\r\n");
  EXPECT_THAT(client.HearAll(), EndsWith("mine"));
}

TEST(HttpServer, EndsARequestThatDripsInTooSlowly) {
  const auto server = Serve(Echo, {.request_timeout_ns = 150 * kNsPerMs});
  Client client(server->port());
  std::atomic<bool> stop = false;
  // Bytes keep coming: only a limit on the whole request ends this.
  std::thread dripping([&] {
    client.Say("GET / HTTP/1.1\r\nHost: h\r\nX: ");
    while (!stop) {
      client.Say("x");
      ::usleep(10'000);
    }
  });
  EXPECT_THAT(client.HearAll(), StartsWith("HTTP/1.1 408 "));
  stop = true;
  dripping.join();
}

TEST(HttpServer, ClosesAConnectionThatIdles) {
  const auto server = Serve(Echo, {.idle_timeout_ns = 50 * kNsPerMs});
  Client silent(server->port());
  EXPECT_EQ(silent.HearAll(), "");
  Client once(server->port());
  once.Say(Get("/"));
  EXPECT_THAT(once.HearAll(), EndsWith("[]"));
}

TEST(HttpServer, LetsAClientWaitForContinue) {
  const auto server = Serve(Echo);
  Client client(server->port());
  client.Say("POST /e HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.HearUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Say("ok");
  EXPECT_THAT(client.HearUntil("]"), EndsWith("POST /e [ok]"));
}

TEST(HttpServer, RefusesMoreConnectionsThanItsLimit) {
  const auto server = Serve(Echo, {.connection_limit = 2});
  Client first(server->port());
  Client second(server->port());
  first.Say(Get("/"));
  EXPECT_THAT(first.HearUntil("]"), EndsWith("[]"));
  second.Say(Get("/"));
  EXPECT_THAT(second.HearUntil("]"), EndsWith("[]"));
  Client third(server->port());
  EXPECT_THAT(third.HearAll(), StartsWith("HTTP/1.1 503 "));
}

TEST(HttpServer, NamesThePortFlagWhenThePortIsTaken) {
  const auto server = Serve(Echo);
  const auto second = Server::Listen({.port = server->port()});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kState);
  EXPECT_THAT(second.error().message(), HasSubstr("--port"));
  EXPECT_THAT(second.error().message(), HasSubstr(std::to_string(server->port())));
}

TEST(HttpServer, NamesTheHostFlagWhenTheHostIsWrong) {
  const auto nowhere = Server::Listen({.host = "192.0.2.1"});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(nowhere.error().message(), HasSubstr("--host"));
  const auto out_of_range = Server::Listen({.port = 70000});
  ASSERT_FALSE(out_of_range.ok());
  EXPECT_EQ(out_of_range.error().code(), ErrorCode::kUsage);
}

TEST(HttpServer, ListensOnIpv6) {
  const auto server = Server::Listen({.host = "::1"});
  if (!server.ok()) GTEST_SKIP() << "no IPv6 here: " << server.error().message();
  EXPECT_EQ((*server)->host(), "::1");
}

TEST(HttpServer, ServesWhatWasConnectedBeforeTheStart) {
  auto server = Server::Listen({});
  ASSERT_TRUE(server.ok());
  Client client((*server)->port());
  ASSERT_TRUE(client.connected());
  client.Say(Get("/early"));
  (*server)->Start(Echo);
  EXPECT_THAT(client.HearUntil("]"), EndsWith("GET /early []"));
}

TEST(HttpServer, DrainFinishesWhatRunsAndClosesWhatIdles) {
  std::shared_ptr<ResponseWriter> kept;
  Signal begun;
  Signal drained;
  const auto server = Serve([&](const Request& request, std::shared_ptr<ResponseWriter> writer) {
    if (request.path == "/quick") return Echo(request, writer);
    kept = std::move(writer);
    kept->Begin({});
    kept->Write("first");
    begun.Set();
  });
  Client idle(server->port());
  idle.Say(Get("/quick"));
  idle.HearUntil("]");
  Client busy(server->port());
  busy.Say(Get("/stream"));
  ASSERT_TRUE(begun.Wait());
  server->Drain([&] { drained.Set(); });
  EXPECT_EQ(idle.HearAll(), "");
  EXPECT_FALSE(drained.Wait(50 * kNsPerMs));
  EXPECT_FALSE(Client(server->port()).connected());
  EXPECT_TRUE(kept->Write("second"));
  kept->End();
  EXPECT_THAT(busy.HearAll(), EndsWith("5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n"));
  busy.HangUp();
  EXPECT_TRUE(drained.Wait());
}

TEST(HttpServer, StopCutsConnectionsAndWritersSurviveIt) {
  std::shared_ptr<ResponseWriter> kept;
  Signal begun;
  auto server = Serve([&](const Request&, std::shared_ptr<ResponseWriter> writer) {
    kept = std::move(writer);
    begun.Set();
  });
  Client client(server->port());
  client.Say(Get("/"));
  ASSERT_TRUE(begun.Wait());
  server.reset();
  EXPECT_TRUE(kept->ClientGone());
  kept->Begin({});
  EXPECT_FALSE(kept->Write("x"));
  EXPECT_EQ(client.HearAll(), "");
}

TEST(HttpServer, ManyThreadsMayAnswerAtOnce) {
  std::mutex mutex;
  std::vector<std::thread> threads;
  const auto server = Serve([&](const Request& request, std::shared_ptr<ResponseWriter> writer) {
    const std::lock_guard lock(mutex);
    threads.emplace_back([request, writer] {
      writer->Begin({});
      for (int count = 0; count < 50; ++count) writer->Write(request.path);
      writer->Write("]");
      writer->End();
    });
  });
  std::vector<std::thread> clients;
  for (int number = 0; number < 8; ++number) {
    clients.emplace_back([&, number] {
      Client client(server->port());
      for (int round = 0; round < 10; ++round) {
        client.Say(Get("/" + std::to_string(number)));
        const std::string heard = client.HearUntil("0\r\n\r\n");
        EXPECT_THAT(heard, HasSubstr("2\r\n/" + std::to_string(number) + "\r\n1\r\n]"));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  const std::lock_guard lock(mutex);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace rouse::http
