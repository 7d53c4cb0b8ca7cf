#include "server/job_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace rouse::server {
namespace {

TEST(JobQueue, GivesJobsInOrder) {
  JobQueue queue(3);
  std::vector<std::shared_ptr<Job>> jobs;
  for (int count = 0; count < 3; ++count) jobs.push_back(std::make_shared<Job>());
  for (const auto& job : jobs) EXPECT_EQ(queue.Push(job), Admission::kQueued);
  for (const auto& job : jobs) EXPECT_EQ(queue.Pop(), job);
  EXPECT_EQ(queue.TryPop(), nullptr);
}

TEST(JobQueue, IsFullAtItsLimitAndNotBefore) {
  JobQueue queue(1);
  EXPECT_EQ(queue.Push(std::make_shared<Job>()), Admission::kQueued);
  EXPECT_EQ(queue.Push(std::make_shared<Job>()), Admission::kFull);
  EXPECT_EQ(queue.waiting(), 1);
  queue.Pop();
  EXPECT_EQ(queue.Push(std::make_shared<Job>()), Admission::kQueued);
}

TEST(JobQueue, RemovesOnlyWhatStillWaits) {
  JobQueue queue(2);
  const auto one = std::make_shared<Job>();
  const auto two = std::make_shared<Job>();
  queue.Push(one);
  queue.Push(two);
  EXPECT_TRUE(queue.Remove(one.get()));
  EXPECT_FALSE(queue.Remove(one.get()));
  EXPECT_EQ(queue.Pop(), two);
  EXPECT_FALSE(queue.Remove(two.get()));
}

TEST(JobQueue, GivesWhatIsLeftAfterItWasClosed) {
  JobQueue queue(2);
  queue.Push(std::make_shared<Job>());
  queue.Close();
  EXPECT_EQ(queue.Push(std::make_shared<Job>()), Admission::kClosed);
  EXPECT_NE(queue.Pop(), nullptr);
  EXPECT_EQ(queue.Pop(), nullptr);
}

TEST(JobQueue, EndsAWaitAtItsTimeAndWhenWoken) {
  JobQueue queue(2);
  const MonoTime start = MonoNow();
  EXPECT_EQ(queue.PopUntil(start + 5 * kNsPerMs), nullptr);
  EXPECT_GE(MonoNow() - start, 5 * kNsPerMs);
  queue.Wake();  // before the wait: it is not lost
  EXPECT_EQ(queue.PopUntil(std::nullopt), nullptr);
  EXPECT_FALSE(queue.closed());
  queue.Push(std::make_shared<Job>());
  queue.Wake();
  EXPECT_NE(queue.PopUntil(std::nullopt), nullptr);
}

TEST(JobQueue, LosesNothingBetweenThreads) {
  constexpr int kEach = 2000;
  JobQueue queue(64);
  std::atomic<int> popped = 0;
  std::thread taking([&] {
    while (queue.Pop() != nullptr) ++popped;
  });
  std::vector<std::thread> giving;
  for (int thread = 0; thread < 3; ++thread) {
    giving.emplace_back([&] {
      for (int count = 0; count < kEach; ++count) {
        while (queue.Push(std::make_shared<Job>()) == Admission::kFull) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : giving) thread.join();
  queue.Close();
  taking.join();
  EXPECT_EQ(popped, 3 * kEach);
}

}  // namespace
}  // namespace rouse::server
