// What is told of the page cache; the rest is in model_server_state_test.cc.
#include "server/state.h"

#include <gtest/gtest.h>

#include "server/json_text.h"

namespace rouse::server {
namespace {

ServerSnapshot Snapshot() {
  ServerSnapshot snapshot;
  snapshot.model = std::make_shared<const ModelInfo>(ModelInfo{"m", "/m", {"/m"}, 1000, {}});
  snapshot.worker = std::make_shared<const WorkerSnapshot>();
  snapshot.facts = std::make_shared<const engine::EngineFacts>();
  return snapshot;
}

Json Entry(const Result<ModelResidency>& residency) {
  return Json::parse(StateJson(Snapshot(), residency))["models"][0];
}

std::string Word(double low, double high) {
  ModelResidency residency;
  residency.file_bytes = 1000;
  residency.exact = low == high;
  residency.bounds = {low, high};
  return Entry(residency)["layers"]["page_cache"];
}

TEST(StateJson, NamesOnlyWhatHoldsAtBothEndsOfTheInterval) {
  EXPECT_EQ(Word(0.01, 0.01), "cold");
  EXPECT_EQ(Word(0.99, 0.99), "warm");
  EXPECT_EQ(Word(0.5, 0.5), "partial");
  EXPECT_EQ(Word(0, 0.0072), "cold");
  EXPECT_EQ(Word(0, 0.0101), "unknown");
  EXPECT_EQ(Word(0.011, 0.02), "partial");
  EXPECT_EQ(Word(0.97, 0.995), "unknown");
  EXPECT_EQ(Word(0.9928, 1), "warm");
}

TEST(StateJson, TellsASampleAsAnEstimateAndNoShare) {
  ModelResidency residency;
  residency.file_bytes = 1000;
  residency.resident_bytes = 250;
  residency.exact = false;
  residency.bounds = {0.2, 0.3};
  residency.sampled_pages = 512;
  residency.proof = "sampled";
  const Json entry = Entry(residency);
  EXPECT_TRUE(entry["resident_ratio"].is_null());
  EXPECT_FALSE(entry["null_reasons"].value("resident_ratio", "").empty());
  EXPECT_EQ(entry["estimate"], Json::parse(R"({"resident_ratio": 0.25, "low": 0.2, "high": 0.3,
                                               "confidence": 0.95, "sampled_pages": 512})"));
  EXPECT_TRUE(entry["layer_details"]["page_cache"]["resident_bytes"].is_null());
  EXPECT_EQ(ReadGauges(Snapshot(), residency).resident_ratio, std::nullopt);

  residency.exact = true;
  const Json exact = Entry(residency);
  EXPECT_EQ(exact["resident_ratio"], 0.25);
  EXPECT_TRUE(exact["estimate"].is_null());
  EXPECT_EQ(ReadGauges(Snapshot(), residency).resident_ratio, 0.25);
}

}  // namespace
}  // namespace rouse::server
