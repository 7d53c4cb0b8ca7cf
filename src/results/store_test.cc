#include "results/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>

#include "results/example_attempt.h"
#include "results/json.h"
#include "results/sqlite.h"

namespace rouse::results {
namespace {

using ::testing::HasSubstr;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "rouse_store_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    chmod(directory_.c_str(), 0755);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }
  static Store Opened(const std::string& path) {
    Result<Store> store = Store::Open(path, OpenMode::kReadWrite);
    EXPECT_TRUE(store.ok()) << store.error().message();
    return std::move(store).value();
  }

  std::string directory_;
};

Run ExampleRun() {
  Run run;
  run.name = "quick";
  run.kind = "measure";
  run.status = "running";
  run.rouse_version = "0.1.0";
  run.started_wall_ns = 1'764'000'000'000'000'000;
  run.seed = 0xffff'ffff'ffff'fff1U;  // does not fit a signed integer
  run.plan_toml = "[experiment]\n";
  run.plan_hash = "ab12";
  run.target = "builtin";
  run.model = "smollm2-135m";
  run.environment = {{"kernel", "6.1"}, {"cpu", "x"}};
  run.conditions = {{"warm", "", "", false, {{"process", "running"}}, std::nullopt},
                    {"cold", "warm", "page_cache", true, {{"page_cache", "cold"}}, 600}};
  run.hypotheses = {{"h",
                     "ttft",
                     "median",
                     "cold",
                     "warm",
                     "increase",
                     "100ms",
                     0.9,
                     {"failure_rate<=0.05", "cotenant_slowdown<=0.10"}},
                    {"h2", "ttft", "p95", "warm", "cold", "equal", "10%", 0.95, {}}};
  run.calibration = {{1, 1000, 30'000, 80'000, std::nullopt}, {64, 500, {}, {}, {}}};
  return run;
}

// Runs `work` in a child process; returns what it returned.
std::string InChild(const std::function<std::string()>& work) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const std::string text = work();
    const ssize_t ignored = write(ends[1], text.data(), text.size());
    _exit(ignored == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return text;
}

// Root may write everywhere; "nobody" may not.
std::string AsNobody(const std::function<std::string()>& work) {
  return InChild([&work]() -> std::string {
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return "cannot be nobody";
    return work();
  });
}

std::string OpenMessage(const std::string& path, OpenMode mode) {
  const Result<Store> store = Store::Open(path, mode);
  if (store.ok()) return "opened";
  return std::string(ErrorCodeName(store.error().code())) + ": " + store.error().message();
}

TEST_F(StoreTest, GivesBackEveryFieldOfARunAndItsAttempts) {
  Store store = Opened(PathOf("r.sqlite"));
  const auto run = ExampleRun();
  const auto id = store.CreateRun(run);
  ASSERT_TRUE(id.ok()) << id.error().message();
  EXPECT_EQ(*id, 1);
  Attempt attempt = ExampleAttempt();
  ASSERT_TRUE(store.AppendAttempt(*id, attempt).ok());
  EXPECT_EQ(attempt.id, 1);
  Attempt empty;
  empty.condition = "warm";
  empty.prime = true;
  empty.outcome = Outcome::kTimeout;
  ASSERT_TRUE(store.AppendAttempt(*id, empty).ok());
  EXPECT_EQ(empty.id, 2);

  Result<Store> reader = Store::Open(PathOf("r.sqlite"), OpenMode::kReadOnly);
  ASSERT_TRUE(reader.ok()) << reader.error().message();
  const auto attempts = reader->LoadAttempts(1);
  ASSERT_TRUE(attempts.ok()) << attempts.error().message();
  ASSERT_EQ(attempts->size(), 2);
  EXPECT_EQ(AttemptJson((*attempts)[0]), AttemptJson(attempt));
  EXPECT_EQ(AttemptJson((*attempts)[1]), AttemptJson(empty));

  const auto back = reader->LoadRun(1);
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(back->seed, run.seed);
  EXPECT_EQ(back->environment, run.environment);
  ASSERT_EQ(back->conditions.size(), 2);
  EXPECT_EQ(back->conditions[1].base, "warm");
  EXPECT_EQ(back->conditions[1].state, run.conditions[1].state);
  EXPECT_EQ(back->conditions[1].idle_ns, 600);
  EXPECT_TRUE(back->conditions[1].compound);
  ASSERT_EQ(back->hypotheses.size(), 2);
  EXPECT_EQ(back->hypotheses[0].guards, run.hypotheses[0].guards);
  EXPECT_EQ(back->hypotheses[0].confidence, 0.9);
  ASSERT_EQ(back->calibration.size(), 2);
  EXPECT_EQ(back->calibration[0].p99_ns, 80'000);
  EXPECT_EQ(back->calibration[1].p99_ns, std::nullopt);
}

TEST_F(StoreTest, HasAColumnForEachWholeNumberField) {
  Opened(PathOf("r.sqlite"));
  const auto database = Database::Open(PathOf("r.sqlite"), false, false);
  ASSERT_TRUE(database.ok());
  std::set<std::string> columns;
  const auto select = (*database)->Prepare("SELECT name FROM pragma_table_info('attempts')");
  ASSERT_TRUE(select.ok());
  while (true) {
    const auto row = (*select)->Step();
    ASSERT_TRUE(row.ok());
    if (!*row) break;
    columns.insert((*select)->Text(0));
  }
  for (const IntegerField& field : IntegerFields()) {
    EXPECT_TRUE(columns.contains(std::string(field.column))) << field.column;
  }
}

TEST_F(StoreTest, SummarizesRunsWithoutPrimesAndWithoutUnjudgedAttempts) {
  Store store = Opened(PathOf("r.sqlite"));
  ASSERT_TRUE(store.CreateRun(ExampleRun()).ok());
  for (const Outcome outcome : {Outcome::kOk, Outcome::kTimeout, Outcome::kStateNotReached}) {
    Attempt attempt;
    attempt.condition = "warm";
    attempt.outcome = outcome;
    ASSERT_TRUE(store.AppendAttempt(1, attempt).ok());
  }
  Attempt prime;
  prime.prime = true;
  prime.condition = "warm";
  ASSERT_TRUE(store.AppendAttempt(1, prime).ok());
  ASSERT_TRUE(store.FinishRun(1, "complete").ok());
  const auto runs = store.ListRuns();
  ASSERT_TRUE(runs.ok()) << runs.error().message();
  ASSERT_EQ(runs->size(), 1);
  EXPECT_EQ((*runs)[0].attempts, 3);
  EXPECT_EQ((*runs)[0].failed, 1);
  EXPECT_EQ((*runs)[0].conditions, 2);
  EXPECT_EQ((*runs)[0].status, "complete");
  EXPECT_TRUE((*runs)[0].ended_wall_ns.has_value());
  EXPECT_EQ(*store.LatestRun(), 1);
}

TEST_F(StoreTest, UpdatesARunInPlace) {
  Store store = Opened(PathOf("r.sqlite"));
  auto run = ExampleRun();
  run.id = *store.CreateRun(run);
  run.calibration = {{1, 5, 6, 7, 8}};
  run.conditions.pop_back();
  ASSERT_TRUE(store.UpdateRun(run).ok());
  const auto back = store.LoadRun(1);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->conditions.size(), 1);
  ASSERT_EQ(back->calibration.size(), 1);
  EXPECT_EQ(back->calibration[0].max_ns, 8);
  run.id = 9;
  EXPECT_EQ(store.UpdateRun(run).error().code(), ErrorCode::kUsage);
}

TEST_F(StoreTest, StoresNothingOfAnImportThatFails) {
  Store store = Opened(PathOf("r.sqlite"));
  std::vector<Attempt> attempts(3);
  attempts[0].id = 4;
  attempts[1].id = 4;
  EXPECT_FALSE(store.ImportRun(ExampleRun(), attempts).ok());
  EXPECT_EQ(store.ListRuns()->size(), 0);
  attempts[1].id = std::nullopt;
  attempts[2].id = std::nullopt;
  ASSERT_TRUE(store.ImportRun(ExampleRun(), attempts).ok());
  EXPECT_EQ(attempts[1].id, 5);
  EXPECT_EQ(attempts[2].id, 6);
}

TEST_F(StoreTest, SaysThatARunIsUnknown) {
  Store store = Opened(PathOf("r.sqlite"));
  const auto run = store.LoadRun(7);
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code(), ErrorCode::kUsage);
  EXPECT_THAT(run.error().message(), HasSubstr("no run 7"));
  EXPECT_EQ(store.LatestRun().error().code(), ErrorCode::kNotFound);
}

