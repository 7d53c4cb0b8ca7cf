#include "os/psi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::HasSubstr;

TEST(Psi, ReadsBothLines) {
  FakeRoot fake;
  fake.Write("proc/pressure/io",
             "some avg10=98.57 avg60=92.75 avg300=46.91 total=382418811\n"
             "full avg10=1.50 avg60=2.25 avg300=3.75 total=4111762\n");
  const Result<Psi> psi = ReadPsi(fake.Open(), PsiResource::kIo);
  ASSERT_TRUE(psi.ok()) << psi.error().message();
  EXPECT_DOUBLE_EQ(*psi->some.avg10, 98.57);
  EXPECT_DOUBLE_EQ(*psi->some.avg60, 92.75);
  EXPECT_DOUBLE_EQ(*psi->some.avg300, 46.91);
  EXPECT_EQ(psi->some.total_us, 382418811);
  EXPECT_DOUBLE_EQ(*psi->full.avg10, 1.5);
  EXPECT_EQ(psi->full.total_us, 4111762);
}

TEST(Psi, ReadsTheFileOfEachResource) {
  FakeRoot fake;
  fake.Write("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=11\n");
  fake.Write("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=22\n");
  EXPECT_EQ(ReadPsi(fake.Open(), PsiResource::kCpu)->some.total_us, 11);
  EXPECT_EQ(ReadPsi(fake.Open(), PsiResource::kMemory)->some.total_us, 22);
}

TEST(Psi, SaysWhichFileIsMissing) {
  const FakeRoot fake;
  const Result<Psi> psi = ReadPsi(fake.Open(), PsiResource::kIo);
  EXPECT_EQ(psi.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(psi.error().message(), HasSubstr("/proc/pressure/io"));
}

TEST(Psi, RefusesMalformedAndEmptyFiles) {
  for (const char* const bad :
       {"", "none avg10=0.00\n", "some avg10=low total=1\n", "some avg10=1.0 total=many\n",
        "some avg10=nan total=1\n", "some avg10=-1.0 total=1\n", "some avg10= total=1\n"}) {
    FakeRoot fake;
    fake.Write("proc/pressure/io", bad);
    EXPECT_EQ(ReadPsi(fake.Open(), PsiResource::kIo).error().code(), ErrorCode::kCorrupt) << bad;
  }
}

TEST(Psi, LeavesTheFullLineEmptyWhereTheKernelHasNone) {
  FakeRoot fake;
  fake.Write("proc/pressure/cpu", "some avg10=1.00 total=11\n");
  const Result<Psi> psi = ReadPsi(fake.Open(), PsiResource::kCpu);
  ASSERT_TRUE(psi.ok());
  EXPECT_EQ(psi->full.total_us, std::nullopt);
  EXPECT_EQ(psi->some.avg60, std::nullopt);
}

}  // namespace
}  // namespace rouse::os
