// The forms for other programs: CSV in long form, trace, benchstat, Prometheus, Markdown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/benchstat.h"
#include "report/csv.h"
#include "report/markdown.h"
#include "report/prometheus.h"
#include "report/trace.h"

namespace rouse::report {
namespace {

using nlohmann::json;
using results::Attempt;
using results::Outcome;
using results::Run;
using results::Stage;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = 1'000'000;
constexpr const char* kHostile = "a|b\"\\\n<script>`x`[y](z)\x1b[31m, 100%";

Attempt One(const std::string& condition, int64_t id, int64_t ttft_ns) {
  Attempt attempt;
  attempt.id = id;
  attempt.run = 3;
  attempt.condition = condition;
  attempt.block = id;
  attempt.ttft_ns = ttft_ns;
  attempt.marks.send_start = 0;
  attempt.marks.request_sent = kMs;
  attempt.marks.first_token = ttft_ns;
  attempt.marks.end = ttft_ns + kMs;
  attempt.stages[static_cast<size_t>(Stage::kPrefill)] = {ttft_ns, results::StageSource::kServer};
  return attempt;
}

Attempt Failure(const std::string& condition, int64_t id) {
  Attempt attempt;
  attempt.id = id;
  attempt.run = 3;
  attempt.condition = condition;
  attempt.outcome = Outcome::kTimeout;
  attempt.marks.end = 1000 * kMs;
  return attempt;
}

Run NamedRun(const std::string& name) {
  Run run;
  run.id = 3;
  run.name = name;
  run.kind = "measure";
  run.status = "complete";
  run.rouse_version = "0.1.0";
  return run;
}

TEST(StagesCsv, HasARowPerAttemptAndStage) {
  const std::string text =
      AttemptsCsv(std::vector<Attempt>{One("warm", 1, 5 * kMs)}, CsvTable::kStages);
  EXPECT_THAT(text, HasSubstr("run,id,condition,block,prime,outcome,ttft_ns,stage,ns,source,"
                              "null_reason\r\n"));
  EXPECT_THAT(text, HasSubstr("3,1,warm,1,0,ok,5000000,prefill,5000000,server,\r\n"));
  EXPECT_THAT(text, HasSubstr("3,1,warm,1,0,ok,5000000,queue,,,\r\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + results::kStageCount);
}

TEST(CountersCsv, TellsUnitAndWhyNothingWasMeasured) {
  Attempt attempt = One("warm", 1, kMs);
  attempt.counters["target_read_bytes"] = int64_t{7};
  attempt.counters["cpu_clock_hz"] = std::nullopt;
  attempt.null_reasons["cpu_clock_hz"] = "no sysfs, here";
  const std::string text = AttemptsCsv(std::vector<Attempt>{attempt}, CsvTable::kCounters);
  EXPECT_THAT(text, HasSubstr(",target_read_bytes,7,bytes,\r\n"));
  EXPECT_THAT(text, HasSubstr(",cpu_clock_hz,,hz,\"no sysfs, here\"\r\n"));
}

TEST(StatesCsv, HasARowPerMomentAndLayer) {
  Attempt attempt = One("warm", 1, kMs);
  attempt.state_before["page_cache"] = {0.5, "cachestat", "cold", false, "half \"resident\""};
  attempt.state_after["process"] = {std::string("new"), "pid", "", std::nullopt, ""};
  const std::string text = AttemptsCsv(std::vector<Attempt>{attempt}, CsvTable::kStates);
  EXPECT_THAT(text,
              HasSubstr(",before,page_cache,0.5,cachestat,cold,0,\"half \"\"resident\"\"\"\r\n"));
  EXPECT_THAT(text, HasSubstr(",after,process,new,pid,,,\r\n"));
}

TEST(TraceJson, KeepsSpansOfARowApartAndNamesEveryRow) {
  Attempt attempt = One("warm", 7, 100 * kMs);
  attempt.segments = {{Stage::kQueue, kMs, 2 * kMs}, {Stage::kPrefill, 2 * kMs, 99 * kMs}};
  attempt.lanes = {{"read", 10 * kMs, 30 * kMs, 5},
                   {"read", 20 * kMs, 40 * kMs, 6},
                   {"read", 30 * kMs, 35 * kMs, 7},
                   {"odd", 9, 3, std::nullopt}};
  const json trace = json::parse(TraceJson(std::vector<Attempt>{attempt}));
  std::map<int, std::vector<std::pair<double, double>>> spans;
  std::map<int, std::string> names;
  std::map<int, int> sorted;
  for (const json& event : trace["traceEvents"]) {
    EXPECT_EQ(event["pid"], 7);
    if (event["ph"] == "X") {
      const double start = event["ts"];
      spans[event["tid"]].emplace_back(start, start + double{event["dur"]});
    }
    if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
    if (event["name"] == "thread_sort_index") ++sorted[event["tid"]];
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre(
                         testing::Pair(1, "client"), testing::Pair(2, "request"),
                         testing::Pair(testing::_, "odd"), testing::Pair(testing::_, "read"),
                         testing::Pair(testing::_, "read 2")));
  for (auto& [row, each] : spans) {
    EXPECT_TRUE(names.contains(row) && sorted[row] == 1);
    std::sort(each.begin(), each.end());
    for (size_t i = 1; i < each.size(); ++i) EXPECT_LE(each[i - 1].second, each[i].first);
  }
}

TEST(TraceJson, SpansThatTouchDoNotOverlapByARoundingError) {
  Attempt attempt = One("warm", 7, 100 * kMs);
  for (int64_t at = 201'300; at < 3'000'000; at += 10'007) {
    attempt.segments.push_back({Stage::kPrefill, at, at + 10'007});
  }
  const json trace = json::parse(TraceJson(std::vector<Attempt>{attempt}));
  double end = 0;
  size_t spans = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["name"] != "prefill") continue;
    EXPECT_LE(end, double{event["ts"]});
    end = double{event["ts"]} + double{event["dur"]};
    ++spans;
  }
  EXPECT_EQ(spans, attempt.segments.size());
}

TEST(TraceJson, HasATrackForEachThingThatWasSampled) {
  Attempt attempt = One("warm", 7, 100 * kMs);
  attempt.samples_json =
      R"({"at_ns":[-1000,1000000,3000000],"totals":{"target_major_faults":[0,null,5],)"
      R"("psi_io_some_us":[0,500,500]},"page_cache":["00","","90"]})";
  const json trace = json::parse(TraceJson(std::vector<Attempt>{attempt}));
  std::map<std::string, std::vector<std::pair<double, double>>> tracks;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "C") continue;
    EXPECT_EQ(event["pid"], 7);
    tracks[event["name"]].emplace_back(event["ts"], event["args"]["value"]);
  }
  using Points = std::vector<std::pair<double, double>>;
  EXPECT_EQ(tracks.size(), 3);
  // Viewers drop what has a negative time: all is later by as many whole milliseconds as it takes.
  EXPECT_EQ(trace["otherData"]["intended_send_us"], 1000);
  EXPECT_EQ(tracks["page cache of the model file, %"], (Points{{999, 0}, {2000, 0}, {4000, 50}}));
  EXPECT_EQ(tracks["target_major_faults"], (Points{{999, 0}, {4000, 5}}));
  ASSERT_EQ(tracks["psi_io_some, %"].size(), 3);
  EXPECT_NEAR(tracks["psi_io_some, %"][0].second, 100 * 500 / 1001.0, 0.001);
  EXPECT_EQ(tracks["psi_io_some, %"][1].second, 0);
  attempt.samples_json = "{\"at_ns\":7}";
  EXPECT_EQ(TraceJson(std::vector<Attempt>{attempt}).find("\"C\""), std::string::npos);
}

TEST(TraceJson, DrawsArrowsFromTheClientAndBack) {
  Attempt attempt = One("warm", 7, 100 * kMs);
  attempt.segments = {{Stage::kQueue, 2 * kMs, 3 * kMs}, {Stage::kPrefill, 3 * kMs, 99 * kMs}};
  const json trace = json::parse(TraceJson(std::vector<Attempt>{attempt}));
  std::vector<std::string> arrows;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "s" || event["ph"] == "f") {
      arrows.push_back(std::string(event["ph"]) + std::to_string(int{event["tid"]}) + "@" +
                       std::to_string(int{event["ts"]}));
    }
  }
  EXPECT_THAT(arrows, testing::ElementsAre("s1@1000", "f2@2000", "s2@3000", "f1@100000"));
}

