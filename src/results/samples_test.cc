#include "results/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace rouse::results {
namespace {

using ::testing::HasSubstr;

std::string Refused(const std::string& json) {
  const Result<Samples> samples = ParseSamples(json);
  return samples.ok() ? "accepted" : samples.error().message();
}

TEST(Samples, ReadBackWhatTheyWrote) {
  Samples samples;
  samples.at_ns = {-200, 20'000'000, 40'000'000};
  samples.totals["target_major_faults"] = {0, std::nullopt, 7};
  samples.page_cache = {"0000", "0000", "9920"};
  const std::string text = SamplesJson(samples);
  EXPECT_THAT(text, HasSubstr(R"("page_cache":["0000","","9920"])"));
  const Result<Samples> back = ParseSamples(text);
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(back->at_ns, samples.at_ns);
  EXPECT_EQ(back->totals, samples.totals);
  EXPECT_EQ(back->page_cache, samples.page_cache);
}

TEST(Samples, MayHaveNoPageCacheAndMayBeEmpty) {
  EXPECT_EQ(Refused(R"({"at_ns":[]})"), "accepted");
  EXPECT_EQ(Refused(R"({"at_ns":[1,1],"totals":{"a":[0,5]},"page_cache":[]})"), "accepted");
  EXPECT_EQ(Refused(R"({"at_ns":[1],"page_cache":null})"), "accepted");
}

TEST(Samples, AreRefusedWhenAListDoesNotFit) {
  EXPECT_THAT(Refused("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(Refused("{"), HasSubstr("must be an object"));
  EXPECT_THAT(Refused("{}"), HasSubstr("at_ns"));
  EXPECT_THAT(Refused(R"({"at_ns":[2,1]})"), HasSubstr("do not go back"));
  EXPECT_THAT(Refused(R"({"at_ns":[1,null]})"), HasSubstr("do not go back"));
  EXPECT_THAT(Refused(R"({"at_ns":[1.5]})"), HasSubstr("whole numbers"));
  EXPECT_THAT(Refused(R"({"at_ns":[1],"totals":{"a":[]}})"), HasSubstr("totals.a"));
  EXPECT_THAT(Refused(R"({"at_ns":[1],"totals":{"a":["x"]}})"), HasSubstr("totals.a"));
  EXPECT_THAT(Refused(R"({"at_ns":[1],"totals":[]})"), HasSubstr("totals"));
  EXPECT_THAT(Refused(R"({"at_ns":[1,2],"page_cache":["01"]})"), HasSubstr("as long as"));
  EXPECT_THAT(Refused(R"({"at_ns":[1,2],"page_cache":["01","0"]})"), HasSubstr("equally many"));
  EXPECT_THAT(Refused(R"({"at_ns":[1],"page_cache":["0x"]})"), HasSubstr("equally many"));
  EXPECT_THAT(Refused(R"({"at_ns":[1],"page_cache":[7]})"), HasSubstr("texts of digits"));
}

}  // namespace
}  // namespace rouse::results
