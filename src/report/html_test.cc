#include "report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/page_pack.h"
#include "results/example_attempt.h"

namespace rouse::report {
namespace {

using nlohmann::json;
using results::Attempt;
using results::Outcome;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kHostile = "</script><script>alert(1)</script><!--\"'&";

results::Run HostileRun() {
  results::Run run;
  run.id = 7;
  run.name = kHostile;
  run.kind = "measure";
  run.status = "complete";
  run.rouse_version = "0";
  results::ConditionRow condition;
  condition.name = kHostile;
  run.conditions.push_back(condition);
  return run;
}

std::vector<Attempt> HostileAttempts() {
  Attempt attempt = results::ExampleAttempt();
  attempt.condition = kHostile;
  attempt.prime = false;
  Attempt failed = attempt;
  failed.id = *attempt.id + 1;
  failed.outcome = Outcome::kTimeout;
  failed.outcome_detail = kHostile;
  failed.ttft_ns.reset();
  return {attempt, failed};
}

std::string DataOf(const std::string& html) {
  const std::string open = "<script type=\"application/json\" id=\"rouse-data\">";
  const size_t from = html.find(open) + open.size();
  return html.substr(from, html.find("</script>", from) - from);
}

TEST(ReportPage, NamesCannotEndTheElementThatHoldsTheData) {
  if (!CheckPage().ok()) GTEST_SKIP() << "built without the page";
  const std::string written = PageJson(HostileRun(), HostileAttempts());
  const Result<std::string> html = PageHtml(PageTitle(HostileRun()), written);
  ASSERT_TRUE(html.ok()) << html.error().message();
  EXPECT_THAT(*html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(*html, HasSubstr("<title>Run 7, &lt;/script&gt;"));
  const json data = json::parse(DataOf(*html));
  EXPECT_EQ(data, json::parse(written));
  EXPECT_EQ(data["report"]["name"], kHostile);
  EXPECT_EQ(data["attempts"]["conditions"][0], kHostile);
}

TEST(ReportPage, HoldsEveryAttemptAsAPlaceInEachColumn) {
  const json data = json::parse(PageJson(HostileRun(), HostileAttempts()));
  const json& attempts = data["attempts"];
  EXPECT_EQ(attempts["n"], 2);
  for (const char* column : {"id", "condition", "outcome", "prime", "cold", "block", "position"}) {
    EXPECT_EQ(attempts[column].size(), 2) << column;
  }
  for (const auto& [name, values] : attempts["values"].items()) {
    EXPECT_EQ(values.size(), 2) << name;
  }
  EXPECT_EQ(attempts["values"]["ttft_ns"][0], *HostileAttempts()[0].ttft_ns);
  EXPECT_TRUE(attempts["values"]["ttft_ns"][1].is_null());
  EXPECT_EQ(attempts["outcomes"][attempts["outcome"][1].get<size_t>()], "timeout");
  EXPECT_EQ(attempts["outcome_detail"]["1"], kHostile);
  EXPECT_EQ(attempts["details"].size(), 1);
}

TEST(ReportPage, ARunWithoutAttemptsIsAPageToo) {
  const json data = json::parse(PageJson(HostileRun(), {}));
  EXPECT_EQ(data["attempts"]["n"], 0);
  EXPECT_TRUE(data["explanation"].is_null());
  EXPECT_EQ(data["report"]["conditions"][0]["n"], 0);
}

TEST(ReportPage, CarriesTheCatalogueThatTheBinaryHas) {
  const json data = json::parse(PageJson(HostileRun(), {}));
  ASSERT_EQ(data["catalogue"].size(), results::Metrics().size());
  EXPECT_EQ(data["catalogue"][0]["name"], "ttft_ns");
  EXPECT_EQ(data["stages"].size(), results::kStageCount);
}

TEST(ReportPage, AShellAsksOnlyItsOwnOriginAndAFileNobody) {
  if (!CheckPage().ok()) GTEST_SKIP() << "built without the page";
  EXPECT_THAT(*PageHtml("t", "{}"), HasSubstr("connect-src 'none'"));
  const std::string shell =
      *PageShell("t", {.data = "/api/\"><script>", .events = "", .home = "/"});
  EXPECT_THAT(shell, HasSubstr("connect-src 'self'"));
  EXPECT_THAT(shell, HasSubstr("data-home=\"/\""));
  EXPECT_THAT(shell, Not(HasSubstr("data-events")));
  EXPECT_THAT(shell, HasSubstr("data-source=\"/api/&quot;&gt;&lt;script&gt;\""));
}

TEST(ReportPage, TheListOfRunsAllowsItsOwnScriptAndItsOwnOriginOnly) {
  if (!CheckPage().ok()) GTEST_SKIP() << "built without the page";
  const std::string page(*RunsPage());
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(page, HasSubstr("connect-src 'self'"));
  EXPECT_THAT(page, Not(HasSubstr("unsafe-inline")));
  EXPECT_THAT(page, Not(HasSubstr("<!--ROUSE:")));
}

TEST(ReportPage, GzipComesAsBase64) {
  // Gzip's two magic bytes and deflate's method begin with these letters.
  EXPECT_THAT(GzipBase64("rouse"), testing::StartsWith("H4sI"));
  EXPECT_EQ(GzipBase64("rouse").size() % 4, 0);
  EXPECT_LT(GzipBase64(std::string(100'000, 'a')).size(), 1000);
}

}  // namespace
}  // namespace rouse::report