TEST_F(StoreTest, RefusesAFileThatIsNotSqlite) {
  std::ofstream(PathOf("x")) << std::string(4096, 'x');
  EXPECT_THAT(OpenMessage(PathOf("x"), OpenMode::kReadWrite),
              HasSubstr("corrupt: " + PathOf("x") + " is not an SQLite database"));
  EXPECT_THAT(OpenMessage(PathOf("x"), OpenMode::kReadOnly), HasSubstr("is not an SQLite"));
}

TEST_F(StoreTest, RefusesADatabaseOfAnotherProgramAndLeavesItAlone) {
  {
    const auto other = Database::Open(PathOf("other"), true, false);
    ASSERT_TRUE((*other)->Execute("CREATE TABLE notes (text)").ok());
  }
  EXPECT_THAT(OpenMessage(PathOf("other"), OpenMode::kReadWrite), HasSubstr("another program"));
  const auto other = Database::Open(PathOf("other"), false, false);
  EXPECT_EQ(*(*other)->QueryInt("SELECT count(*) FROM sqlite_schema"), 1);
}

TEST_F(StoreTest, RefusesADatabaseOfALaterVersion) {
  Opened(PathOf("r.sqlite"));
  {
    const auto database = Database::Open(PathOf("r.sqlite"), true, false);
    ASSERT_TRUE((*database)->Execute("PRAGMA user_version = 99").ok());
  }
  for (const OpenMode mode : {OpenMode::kReadOnly, OpenMode::kReadWrite}) {
    const std::string message = OpenMessage(PathOf("r.sqlite"), mode);
    EXPECT_THAT(message, HasSubstr("state: "));
    EXPECT_THAT(message, HasSubstr("later version of rouse (format 99"));
  }
}