TEST(BenchstatText, HasALinePerSuccessAndSaysWhatWasLeftOut) {
  const std::vector<Attempt> attempts = {One("page cache-8", 1, 5 * kMs),
                                         Failure("page cache-8", 2)};
  const std::string text = BenchstatText(NamedRun("quick"), attempts);
  EXPECT_THAT(text, HasSubstr("BenchmarkTTFT/condition=page_cache_8 1 5000000 ns/op 5000000 "
                              "prefill-ns/op\n"));
  EXPECT_THAT(text,
              HasSubstr("# left out of page_cache_8, since this format has no failures: 1\n"));
}

TEST(BenchstatText, TellsApartWhatBecomesTheSameWord) {
  const std::string text = BenchstatText(
      NamedRun(kHostile), std::vector<Attempt>{One("a b", 1, 1), One("a-b", 2, 2), One("", 3, 3)});
  EXPECT_THAT(text, HasSubstr("condition=a_b 1 1 ns/op"));
  EXPECT_THAT(text, HasSubstr("condition=a_b_2 1 2 ns/op"));
  EXPECT_THAT(text, HasSubstr("condition=_ 1 3 ns/op"));
  for (const std::string_view line : {"\x1b", "<script>\n"})
    EXPECT_THAT(text, Not(HasSubstr(std::string(line))));
}

