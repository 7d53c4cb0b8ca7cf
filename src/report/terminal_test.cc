#include "report/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  run.conditions = {
      Row("warm", "", "", {{"prefix_cache", "empty"}, {"page_cache", "warm"}}),
      Row("prefix hit", "warm", "prefix_cache", {{"prefix_cache", "hit"}}),
      Row("model unloaded", "warm", "model", {{"model", "unloaded"}}),
      Row("process new", "model unloaded", "process", {{"process", "new"}}),
      Row("page cache cold", "process new", "page_cache", {{"page_cache", "cold"}}),
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
  attempt.state_before["page_cache"] = {
      .value = 1.0, .proof = "cachestat", .wanted = "warm", .reached = true, .detail = ""};
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
The client's own delay: 31.0 us (p99 88.0 us), not subtracted

Time to first token (TTFT), and what it was spent on
                 n  median      95 % int    max   0                    264.2 ms
warm             6   72.25  71.00..73.50  73.50  |pppppppp                     |
prefix hit       6   24.25  23.00..25.50  25.50  |ppp                          |
model unloaded   6   93.25  92.00..94.50  94.50  |wwpppppppp                   |
process new      6   175.2  174.0..176.5  176.5  |ssttttttttppppppppp          |
page cache cold  6   264.2  263.0..265.5  265.5  |ssswwwwwwwwwwwttttttppppppppp|
  s process start  w weights  t tokenizer  p prefill

What each changed layer costs here (95 % interval)
  finding the prefix saves 48.0 ms (48.0 ms ... 48.0 ms): 48.0 ms of it prefill
  losing the loaded model costs +21.0 ms (21.0 ms ... 21.0 ms): 15.0 ms of it
    weights, 6.00 ms prefill
  losing the process costs +82.0 ms (82.0 ms ... 82.0 ms): 75.0 ms of it
    tokenizer, 20.0 ms process start
  losing the page cache costs +89.0 ms (89.0 ms ... 89.0 ms): 100 ms of it
    weights; 98.1 MB read from the disk at 981 MB/s

Every state was read back before the request: 30 of 30 reached.
Stages add up to TTFT in 30 of 30.

Saved as run 1.
Next: rouse explain 1 - rouse report 1 --json - rouse list
)");
  ExpectFits(text, 80);
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
  EXPECT_THAT(text, HasSubstr("timeout, warm, block 0: no first token within 2 min 0 s"));
  EXPECT_THAT(text, HasSubstr("and 3 more"));
  ExpectFits(text, 80);
}

TEST(RenderRun, CountsStatesThatWereNotReached) {
  std::vector<Attempt> attempts = QuickAttempts(2);
  attempts[0] = Failed("warm", 0, Outcome::kStateNotReached, "page_cache: wanted warm, read 12 %");
  const std::string text = RenderRun(QuickRun(), attempts, {});
  EXPECT_THAT(text, HasSubstr("States read back before the request: 9 of 10 reached."));
  EXPECT_THAT(text, HasSubstr("Stages add up to TTFT in 9 of 9."));
}

TEST(RenderRun, DoesNotClaimASumThatDoesNotClose) {
  std::vector<Attempt> attempts = QuickAttempts(1);
  attempts[0].ttft_ns = *attempts[0].ttft_ns + 1;
  EXPECT_THAT(RenderRun(QuickRun(), attempts, {}), HasSubstr("Stages add up to TTFT in 4 of 5."));
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

TEST(BarCells, SharesItsCellsByTheLargestRemainder) {
  StageMeans means{};
  means[static_cast<size_t>(Stage::kWeights)] = 1;
  means[static_cast<size_t>(Stage::kPrefill)] = 2;
  EXPECT_EQ(BarCells(means, 9, 12), "wwwpppppp   ");
  EXPECT_EQ(BarCells(means, 10, 10), "wwwppppppp");
  EXPECT_EQ(BarCells(means, 1, 3), "p  ");
  EXPECT_EQ(BarCells({}, 5, 5), "     ");
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