TEST_F(StoreTest, NamesADirectoryThatIsMissing) {
  const std::string message = OpenMessage(PathOf("no/such/r.sqlite"), OpenMode::kReadWrite);
  EXPECT_THAT(message, HasSubstr("not_found: "));
  EXPECT_THAT(message, HasSubstr(PathOf("no/such/") + " does not exist"));
}

TEST_F(StoreTest, ReadsNothingWhereThereIsNoDatabaseAndCreatesNone) {
  EXPECT_THAT(OpenMessage(PathOf("none"), OpenMode::kReadOnly), HasSubstr("there is no database"));
  EXPECT_FALSE(std::filesystem::exists(PathOf("none")));
  std::ofstream(PathOf("empty")).flush();
  EXPECT_THAT(OpenMessage(PathOf("empty"), OpenMode::kReadOnly), HasSubstr("holds no runs"));
  EXPECT_THAT(OpenMessage(directory_, OpenMode::kReadWrite), HasSubstr("is a directory"));
}

TEST_F(StoreTest, SaysThatTheFileOrItsDirectoryIsReadOnly) {
  Opened(PathOf("r.sqlite"));
  chmod(PathOf("r.sqlite").c_str(), 0444);
  const std::string file =
      AsNobody([&] { return OpenMessage(PathOf("r.sqlite"), OpenMode::kReadWrite); });
  EXPECT_THAT(file, HasSubstr("permission: "));
  EXPECT_THAT(file, HasSubstr(PathOf("r.sqlite")));
  chmod(directory_.c_str(), 0555);
  const std::string made =
      AsNobody([&] { return OpenMessage(PathOf("new.sqlite"), OpenMode::kReadWrite); });
  EXPECT_THAT(made, HasSubstr("permission: "));
  EXPECT_THAT(made, HasSubstr("--db"));
}

