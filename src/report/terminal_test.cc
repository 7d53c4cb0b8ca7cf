#include "report/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/strings.h"
#include "report/terminal_bar.h"

namespace rouse::report {
namespace {

using results::Attempt;
using results::Outcome;
using results::Run;
using results::Stage;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = 1'000'000;

results::ConditionRow Row(const std::string& name, const std::string& base,
                          const std::string& changed, std::map<std::string, std::string> state) {
  results::ConditionRow row;
  row.name = name;
  row.base = base;
  row.changed = changed;
  row.state = std::move(state);
  return row;
}

Run QuickRun() {
  Run run;
  run.id = 1;
  run.name = "quick";
  run.kind = "measure";
  run.status = "complete";
  run.rouse_version = "0.1.0";
  run.seed = 4711;
  run.target = "builtin";
  run.model = "smollm2-135m";
  run.environment = {{"engine", "llama.cpp 0.5.0"}, {"model_bytes", "98400000"}};
  run.calibration = {
      {.streams = 1, .samples = 100, .median_ns = 31'000, .p99_ns = 88'000, .max_ns = 90'000}};
  using State = std::map<std::string, std::string>;
  const State warm = {{"process", "running"},
                      {"model", "loaded"},
                      {"page_cache", "warm"},
                      {"prefix_cache", "empty"}};
  const auto with = [](State state, const std::string& layer, const std::string& value) {
    state[layer] = value;
    return state;
  };
  const State unloaded = with(warm, "model", "unloaded");
  const State process = with(unloaded, "process", "new");
  run.conditions = {
      Row("warm", "", "", warm),
      Row("prefix hit", "warm", "prefix_cache", with(warm, "prefix_cache", "hit")),
      Row("model unloaded", "warm", "model", unloaded),
      Row("process new", "model unloaded", "process", process),
      Row("page cache cold", "process new", "page_cache", with(process, "page_cache", "cold")),
  };
  return run;
}

struct Spent {
  Stage stage;
  int64_t ns;
};

Attempt Ok(const std::string& condition, int64_t block, std::initializer_list<Spent> spent) {
  Attempt attempt;
  attempt.condition = condition;
  attempt.block = block;
  attempt.outcome = Outcome::kOk;
  int64_t sum = 0;
  for (const Spent& each : spent) {
    attempt.stages[static_cast<size_t>(each.stage)].ns = each.ns;
    sum += each.ns;
  }
  attempt.ttft_ns = sum;
  attempt.marks.end = sum + 10 * kMs;
  attempt.counters["target_read_bytes"] = int64_t{0};
  for (const char* const layer : {"process", "model", "prefix_cache"}) {
    attempt.state_before[layer] = {.value = std::string("as told"),
                                   .proof = "pid",
                                   .wanted = "",
                                   .reached = true,
                                   .detail = ""};
  }
  attempt.state_before["page_cache"] = {.value = condition == "page cache cold" ? 0.0 : 1.0,
                                        .proof = "cachestat",
                                        .wanted = "warm",
                                        .reached = true,
                                        .detail = ""};
  return attempt;
}

Attempt Failed(const std::string& condition, int64_t block, Outcome outcome,
               const std::string& detail) {
  Attempt attempt;
  attempt.condition = condition;
  attempt.block = block;
  attempt.outcome = outcome;
  attempt.outcome_detail = detail;
  attempt.marks.end = 120'000 * kMs;
  return attempt;
}

std::vector<Attempt> QuickAttempts(int64_t blocks) {
  std::vector<Attempt> attempts;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t jitter = b * kMs / 2;
    attempts.push_back(
        Ok("warm", b, {{Stage::kPrefill, 70 * kMs + jitter}, {Stage::kTransport, kMs}}));
    attempts.push_back(
        Ok("prefix hit", b, {{Stage::kPrefill, 22 * kMs + jitter}, {Stage::kTransport, kMs}}));
    attempts.push_back(Ok("model unloaded", b,
                          {{Stage::kWeights, 15 * kMs},
                           {Stage::kPrefill, 76 * kMs + jitter},
                           {Stage::kTransport, kMs}}));
    attempts.push_back(Ok("process new", b,
                          {{Stage::kProcessStart, 20 * kMs},
                           {Stage::kTokenize, 75 * kMs},
                           {Stage::kPrefill, 78 * kMs + jitter},
                           {Stage::kTransport, kMs}}));
    attempts.push_back(Ok("page cache cold", b,
                          {{Stage::kProcessStart, 25 * kMs},
                           {Stage::kWeights, 100 * kMs},
                           {Stage::kTokenize, 60 * kMs},
                           {Stage::kPrefill, 77 * kMs + jitter},
                           {Stage::kTransport, kMs}}));
    attempts.back().counters["target_read_bytes"] = int64_t{98'100'000};
  }
  return attempts;
}

void ExpectFits(const std::string& text, size_t columns) {
  for (const std::string_view line : SplitAt(text, '\n')) {
    EXPECT_EQ(FitText(line, static_cast<int>(columns)), line) << "does not fit";
  }
}

TEST(RenderRun, ShowsTableContrastsProofsAndWhatToDoNext) {
  const std::string text = RenderRun(QuickRun(), QuickAttempts(6), {});
  EXPECT_EQ(text, R"(rouse 0.1.0 - llama.cpp 0.5.0
built-in server - smollm2-135m, 98.4 MB
Client's own delay 31.0 us (p99 88.0 us), not subtracted

First token after 72.2 ms (median of 6) for "warm", 264 ms for "page cache
cold": 3.66 times as long. Sure costs: page cache +89.0 ms, process +82.0 ms,
prompt prefix +48.0 ms, and more.

Time to first token (TTFT), and what it was spent on
ms               n  median      95 % int    max   0                    264.2 ms
warm             6   72.25  71.00..73.50  73.50  |pppppppp                     |
prefix hit       6   24.25  23.00..25.50  25.50  |ppp                          |
model unloaded   6   93.25  92.00..94.50  94.50  |wwpppppppp                   |
process new      6   175.2  174.0..176.5  176.5  |ssttttttttppppppppp          |
page cache cold  6   264.2  263.0..265.5  265.5  |ssswwwwwwwwwwwttttttppppppppp|
  s process start  w weights  t tokenizer  p prefill

What each lost layer costs here (shift of the TTFT)
                     ms  95 % interval
  prompt prefix  +48.00  +48.00 .. +48.00  prefill +48.0 ms
  loaded model   +21.00  +21.00 .. +21.00  weights +15.0 ms, prefill +6.00 ms
  process        +82.00  +82.00 .. +82.00  tokenizer +75.0 ms, process start
                                           +20.0 ms
  page cache     +89.00  +89.00 .. +89.00  weights +100 ms; 98.1 MB read from
                                           the disk; 0 % of the file in memory
                                           before

Every state was read back before the request: 30 of 30 reached. Stages add up to
TTFT in 30 of 30.

Saved as run 1. Next:
  rouse explain 1               the causes, and what was ruled out
  rouse measure --preset idle   what idling loses (overnight)
)");
  ExpectFits(text, 80);
}

TEST(RenderRun, BreaksABarThatWouldFlattenTheOthersAndSaysSo) {
  results::Run run = QuickRun();
  run.conditions.push_back(Row("long prompt", "warm", "prompt_tokens", {}));
  std::vector<Attempt> attempts = QuickAttempts(6);
  for (int64_t b = 0; b < 6; ++b) {
    attempts.push_back(Ok("long prompt", b,
                          {{Stage::kTokenize, 50 * kMs},
                           {Stage::kPrefill, 5000 * kMs},
                           {Stage::kFirstDecode, 40 * kMs}}));
  }
  const std::string text = RenderRun(run, attempts, {});
  const size_t begin = text.find("\nms  ");
  EXPECT_EQ(text.substr(begin + 1, text.find("\n\n", begin) - begin),
            R"(ms               n  median      95 % int    max   0               264.2 ms
warm             6   72.25  71.00..73.50  73.50  |ppppppp                      |
prefix hit       6   24.25  23.00..25.50  25.50  |pp                           |
model unloaded   6   93.25  92.00..94.50  94.50  |wppppppp                     |
process new      6   175.2  174.0..176.5  176.5  |sstttttttppppppp             |
page cache cold  6   264.2  263.0..265.5  265.5  |sswwwwwwwwwttttttppppppp     |
long prompt      6    5090    5090..5090   5090  |ttttpppppppppppppppppp//pdddd|
  s process start  w weights  t tokenizer  p prefill  d first decode
  // broken, since the scale is made for the others: "long prompt" takes
     5090 ms, 19 times "page cache cold".
)");
  ExpectFits(text, 80);
  // In colour the mark stays plain, so that it is a gap.
  EXPECT_THAT(RenderRun(run, attempts, {.color = true}), HasSubstr("\x1b[0m//\x1b["));
  EXPECT_THAT(RenderRun(QuickRun(), QuickAttempts(6), {}), Not(HasSubstr("//")));
}

TEST(RenderRun, SaysThatOneAttemptHasNoInterval) {
  const std::string text = RenderRun(QuickRun(), QuickAttempts(1), {});
  EXPECT_THAT(text, HasSubstr("A 95 % interval of the median needs 6 attempts."));
  EXPECT_THAT(text, HasSubstr("5 of 5 reached"));
  ExpectFits(text, 80);
}

TEST(RenderRun, HasARowForEveryConditionWithoutAnyAttempt) {
  results::Run run = QuickRun();
  run.status = "interrupted";
  const std::string text = RenderRun(run, {}, {});
  for (const results::ConditionRow& row : run.conditions) EXPECT_THAT(text, HasSubstr(row.name));
  EXPECT_THAT(text, HasSubstr("This run is interrupted."));
  EXPECT_THAT(text, HasSubstr("cannot be told"));
  EXPECT_THAT(text, Not(HasSubstr("reached")));
  ExpectFits(text, 80);
}

TEST(RenderRun, KeepsFailuresInTheTableAndListsThem) {
  std::vector<Attempt> attempts;
  for (int64_t b = 0; b < 7; ++b) {
    attempts.push_back(Failed("warm", b, Outcome::kTimeout, "no first token within 2 min 0 s"));
  }
  attempts.push_back(
      Failed("prefix hit", 0, Outcome::kStateNotReached, "prefix_cache: wanted hit"));
  const std::string text = RenderRun(QuickRun(), attempts, {});
  EXPECT_THAT(text, HasSubstr("7 (7 x)"));
  EXPECT_THAT(text, HasSubstr(">=120.0"));
  EXPECT_THAT(text, HasSubstr("Not ok, and kept (8):"));
  EXPECT_THAT(text, HasSubstr("timeout, warm, blocks 0-6 (7x): no first token within 2 min 0 s"));
  EXPECT_THAT(text, HasSubstr("state_not_reached, prefix hit, block 0: prefix_cache: wanted hit"));
  EXPECT_THAT(text, Not(HasSubstr("more\n")));
  ExpectFits(text, 80);
}

TEST(RenderRun, ListsFiveKindsOfFailureAndCountsTheRest) {
  std::vector<Attempt> attempts;
  for (int64_t b = 0; b < 7; ++b) {
    attempts.push_back(Failed("warm", b, Outcome::kHttpError, "status 50" + std::to_string(b % 6)));
  }
  const std::string text = RenderRun(QuickRun(), attempts, {});
  EXPECT_THAT(text, HasSubstr("Not ok, and kept (7):"));
  EXPECT_THAT(text, HasSubstr("http_error, warm, blocks 0, 6 (2x): status 500"));
  EXPECT_THAT(text, HasSubstr("http_error, warm, block 4: status 504"));
  EXPECT_THAT(text, HasSubstr("  and 1 more\n"));
}

TEST(RenderRun, CountsStatesThatWereNotReached) {
  std::vector<Attempt> attempts = QuickAttempts(2);
  attempts[0] = Failed("warm", 0, Outcome::kStateNotReached, "page_cache: wanted warm, read 12 %");
  const std::string text = RenderRun(QuickRun(), attempts, {});
  EXPECT_THAT(text, HasSubstr("States read back before the request: 9 of 10 reached."));
  EXPECT_THAT(text, HasSubstr("9 of 10 reached. Stages add up to TTFT in 9\nof 9."));
}

TEST(RenderRun, DoesNotClaimASumThatDoesNotClose) {
  std::vector<Attempt> attempts = QuickAttempts(1);
  attempts[0].ttft_ns = *attempts[0].ttft_ns + 1;
  EXPECT_THAT(RenderRun(QuickRun(), attempts, {}), HasSubstr("TTFT in 4 of 5."));
}

TEST(RenderRun, LeavesPrimesOut) {
  std::vector<Attempt> attempts = QuickAttempts(6);
  const std::string without = RenderRun(QuickRun(), attempts, {});
  attempts.push_back(Failed("warm", 0, Outcome::kTimeout, "x"));
  attempts.back().block.reset();
  attempts.back().prime = true;
  EXPECT_EQ(RenderRun(QuickRun(), attempts, {}), without);
}

TEST(RenderRun, MakesHostileNamesHarmlessAndStaysWithinItsColumns) {
  results::Run run = QuickRun();
  const std::string hostile = "\x1b[31mred\x1b[0m\n\t\xff\xfe\xe2\x80\xae" + std::string(200, 'x');
  run.conditions[0].name = hostile;
  run.conditions[1].base = hostile;
  run.model = hostile;
  run.target = hostile;
  run.environment["engine"] = hostile;
  std::vector<Attempt> attempts = QuickAttempts(6);
  for (Attempt& attempt : attempts) {
    if (attempt.condition == "warm") attempt.condition = hostile;
    attempt.warnings.push_back({hostile, hostile});
  }
  attempts.push_back(Failed(hostile, 9, Outcome::kMalformed, hostile + "\n" + hostile));
  for (const int columns : {80, 64, 120}) {
    const std::string text = RenderRun(run, attempts, {.columns = columns, .database = hostile});
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, Not(HasSubstr("\xe2\x80\xae")));
    ExpectFits(text, static_cast<size_t>(columns));
  }
}

TEST(RenderRun, KeepsWideNamesInTheirColumn) {
  results::Run run = QuickRun();
  run.conditions[0].name = "\u6e29\u304b\u3044\u6a21\u578b\u3001\u3068\u3066\u3082\u9577\u3044";
  std::vector<Attempt> attempts = QuickAttempts(6);
  for (Attempt& attempt : attempts) {
    if (attempt.condition == "warm") attempt.condition = run.conditions[0].name;
  }
  ExpectFits(RenderRun(run, attempts, {}), 80);
}

TEST(RenderRun, ColoursOnlyWhenAsked) {
  const std::vector<Attempt> attempts = QuickAttempts(6);
  EXPECT_THAT(RenderRun(QuickRun(), attempts, {}), Not(HasSubstr("\x1b[")));
  const std::string colored = RenderRun(QuickRun(), attempts, {.color = true, .unicode = true});
  EXPECT_THAT(colored, HasSubstr("\x1b["));
  EXPECT_THAT(colored, HasSubstr("\u2595"));
  // The letters stay: colour is never the only sign.
  EXPECT_THAT(colored, HasSubstr("pppp"));
}

TEST(RenderRun, AnswersFirstAlsoWhenThereIsNothing) {
  EXPECT_THAT(RenderRun(QuickRun(), {}, {}), HasSubstr("\n\nNo attempt was made yet.\n"));
  EXPECT_THAT(
      RenderRun(QuickRun(), std::vector<Attempt>{Failed("warm", 0, Outcome::kTimeout, "")}, {}),
      HasSubstr("\n\nNo typical first token: 1 timeout.\n"));
}

TEST(RenderRun, TellsNoCostAsSureWhoseIntervalHoldsZero) {
  std::vector<Attempt> attempts = QuickAttempts(6);
  for (Attempt& attempt : attempts) {
    if (attempt.condition == "model unloaded" && *attempt.block % 2 == 0) {
      attempt.ttft_ns = *attempt.ttft_ns - 40 * kMs;
    }
  }
  const std::string text = RenderRun(QuickRun(), attempts, {});
  EXPECT_THAT(text, HasSubstr("not sure: the interval holds 0"));
  EXPECT_THAT(text, Not(HasSubstr("loaded model +")));
}

TEST(RenderRun, NamesTheConditionsWhereOneLayerIsLostTwice) {
  results::Run run = QuickRun();
  results::ConditionRow asleep =
      *std::find_if(run.conditions.begin(), run.conditions.end(),
                    [](const results::ConditionRow& row) { return row.name == "model unloaded"; });
  asleep.name = "model asleep";
  run.conditions.push_back(asleep);
  std::vector<Attempt> attempts = QuickAttempts(6);
  for (size_t i = 0, count = attempts.size(); i < count; ++i) {
    if (attempts[i].condition != "model unloaded") continue;
    attempts.push_back(attempts[i]);
    attempts.back().condition = "model asleep";
  }
  const std::string text = RenderRun(run, attempts, {});
  EXPECT_THAT(text, HasSubstr("\n  model unloaded  +21.00"));
  EXPECT_THAT(text, HasSubstr("\n  model asleep    +21.00"));
  EXPECT_THAT(text, HasSubstr("\n  page cache      +89.00"));
  EXPECT_THAT(text, Not(HasSubstr("loaded model")));
}

TEST(RenderRun, ShowsTheOrderOfTheAttemptsInDetail) {
  std::vector<Attempt> attempts = QuickAttempts(6);
  attempts[10] = Failed("warm", 2, Outcome::kTimeout, "late");
  const std::string text = RenderRun(QuickRun(), attempts, {.details = true});
  EXPECT_THAT(text, HasSubstr("  warm             _.x=*#"));
}

TEST(RenderRun, AddsTheDatabaseToTheCommandsToPaste) {
  const std::string text =
      RenderRun(QuickRun(), QuickAttempts(6), {.database_flag = "my runs.sqlite"});
  EXPECT_THAT(text, HasSubstr("rouse explain 1 --db 'my runs.sqlite'"));
}

TEST(RenderRun, StaysWithinAnyWidthFromSixty) {
  for (int columns = 60; columns <= 120; ++columns) {
    for (const bool unicode : {false, true}) {
      ExpectFits(RenderRun(QuickRun(), QuickAttempts(6),
                           {.columns = columns, .unicode = unicode, .details = true}),
                 static_cast<size_t>(columns));
    }
  }
}

TEST(RenderRun, FitsTimesOfAnySize) {
  for (const int64_t factor : {int64_t{1}, int64_t{1000}, int64_t{1'000'000'000}}) {
    std::vector<Attempt> attempts = QuickAttempts(6);
    for (Attempt& attempt : attempts) attempt.ttft_ns = *attempt.ttft_ns * factor + 1;
    attempts[0].ttft_ns = INT64_MAX;
    for (const int columns : {60, 80}) {
      ExpectFits(RenderRun(QuickRun(), attempts, {.columns = columns}),
                 static_cast<size_t>(columns));
    }
  }
}

Attempt Laned() {
  Attempt attempt = Ok("page cache cold", 3,
                       {{Stage::kProcessStart, 10 * kMs},
                        {Stage::kWeights, 60 * kMs},
                        {Stage::kPrefill, 29 * kMs},
                        {Stage::kTransport, kMs}});
  attempt.id = 18;
  attempt.marks = {.send_start = 0,
                   .connected = 10 * kMs,
                   .request_sent = 10 * kMs + 1000,
                   .response_headers = 100 * kMs,
                   .first_byte = 100 * kMs,
                   .first_event = 100 * kMs,
                   .first_token = 100 * kMs,
                   .first_content = 100 * kMs,
                   .last_token = 400 * kMs,
                   .end = 401 * kMs};
  attempt.segments = {{Stage::kWeights, 10 * kMs, 70 * kMs}, {Stage::kPrefill, 70 * kMs, 99 * kMs}};
  attempt.lanes = {{"read", 12 * kMs, 68 * kMs, 98'000'000},
                   {"try: refused", 0, 1000, std::nullopt},
                   {"try: refused", 2 * kMs, 2 * kMs + 1000, std::nullopt}};
  attempt.counters["target_major_faults"] = int64_t{23};
  attempt.counters["cpu_clock_hz"] = std::nullopt;
  attempt.null_reasons["cpu_clock_hz"] = "no sysfs";
  return attempt;
}

TEST(RenderAttempt, DrawsLanesOnOneAxis) {
  EXPECT_EQ(RenderLanes(Laned(), {}),
            R"(Client: reached, at (v: first token)   0                         v       150 ms
  connected                   10.0 ms |==                                      |
  request sent                10.0 ms |  =                                     |
  first event, first token     100 ms |  ========================              |
  last token                   400 ms |                          =============>|
  end                          401 ms |                                       >|
Request: stage, time in it             0                         v       150 ms
  process start               10.0 ms |ss                                      |
  weights                     60.0 ms |  wwwwwwwwwwwwwwww                      |
  prefill                     29.0 ms |                  pppppppp              |
Beside it: work, time in it            0                         v       150 ms
  read 98.0 MB                56.0 ms |   ###############                      |
  try: refused (2x)           2.00 us |#                                       |
)");
}

TEST(RenderAttempt, DrawsWhatWasSampledOnTheSameAxis) {
  Attempt attempt = Laned();
  const std::string plain = RenderLanes(attempt, {});
  attempt.samples_json =
      R"({"at_ns":[-1000,50000000,100000000],"totals":{"target_major_faults":[0,90,100],)"
      R"("target_minor_faults":[0,0,0],"psi_io_some_us":[0,25000,25000]},)"
      R"("page_cache":["00","90","99"]})";
  const std::string text = RenderLanes(attempt, {});
  ASSERT_TRUE(text.starts_with(plain));
  const std::string sampled = text.substr(plain.size());
  // No minor faults, no row. Half of the file from 50 ms on; nothing is known after the last
  // sample.
  EXPECT_EQ(sampled,
            R"(Sampled: in all, when (9: most)        0                         v       150 ms
  page cache of the file        100 % |             55555555555559             |
  major faults                    100 |99999999999992222222222222              |
  I/O pressure                25.0 ms |5555555555555                           |
)");
  for (const auto line : SplitAt(text, '\n')) EXPECT_LE(DisplayColumns(line), 80) << line;
  attempt.samples_json = "{}";
  EXPECT_EQ(RenderLanes(attempt, {}), plain);
}

TEST(RenderAttempt, TellsStagesLayersAndCounters) {
  const std::string text = RenderAttempt(QuickRun(), Laned(), {});
  EXPECT_THAT(text, HasSubstr("Attempt 1#18 - page cache cold - block 3\n"
                              "First token after 100 ms.\n"));
  EXPECT_THAT(text, HasSubstr("They add up to the TTFT exactly."));
  EXPECT_THAT(text, HasSubstr("page cache        0 % before; wanted warm, proved (cachestat)"));
  EXPECT_THAT(text, HasSubstr("target_major_faults                               23"));
  EXPECT_THAT(text, HasSubstr("Zero: target_read_bytes."));
  EXPECT_THAT(text, HasSubstr("Not measured: cpu_clock_hz (no sysfs)."));
  ExpectFits(text, 80);
}

TEST(RenderAttempt, OfAFailureWithoutMarksSaysWhatIsKnown) {
  Attempt attempt;
  attempt.id = 1;
  attempt.condition = "warm";
  attempt.outcome = Outcome::kConnectError;
  attempt.outcome_detail = "refused \x1b[2J";
  const std::string text = RenderAttempt(QuickRun(), attempt, {});
  EXPECT_THAT(text, HasSubstr("No first token: connect_error: refused ?[2J\n"));
  EXPECT_EQ(RenderLanes(attempt, {}), "");
}

TEST(RenderAttempt, MakesHostileNamesHarmlessAtAnyWidth) {
  const std::string hostile = "\x1b[31mred\n\xff\u202e\u6a21\u578b" + std::string(150, 'x');
  Attempt attempt = Laned();
  attempt.condition = hostile;
  attempt.lanes[0].name = hostile;
  attempt.counters[hostile] = int64_t{1};
  attempt.null_reasons["cpu_clock_hz"] = hostile;
  attempt.state_before[hostile] = {
      .value = hostile, .proof = hostile, .wanted = hostile, .reached = false, .detail = hostile};
  attempt.warnings = {{hostile, hostile}};
  attempt.stream.faults = {hostile};
  for (int columns = 60; columns <= 120; columns += 7) {
    const std::string text = RenderAttempt(QuickRun(), attempt, {.columns = columns});
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    ExpectFits(text, static_cast<size_t>(columns));
  }
}

TEST(Sparkline, GoesFromLeastToMostAndMarksFailures) {
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Sparkline(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}, 20, false), "_.:-=+*#");
  EXPECT_EQ(Sparkline(std::vector<double>{1, infinite, 2}, 20, false), "_x#");
  EXPECT_EQ(Sparkline(std::vector<double>{1, 2}, 20, true), "\u2581\u2588");
  EXPECT_EQ(Sparkline(std::vector<double>{5, 5}, 20, false), "__");
  EXPECT_EQ(Sparkline({}, 20, false), "");
}

TEST(Sparkline, ShowsTheMiddleOfEachGroupWhenThereAreMoreValuesThanMarks) {
  EXPECT_EQ(Sparkline(std::vector<double>{1, 1, 9, 5, 5, 5}, 2, false), "_#");
}

TEST(BarCells, SharesItsCellsByTheLargestRemainder) {
  StageMeans means{};
  means[static_cast<size_t>(Stage::kWeights)] = 1;
  means[static_cast<size_t>(Stage::kPrefill)] = 2;
  EXPECT_EQ(BarCells(means, 9, 12), "wwwpppppp   ");
  EXPECT_EQ(BarCells(means, 10, 10), "wwwppppppp");
  EXPECT_EQ(BarCells(means, 1, 3), "p  ");
  EXPECT_EQ(BarCells({}, 5, 5), "     ");
}

TEST(BarCells, OfABrokenBarKeepTheLengthOfWhatIsShort) {
  StageMeans means{};
  means[static_cast<size_t>(Stage::kProcessStart)] = 2e6;
  means[static_cast<size_t>(Stage::kWeights)] = 300e6;
  means[static_cast<size_t>(Stage::kPrefill)] = 500e6;
  means[static_cast<size_t>(Stage::kFirstDecode)] = 4e6;
  EXPECT_EQ(BrokenCells(means, 1e6, 24), "sswwwwww//wpppppp//pdddd");
  means[static_cast<size_t>(Stage::kWeights)] = 3e6;
  EXPECT_EQ(BrokenCells(means, 1e6, 24), "sswwwpppppppppppp//pdddd");
}

TEST(UnbrokenLimit, IsTheLongestUnlessThatWouldFlattenTheOthers) {
  // As web/test/answer.test.ts has them.
  EXPECT_EQ(UnbrokenLimit({700, 720, 1500, 5600}), 1500);
  EXPECT_EQ(UnbrokenLimit({700, 720, 1500, 4500}), 4500);
  EXPECT_EQ(UnbrokenLimit({380, 749, 3340, 7790}), 7790);  // a series
  EXPECT_EQ(UnbrokenLimit({10, 5600}), 5600);
  EXPECT_EQ(UnbrokenLimit({0, 0, 10, 5600}), 5600);  // what failed has no bar
  EXPECT_EQ(UnbrokenLimit({}), 0);
}

TEST(Legend, NamesOnlyTheStagesThatAreShown) {
  EXPECT_EQ(Legend({"wwpp ", "s    "}, 80, false), "  s process start  w weights  p prefill\n");
  EXPECT_EQ(Legend({"    "}, 80, false), "");
}

TEST(Legend, BreaksItsLinesBetweenStages) {
  EXPECT_EQ(Legend({"qswitpdx."}, 40, false),
            "  q queue  s process start  w weights\n"
            "  i runtime init  t tokenizer  p prefill\n"
            "  d first decode  x transport\n"
            "  . unattributed\n");
}

}  // namespace
}  // namespace rouse::report
