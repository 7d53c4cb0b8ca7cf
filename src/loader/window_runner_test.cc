#include "loader/window_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

namespace rouse::loader {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Log {
  std::mutex mutex;
  std::vector<int64_t> offsets;
  std::set<std::thread::id> threads;
  int readers = 0;
  int64_t fail_at = -1;
  std::atomic<bool>* cancel_after_first = nullptr;
};

class FakeReader : public WindowReader {
 public:
  explicit FakeReader(Log& log) : log_(log) {}

  Status ReadWindow(const Window& window) override {
    const std::scoped_lock lock(log_.mutex);
    log_.offsets.push_back(window.offset);
    log_.threads.insert(std::this_thread::get_id());
    if (log_.cancel_after_first != nullptr) *log_.cancel_after_first = true;
    if (window.offset == log_.fail_at) return Error(ErrorCode::kIo, "bad sector");
    return {};
  }

 private:
  Log& log_;
};

MakeReader Maker(Log& log) {
  return [&log]() -> Result<std::unique_ptr<WindowReader>> {
    const std::scoped_lock lock(log.mutex);
    ++log.readers;
    return std::unique_ptr<WindowReader>(std::make_unique<FakeReader>(log));
  };
}

Work Windows(int count) {
  Work work;
  for (int i = 0; i < count; ++i) work.windows.push_back({.offset = i * 10, .bytes = 10});
  work.wanted_bytes = count * 10;
  return work;
}

TEST(RunWindows, ReadsInOrderOnTheCallersThreadWhenThereIsOne) {
  Log log;
  ASSERT_TRUE(RunWindows(Windows(4), Maker(log), {.threads = 1}, {}).ok());
  EXPECT_THAT(log.offsets, ElementsAre(0, 10, 20, 30));
  EXPECT_THAT(log.threads, ElementsAre(std::this_thread::get_id()));
}

TEST(RunWindows, ReadsEachWindowOnceWithManyThreadsAndAReaderForEach) {
  Log log;
  ASSERT_TRUE(RunWindows(Windows(200), Maker(log), {.threads = 4}, {}).ok());
  EXPECT_EQ(log.readers, 4);
  EXPECT_EQ(log.offsets.size(), 200U);
  EXPECT_EQ(std::set<int64_t>(log.offsets.begin(), log.offsets.end()).size(), 200U);
}

TEST(RunWindows, StartsNoMoreThreadsThanThereAreWindows) {
  Log log;
  ASSERT_TRUE(RunWindows(Windows(2), Maker(log), {.threads = 16}, {}).ok());
  EXPECT_EQ(log.readers, 2);
}

TEST(RunWindows, StopsAtTheFirstError) {
  Log log;
  log.fail_at = 20;
  const Status status = RunWindows(Windows(100), Maker(log), {.threads = 1}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message(), HasSubstr("bad sector"));
  EXPECT_THAT(log.offsets, ElementsAre(0, 10, 20));
}

TEST(RunWindows, StopsBetweenWindowsWhenCancelled) {
  Log log;
  std::atomic<bool> cancel{false};
  log.cancel_after_first = &cancel;
  const Status status = RunWindows(Windows(100), Maker(log), {.threads = 1, .cancel = &cancel}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kInterrupted);
  EXPECT_THAT(log.offsets, ElementsAre(0));
}

TEST(RunWindows, EndsWithAProgressReportOfEverything) {
  Log log;
  Work work = Windows(3);
  work.done_before_bytes = 70;
  work.wanted_bytes = 100;
  std::vector<WarmProgress> reports;
  ASSERT_TRUE(RunWindows(work, Maker(log), {.threads = 1}, [&reports](const WarmProgress& report) {
                reports.push_back(report);
              }).ok());
  ASSERT_FALSE(reports.empty());
  EXPECT_EQ(reports.back().done_bytes, 100);
  EXPECT_EQ(reports.back().wanted_bytes, 100);
}

TEST(RunWindows, OpensNothingWhenThereIsNothingToRead) {
  Log log;
  ASSERT_TRUE(RunWindows(Windows(0), Maker(log), {.threads = 2}, {}).ok());
  EXPECT_EQ(log.readers, 0);
}

}  // namespace
}  // namespace rouse::loader