TEST_F(StoreTest, ReadsADatabaseInADirectoryWhereItMayNotWrite) {
  {
    Store store = Opened(PathOf("r.sqlite"));
    ASSERT_TRUE(store.CreateRun(ExampleRun()).ok());
  }
  chmod(PathOf("r.sqlite").c_str(), 0444);
  chmod(directory_.c_str(), 0555);
  const std::string name = AsNobody([&]() -> std::string {
    Result<Store> store = Store::Open(PathOf("r.sqlite"), OpenMode::kReadOnly);
    if (!store.ok()) return store.error().message();
    const auto run = store->LoadRun(1);
    return run.ok() ? run->name : run.error().message();
  });
  EXPECT_EQ(name, "quick");
}

// A limit on file size makes writes fail with EFBIG, as a full disk makes them fail with ENOSPC.
TEST_F(StoreTest, KeepsWhatWasStoredWhenThereIsNoMoreSpace) {
  const std::string message = InChild([&]() -> std::string {
    signal(SIGXFSZ, SIG_IGN);
    Store store = Opened(PathOf("r.sqlite"));
    if (!store.CreateRun(ExampleRun()).ok()) return "no run";
    const rlimit limit{400'000, 400'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int count = 0; count < 10'000; ++count) {
      Attempt attempt = ExampleAttempt();
      const Status status = store.AppendAttempt(1, attempt);
      if (!status.ok()) return std::to_string(count) + " stored, " + status.error().message();
    }
    return "never full";
  });
  EXPECT_THAT(message, HasSubstr("no space for the database"));
  const int stored = std::atoi(message.c_str());
  EXPECT_GT(stored, 0);
  Store store = Opened(PathOf("r.sqlite"));
  EXPECT_EQ(store.LoadAttempts(1)->size(), static_cast<size_t>(stored));
}

TEST_F(StoreTest, SaysThatTheDatabaseIsLocked) {
  Opened(PathOf("r.sqlite"));
  const auto holder = Database::Open(PathOf("r.sqlite"), true, false);
  const auto held = Transaction::Begin(**holder, true);
  ASSERT_TRUE(held.ok());
  const auto second = Database::Open(PathOf("r.sqlite"), true, false);
  (*second)->SetBusyTimeout(20);
  const auto refused = Transaction::Begin(**second, true);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kState);
  EXPECT_THAT(refused.error().message(), HasSubstr("is locked"));
  EXPECT_THAT(refused.error().message(), HasSubstr(PathOf("r.sqlite")));
}

// The child says how many attempts it has stored; then it is killed in the middle of its work.
TEST_F(StoreTest, LosesAtMostTheAttemptInFlightWhenItIsKilled) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    Store store = Opened(PathOf("r.sqlite"));
    if (!store.CreateRun(ExampleRun()).ok()) _exit(1);
    while (true) {
      Attempt attempt = ExampleAttempt();
      if (!store.AppendAttempt(1, attempt).ok()) _exit(1);
      if (write(ends[1], "x", 1) != 1) _exit(1);
    }
  }
  close(ends[1]);
  char byte = 0;
  int64_t acknowledged = 0;
  while (acknowledged < 40 && read(ends[0], &byte, 1) == 1) ++acknowledged;
  kill(child, SIGKILL);
  while (read(ends[0], &byte, 1) == 1) ++acknowledged;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  Store store = Opened(PathOf("r.sqlite"));
  const auto attempts = store.LoadAttempts(1);
  ASSERT_TRUE(attempts.ok()) << attempts.error().message();
  const auto stored = static_cast<int64_t>(attempts->size());
  EXPECT_GE(stored, acknowledged);
  EXPECT_LE(stored, acknowledged + 1);
  EXPECT_EQ(AttemptJson(attempts->back()).size(), AttemptJson(attempts->at(9)).size());
  const auto database = Database::Open(PathOf("r.sqlite"), false, false);
  EXPECT_EQ(*(*database)->QueryText("PRAGMA integrity_check"), "ok");
}

