// The signs that no recorded stream can show: those of connections. The others stand in
// fixtures_test.cc.
#include "wire/detectors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rouse::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Codes(Exchange exchange) {
  AddWarnings(exchange);
  std::vector<std::string> codes;
  for (const Warning& warning : exchange.warnings) {
    codes.push_back(warning.code);
    EXPECT_FALSE(warning.message.empty());
  }
  return codes;
}

// 20 tokens, one every 10 ms, after 100 ms.
Exchange Good() {
  Exchange exchange;
  exchange.outcome = Outcome::kOk;
  exchange.http_status = 200;
  exchange.marks.send_start = {0};
  exchange.marks.connected = MonoTime{50'000};
  exchange.marks.request_sent = MonoTime{60'000};
  for (int i = 0; i < 20; ++i) {
    exchange.events.push_back(
        {{100 * kNsPerMs + i * 10 * kNsPerMs}, 5, EventClass::kToken, Channel::kContent});
  }
  exchange.stream.token_events = 20;
  exchange.marks.first_token = exchange.events.front().at;
  exchange.marks.last_token = exchange.events.back().at;
  exchange.connection.round_trip_ns = 30'000;
  exchange.connection.reused = false;
  return exchange;
}

TEST(Detectors, SayNothingOfAGoodExchange) { EXPECT_THAT(Codes(Good()), IsEmpty()); }

TEST(Detectors, SeeALateBurstOnlyAboveNineTenths) {
  Exchange exchange = Good();
  for (size_t i = 2; i < 20; ++i) exchange.events[i].at = *exchange.marks.last_token;
  EXPECT_THAT(Codes(exchange), IsEmpty());  // 18 of 20
  exchange.events[1].at = *exchange.marks.last_token + -kNsPerMs;
  EXPECT_THAT(Codes(exchange), ElementsAre("late_burst"));  // 19 of 20, one of them 1 ms before
}

TEST(Detectors, WarnOfTwoFamiliesAndOfFaults) {
  Exchange exchange = Good();
  exchange.connection.two_families = true;
  exchange.stream.faults = {"reconnect", "connect_fallback"};
  EXPECT_THAT(Codes(exchange),
              ElementsAre("localhost_two_families", "reconnect", "connect_fallback"));
}

TEST(Detectors, KnowThatATokenNeedsARoundTrip) {
  Exchange exchange = Good();
  exchange.marks.first_token = MonoTime{79'000};
  EXPECT_THAT(Codes(exchange), ElementsAre("ttft_below_round_trip"));
  exchange.marks.first_token = MonoTime{80'000};
  EXPECT_THAT(Codes(exchange), IsEmpty());
  exchange.marks.first_token = MonoTime{59'000};
  EXPECT_THAT(Codes(exchange), ElementsAre("token_before_request"));
}

TEST(Detectors, SeeAKeptConnectionThatDied) {
  Exchange exchange = Good();
  exchange.outcome = Outcome::kTruncated;
  exchange.http_status.reset();
  EXPECT_THAT(Codes(exchange), IsEmpty());
  exchange.connection.reused = true;
  EXPECT_THAT(Codes(exchange), ElementsAre("kept_connection_closed"));
}

TEST(Detectors, SeeLoadingTextButNotAnAnswerAboutModels) {
  Exchange exchange = Good();
  exchange.reasoning_text = "The user asks about a model that loads slowly.";
  EXPECT_THAT(Codes(exchange), IsEmpty());
  exchange.reasoning_text = "Loading model qwen3 ...";
  EXPECT_THAT(Codes(exchange), ElementsAre("loading_text"));
}

}  // namespace
}  // namespace rouse::wire