TEST(PrometheusText, HasSecondsAndLeavesOutWhatIsNotSupported) {
  std::vector<Attempt> attempts;
  for (int64_t i = 1; i <= 6; ++i) attempts.push_back(One("warm", i, i * 100 * kMs));
  attempts.push_back(Failure("cold", 7));
  const std::string text = PrometheusText(NamedRun("quick"), attempts);
  EXPECT_THAT(text, HasSubstr("rouse_ttft_median_seconds{condition=\"warm\"} 0.35\n"));
  EXPECT_THAT(text, HasSubstr("rouse_attempts{condition=\"cold\",outcome=\"timeout\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("rouse_ttft_median_seconds{condition=\"cold\"}")));
  EXPECT_THAT(text, Not(HasSubstr("rouse_ttft_p95_seconds{condition=\"warm\"}")));
}

TEST(PrometheusText, EscapesLabels) {
  const std::string text =
      PrometheusText(NamedRun(kHostile), std::vector<Attempt>{One(kHostile, 1, kMs)});
  EXPECT_THAT(text, HasSubstr("{condition=\"a|b\\\"\\\\\\n<script>`x`[y](z)?[31m, 100%\"}"));
}

TEST(RunMarkdown, EscapesNamesSoThatTheTableStands) {
  const std::string text =
      RunMarkdown(NamedRun(kHostile), std::vector<Attempt>{One(kHostile, 1, 250 * kMs)});
  EXPECT_THAT(text,
              HasSubstr("| a\\|b\"\\\\?&lt;script&gt;\\`x\\`\\[y\\]\\(z\\)?\\[31m, 100% | 1 | 0 | "
                        "250 ms | – | – | 250 ms | prefill 100 % |\n"));
  EXPECT_THAT(text, Not(HasSubstr("<")));
}

TEST(RunMarkdown, RanksFailuresLast) {
  const std::string text = RunMarkdown(NamedRun("x"), std::vector<Attempt>{Failure("warm", 1)});
  EXPECT_THAT(text, HasSubstr("| warm | 1 | 1 | ≥ 1.00 s |"));
}

}  // namespace
}  // namespace rouse::report