TEST_F(StoreTest, LetsTwoReadersLookOnWhileItWrites) {
  Store writer = Opened(PathOf("r.sqlite"));
  ASSERT_TRUE(writer.CreateRun(ExampleRun()).ok());
  Result<Store> first = Store::Open(PathOf("r.sqlite"), OpenMode::kReadOnly);
  Result<Store> second = Store::Open(PathOf("r.sqlite"), OpenMode::kReadOnly);
  ASSERT_TRUE(first.ok() && second.ok());
  const int64_t before = *first->DataVersion();
  for (size_t count = 1; count <= 20; ++count) {
    Attempt attempt = ExampleAttempt();
    ASSERT_TRUE(writer.AppendAttempt(1, attempt).ok());
    EXPECT_EQ(first->LoadAttempts(1)->size(), count);
    EXPECT_EQ(second->LoadAttempts(1, Detail::kSummary)->size(), count);
  }
  EXPECT_NE(*first->DataVersion(), before);
}

TEST_F(StoreTest, GivesTheLastAttemptsOldestFirst) {
  Store store = Opened(PathOf("r.sqlite"));
  ASSERT_TRUE(store.CreateRun(ExampleRun()).ok());
  EXPECT_TRUE(store.LoadLastAttempts(1, 3)->empty());
  for (int64_t id = 1; id <= 5; ++id) {
    Attempt attempt = ExampleAttempt();
    attempt.id = id;
    ASSERT_TRUE(store.AppendAttempt(1, attempt).ok());
  }
  const auto last = store.LoadLastAttempts(1, 3);
  ASSERT_TRUE(last.ok()) << last.error().message();
  ASSERT_EQ(last->size(), 3);
  EXPECT_EQ(last->front().id, 3);
  EXPECT_EQ(last->back().id, 5);
  EXPECT_TRUE(last->back().counters.empty());
  EXPECT_EQ(store.LoadLastAttempts(1, 99)->size(), 5);
  EXPECT_TRUE(store.LoadLastAttempts(2, 3)->empty());
}

TEST_F(StoreTest, TellsTheTtftsOfEachConditionsSample) {
  Store store = Opened(PathOf("r.sqlite"));
  ASSERT_TRUE(store.CreateRun(results::Run{}).ok());
  const auto add = [&](const std::string& condition, Outcome outcome, bool prime,
                       std::optional<int64_t> ttft_ns) {
    Attempt attempt = ExampleAttempt();
    attempt.id.reset();
    attempt.condition = condition;
    attempt.outcome = outcome;
    attempt.prime = prime;
    attempt.ttft_ns = ttft_ns;
    ASSERT_TRUE(store.AppendAttempt(1, attempt).ok());
  };
  add("warm", Outcome::kOk, true, 1);
  add("warm", Outcome::kOk, false, 20);
  add("cold", Outcome::kTimeout, false, 3);
  add("warm", Outcome::kStateNotReached, false, 4);
  add("warm", Outcome::kOk, false, 10);
  add("warm", Outcome::kOk, false, std::nullopt);
  const Result<std::vector<ConditionTtfts>> ttfts = store.LoadTtfts(1);
  ASSERT_TRUE(ttfts.ok()) << ttfts.error().message();
  ASSERT_EQ(ttfts->size(), 2);
  EXPECT_EQ((*ttfts)[0].condition, "cold");
  EXPECT_TRUE((*ttfts)[0].ttft_ns.empty());
  EXPECT_EQ((*ttfts)[0].failed, 1);
  EXPECT_THAT((*ttfts)[1].ttft_ns, testing::UnorderedElementsAre(20, 10));
  EXPECT_EQ((*ttfts)[1].failed, 0);
  EXPECT_TRUE(store.LoadTtfts(2)->empty());
}

