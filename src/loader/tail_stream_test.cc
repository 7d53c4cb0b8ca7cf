// A real file, computed by a thread that reads it in order; what is resident is told by the kernel.
#include "loader/tail_stream.h"

#include <gtest/gtest.h>

#include "base/time.h"
#include "gguf/test_bytes.h"
#include "os/page_cache.h"

namespace rouse::loader {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(PlanTail, KeepsEverythingThatFits) {
  const TailPlan plan = PlanTail(100 * kMiB, 100 * kMiB);
  EXPECT_EQ(plan.keep_bytes, 100 * kMiB);
  EXPECT_EQ(plan.ahead_bytes, 0);
}

TEST(PlanTail, StaysWithinTheMemory) {
  for (const int64_t memory : {int64_t{0}, 10 * kMiB, 300 * kMiB, 3000 * kMiB}) {
    const TailPlan plan = PlanTail(4000 * kMiB, memory);
    EXPECT_GE(plan.keep_bytes, 0);
    EXPECT_LE(plan.keep_bytes + plan.ahead_bytes + plan.behind_bytes, memory);
  }
  EXPECT_GE(PlanTail(4000 * kMiB, 3000 * kMiB).keep_bytes, 2800 * kMiB);
}

class TailStreamTest : public ::testing::Test {
 protected:
  static constexpr int64_t kFileBytes = 64 * kMiB + 12'345;

  void SetUp() override {
    path_ = folder_.Write("model", std::string(static_cast<size_t>(kFileBytes), 'x'));
    const Result<os::EvictReport> evicted = os::EvictFile(path_);
    ASSERT_TRUE(evicted.ok());
    if (!evicted->Cold()) GTEST_SKIP() << "files can't be evicted here";
    Result<os::MappedFile> map = os::MappedFile::Map(path_);
    ASSERT_TRUE(map.ok());
    map_ = std::move(map).value();
  }

  // As computing does it: every page, in order, with a while between megabytes.
  void Pass() const {
    for (int64_t at = 0; at < kFileBytes; at += 4096) {
      static_cast<void>(*static_cast<const volatile std::byte*>(map_.data() + at));
      if (at % kMiB == 0) RealClock().SleepFor(kNsPerMs);
    }
  }

  double Ratio(int64_t offset, int64_t bytes) const {
    const os::ByteRange range{offset, bytes};
    const auto read = os::ReadResidencyRanges(path_, {&range, 1});
    return read.ok() ? read->front().Ratio() : -1;
  }

  gguf::TestFolder folder_;
  std::string path_;
  os::MappedFile map_;
};

TEST_F(TailStreamTest, GivesUpWhatWasUsedAndKeepsTheLeadingPart) {
  const TailPlan plan = {.keep_bytes = 16 * kMiB, .behind_bytes = 8 * kMiB, .ahead_bytes = 0};
  auto stream = TailStream::Start({path_, map_.data(), 0, map_.bytes()}, plan);
  ASSERT_TRUE(stream.ok()) << stream.error().message();
  (*stream)->SetComputing(true);
  for (int pass = 0; pass < 3; ++pass) {
    Pass();
    EXPECT_EQ(Ratio(0, plan.keep_bytes), 1.0);
    // From its end back to behind_bytes before it, and what the kernel has read ahead since.
    EXPECT_LE(Ratio(plan.keep_bytes, 24 * kMiB), 0.05) << pass;
  }
  (*stream)->SetComputing(false);
  const TailStream::Report report = (*stream)->Told();
  EXPECT_EQ(report.passes, 2);  // after the first
  EXPECT_GT(report.given_up_bytes, 100 * kMiB);
  EXPECT_EQ(report.ahead_bytes, 0);
}

TEST_F(TailStreamTest, GivesUpWholeLargePagesWhereTheMappingBeginsInsideOne) {
  constexpr int64_t kHeaderBytes = 40'960;  // the engine unmaps what lies before the first tensor
  os::PreferLargePages(map_.data(), map_.bytes());
  const TailPlan plan = {.keep_bytes = 16 * kMiB, .behind_bytes = 8 * kMiB, .ahead_bytes = 0};
  auto stream = TailStream::Start(
      {path_, map_.data() + kHeaderBytes, kHeaderBytes, map_.bytes() - kHeaderBytes}, plan);
  ASSERT_TRUE(stream.ok()) << stream.error().message();
  (*stream)->SetComputing(true);
  Pass();
  EXPECT_EQ(Ratio(0, plan.keep_bytes), 1.0);
  EXPECT_LE(Ratio(20 * kMiB, 20 * kMiB), 0.05);
}

TEST_F(TailStreamTest, DoesNothingWhileNothingComputes) {
  auto stream = TailStream::Start({path_, map_.data(), 0, map_.bytes()},
                                  {.keep_bytes = 0, .behind_bytes = 0, .ahead_bytes = 8 * kMiB});
  ASSERT_TRUE(stream.ok());
  Pass();
  EXPECT_EQ((*stream)->Told().given_up_bytes, 0);
  EXPECT_EQ(Ratio(0, kFileBytes), 1.0);
}

TEST_F(TailStreamTest, ReadsAheadOfComputing) {
  auto stream =
      TailStream::Start({path_, map_.data(), 0, map_.bytes()},
                        {.keep_bytes = 0, .behind_bytes = 64 * kMiB, .ahead_bytes = 16 * kMiB});
  ASSERT_TRUE(stream.ok());
  (*stream)->SetComputing(true);
  const auto ready = [&] {
    return Ratio(2 * kMiB, 14 * kMiB) == 1 && (*stream)->Told().ahead_bytes >= 14 * kMiB;
  };
  for (int tries = 0; tries < 2000 && !ready(); ++tries) {
    RealClock().SleepFor(2 * kNsPerMs);
  }
  EXPECT_EQ(Ratio(2 * kMiB, 14 * kMiB), 1.0);
  EXPECT_GE((*stream)->Told().ahead_bytes, 14 * kMiB);
}

}  // namespace
}  // namespace rouse::loader
