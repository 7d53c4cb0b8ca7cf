#include "engine/start_plan.h"

#include <gtest/gtest.h>

#include <latch>
#include <map>

namespace rouse::engine {
namespace {

using Bytes = Result<std::optional<int64_t>>;

StartPlan::Part Quick(const std::string& name, std::vector<std::string> needs,
                      std::vector<std::string>& order, std::mutex& mutex) {
  return {Stage::kWeights, name, std::move(needs), [&order, &mutex, name](const std::stop_token&) {
            const std::scoped_lock lock(mutex);
            order.push_back(name);
            return Bytes(std::optional<int64_t>(7));
          }};
}

TEST(StartPlan, RunsEachPartAfterWhatItNeeds) {
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<std::string> order;
    std::mutex mutex;
    StartPlan plan;
    plan.Add(Quick("header", {}, order, mutex));
    plan.Add(Quick("weights", {"header", "backends"}, order, mutex));
    plan.Add(Quick("context", {"weights"}, order, mutex));
    plan.Add(Quick("check", {"context", "weights"}, order, mutex));
    Status ended = Error(ErrorCode::kInternal, "not finished");
    plan.Start(threads, {}, {}, [&](const Status& status) { ended = status; });
    plan.Join();
    EXPECT_TRUE(ended.ok());
    EXPECT_EQ(order, (std::vector<std::string>{"header", "weights", "context", "check"}));
    const std::vector<Step> steps = plan.TakeSteps();
    ASSERT_EQ(steps.size(), 4U);
    EXPECT_EQ(steps[1].bytes, 7);
    EXPECT_LE(steps[0].end, steps[1].start);
  }
}

// Each waits for the other to have begun: in a chain that would never end.
TEST(StartPlan, RunsWhatIsIndependentAtTheSameTime) {
  std::latch both(2);
  StartPlan plan;
  for (const char* name : {"tokenizer", "weights"}) {
    plan.Add({Stage::kTokenize, name, {}, [&](const std::stop_token&) {
                both.arrive_and_wait();
                return Bytes(std::nullopt);
              }});
  }
  plan.Start(2, {}, {}, {});
  plan.Join();
  EXPECT_EQ(plan.TakeSteps().size(), 2U);
}

TEST(StartPlan, LetsAWaiterGoWhenItsPartHasEndedAndNotLater) {
  std::latch released(1);
  StartPlan plan;
  plan.Add({Stage::kTokenize, "tokenizer", {}, [](const std::stop_token&) {
              return Bytes(std::nullopt);
            }});
  plan.Add({Stage::kWeights, "weights", {}, [&](const std::stop_token&) {
              released.wait();
              return Bytes(std::nullopt);
            }});
  bool finished = false;
  plan.Start(2, {}, {}, [&](const Status&) { finished = true; });
  plan.WaitFor("tokenizer");
  plan.WaitFor("no such part");  // kept from before
  EXPECT_FALSE(finished);
  released.count_down();
  plan.Join();
  EXPECT_TRUE(finished);
}

TEST(StartPlan, EndsWithTheFirstErrorAndStopsWhatRuns) {
  std::vector<std::string> order;
  std::mutex mutex;
  StartPlan plan;
  std::latch runs(1);
  plan.Add({Stage::kTokenize, "long", {}, [&](const std::stop_token& stop) {
              runs.count_down();
              while (!stop.stop_requested()) std::this_thread::yield();
              return Bytes(Error(ErrorCode::kInterrupted, "stopped"));
            }});
  plan.Add({Stage::kWeights, "weights", {}, [&](const std::stop_token&) {
              runs.wait();
              return Bytes(Error(ErrorCode::kCorrupt, "cut"));
            }});
  plan.Add(Quick("context", {"weights"}, order, mutex));
  Status ended;
  plan.Start(2, {}, {}, [&](const Status& status) { ended = status; });
  plan.WaitFor("context");
  plan.Join();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code(), ErrorCode::kCorrupt);
  EXPECT_TRUE(order.empty()) << "a part ran without what it needs";
}

// A part that is stopped may fail with whatever it says; one that failed before is not excused by a
// stop that came later.
TEST(StartPlan, TellsFailingFromBeingStopped) {
  for (const bool stopped_first : {true, false}) {
    std::stop_source stop;
    StartPlan plan;
    std::latch failed(1);
    plan.Add({Stage::kWeights, "weights", {}, [&](const std::stop_token&) {
                if (stopped_first) stop.request_stop();
                return Bytes(Error(ErrorCode::kCorrupt, "cut"));
              }});
    plan.Add({Stage::kTokenize, "tokenizer", {"weights"}, [&](const std::stop_token&) {
                return Bytes(std::nullopt);
              }});
    Status ended;
    plan.Start(1, stop.get_token(), {}, [&](const Status& status) {
      stop.request_stop();
      ended = status;
    });
    plan.Join();
    ASSERT_FALSE(ended.ok());
    EXPECT_EQ(ended.error().code(), stopped_first ? ErrorCode::kInterrupted : ErrorCode::kCorrupt);
  }
}

TEST(StartPlan, IsStoppedFromOutsideAndByItsDestructor) {
  for (const bool from_outside : {true, false}) {
    std::stop_source stop;
    Status ended;
    {
      StartPlan plan;
      std::latch runs(1);
      plan.Add({Stage::kWeights, "weights", {}, [&](const std::stop_token& token) {
                  runs.count_down();
                  while (!token.stop_requested()) std::this_thread::yield();
                  return Bytes(Error(ErrorCode::kInterrupted, "stopped"));
                }});
      plan.Start(1, stop.get_token(), {}, [&](const Status& status) { ended = status; });
      runs.wait();
      if (from_outside) {
        stop.request_stop();
        plan.Join();
      }
    }
    ASSERT_FALSE(ended.ok());
    EXPECT_EQ(ended.error().code(), ErrorCode::kInterrupted);
  }
}

}  // namespace
}  // namespace rouse::engine