TEST_F(StoreTest, AReaderThatIsToWaitShortlyTellsOfALockSoon) {
  {
    Store store = Opened(PathOf("r.sqlite"));
  }
  const auto holder = Database::Open(PathOf("r.sqlite"), true, false);
  ASSERT_TRUE(holder.ok());
  ASSERT_TRUE((*holder)->Execute("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;").ok());
  const Result<Store> reader = Store::Open(PathOf("r.sqlite"), OpenMode::kReadOnly, 20);
  ASSERT_FALSE(reader.ok());
  EXPECT_THAT(reader.error().message(),
              HasSubstr("locked: another process has been writing for 20 ms"));
}

TEST_F(StoreTest, GivesAReportAllButTheCountersThatItDoesNotPrint) {
  Store store = Opened(PathOf("r.sqlite"));
  ASSERT_TRUE(store.CreateRun(ExampleRun()).ok());
  Attempt attempt = ExampleAttempt();
  ASSERT_TRUE(store.AppendAttempt(1, attempt).ok());
  const auto all = store.LoadAttempts(1);
  const auto report = store.LoadAttempts(1, Detail::kReport);
  ASSERT_TRUE(all.ok() && report.ok());
  Attempt expected = all->front();
  ASSERT_GT(expected.counters.size(), 1U);
  std::erase_if(expected.counters,
                [](const auto& each) { return each.first != "target_read_bytes"; });
  expected.null_reasons.clear();
  EXPECT_EQ(AttemptJson(report->front()), AttemptJson(expected));
}

TEST_F(StoreTest, TellsApartTwoRunsThatWereWrittenAtTheSameTime) {
  Store store = Opened(PathOf("r.sqlite"));
  ASSERT_TRUE(store.CreateRun(ExampleRun()).ok());
  ASSERT_TRUE(store.CreateRun(ExampleRun()).ok());
  std::vector<std::string> written;
  for (const int64_t run : {1, 2, 1, 2, 1}) {
    Attempt attempt = ExampleAttempt();
    attempt.condition = "of run " + std::to_string(run);
    attempt.lanes.front().name = attempt.condition;
    attempt.counters["target_read_bytes"] = MetricValue(run);
    ASSERT_TRUE(store.AppendAttempt(run, attempt).ok());
    if (run == 1) written.push_back(AttemptJson(attempt));
  }
  const auto read = store.LoadAttempts(1);
  ASSERT_TRUE(read.ok());
  ASSERT_EQ(read->size(), written.size());
  for (size_t index = 0; index < written.size(); ++index) {
    EXPECT_EQ(AttemptJson((*read)[index]), written[index]) << index;
  }
}

TEST_F(StoreTest, LeavesOnlyItsOwnFileBehindAfterReading) {
  {
    Store writer = Opened(PathOf("r.sqlite"));
    ASSERT_TRUE(writer.CreateRun(ExampleRun()).ok());
  }
  {
    Result<Store> reader = Store::Open(PathOf("r.sqlite"), OpenMode::kReadOnly);
    ASSERT_TRUE(reader->LoadRun(1).ok());
    EXPECT_FALSE(reader->CreateRun(ExampleRun()).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(PathOf("r.sqlite-wal")));
  EXPECT_FALSE(std::filesystem::exists(PathOf("r.sqlite-shm")));
}

TEST_F(StoreTest, TakesItsPathFromTheFlagThenTheEnvironment) {
  setenv("XDG_DATA_HOME", PathOf("xdg").c_str(), 1);
  setenv("ROUSE_DB", "/from/variable", 1);
  EXPECT_EQ(*StorePath("/from/flag"), "/from/flag");
  EXPECT_EQ(*StorePath(""), "/from/variable");
  unsetenv("ROUSE_DB");
  EXPECT_EQ(*StorePath(""), PathOf("xdg/rouse/rouse.sqlite"));
  EXPECT_FALSE(std::filesystem::exists(PathOf("xdg")));
  Opened(*StorePath(""));  // the default directory is created
  EXPECT_TRUE(std::filesystem::exists(PathOf("xdg/rouse/rouse.sqlite")));
  unsetenv("XDG_DATA_HOME");
  setenv("HOME", "/home/somebody", 1);
  EXPECT_EQ(*StorePath(""), "/home/somebody/.local/share/rouse/rouse.sqlite");
  unsetenv("HOME");
  EXPECT_EQ(StorePath("").error().code(), ErrorCode::kUsage);
}

TEST_F(StoreTest, OpensPathsWithCharactersThatMeanSomethingInAUri) {
  for (const char* const name : {"a?b=c.sqlite", "a#b", "100%41.sqlite", ":memory:"}) {
    Opened(PathOf(name));
    EXPECT_TRUE(std::filesystem::exists(PathOf(name))) << name;
  }
}

TEST_F(StoreTest, KeepsTheLatestProgressOfARunAndNothingOfOneThatToldNone) {
  Store store = Opened(PathOf("r.sqlite"));
  auto wanted = ExampleRun();
  wanted.require_ttft_ns = 500'000'000;
  const int64_t run = *store.CreateRun(wanted);
  EXPECT_EQ(store.LoadRun(run)->require_ttft_ns, 500'000'000);
  ASSERT_TRUE(store.LoadProgress(run).ok());
  EXPECT_FALSE(store.LoadProgress(run)->has_value());
  RunProgress progress{.updated_wall_ns = 5,
                       .boot_id = "boot a",
                       .tool_pid = 42,
                       .tool_start_ticks = 4711,
                       .position = std::nullopt,
                       .done = 0,
                       .total = 15,
                       .condition = "idle 60 min",
                       .doing = "first attempt",
                       .until_wall_ns = std::nullopt,
                       .eta_ns = 9};
  ASSERT_TRUE(store.SetProgress(run, progress).ok());
  progress.position = 3;
  progress.until_wall_ns = 77;
  ASSERT_TRUE(store.SetProgress(run, progress).ok());
  EXPECT_EQ(**Opened(PathOf("r.sqlite")).LoadProgress(run), progress);
}

TEST_F(StoreTest, KeepsTheCasesOfARunAndWhatTheyBecome) {
  Store store = Opened(PathOf("r.sqlite"));
  auto run = ExampleRun();
  run.verification = {{.name = "warm before cold",
                       .kind = CaseKind::kBenefit,
                       .does = "d",
                       .expects = "e",
                       .nothing_lost = "n",
                       .bound_ns = 7},
                      {.name = "client left", .kind = CaseKind::kRecovery, .bound_ns = 5}};
  run.id = *store.CreateRun(run);
  run.verification.at(1).status = CaseStatus::kFailed;
  run.verification.at(1).detail = "it hung";
  run.verification.at(1).took_ns = 4;
  ASSERT_TRUE(store.UpdateRun(run).ok());
  const std::vector<VerificationCase> cases =
      Opened(PathOf("r.sqlite")).LoadRun(*run.id)->verification;
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[0].name, "warm before cold");
  EXPECT_EQ(cases[0].kind, CaseKind::kBenefit);
  EXPECT_EQ(cases[0].does + cases[0].expects + cases[0].nothing_lost, "den");
  EXPECT_EQ(cases[0].status, CaseStatus::kPlanned);
  EXPECT_FALSE(cases[0].took_ns.has_value());
  EXPECT_EQ(cases[1].status, CaseStatus::kFailed);
  EXPECT_EQ(cases[1].detail, "it hung");
  EXPECT_EQ(cases[1].took_ns, 4);
  EXPECT_EQ(cases[1].bound_ns, 5);
}

}  // namespace
}  // namespace rouse::results
