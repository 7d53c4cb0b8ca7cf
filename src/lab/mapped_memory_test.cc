#include "lab/mapped_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "base/fd.h"

namespace rouse::lab {
namespace {

TEST(MappedBytes, CountsTheMappingsOfOneFileAndNothingElse) {
  constexpr std::string_view kSmaps =
      "7f0000000000-7f0000100000 r--s 00000000 fe:00 11                         /m/a.gguf\n"
      "Size:               1024 kB\nRss:                 256 kB\nPss:                 128 kB\n"
      "7f0000200000-7f0000300000 r--s 00100000 fe:00 11                         /m/a.gguf\n"
      "Rss:                   4 kB\n"
      "7f0000400000-7f0000500000 r--s 00000000 fe:00 12                         /m/a.gguf2\n"
      "Rss:                  32 kB\n"
      "7f0000600000-7f0000700000 rw-p 00000000 00:00 0 \n"
      "Rss:                  64 kB\n";
  EXPECT_EQ(MappedBytesIn(kSmaps, "/m/a.gguf"), 260 * 1024);
  EXPECT_EQ(MappedBytesIn(kSmaps, "/m/b.gguf"), 0);
  EXPECT_EQ(MappedBytesIn("", "/m/a.gguf"), 0);
}

TEST(MappedBytes, FollowAMappingThatDropsItsPages) {
  char name[] = "/tmp/rouse-mapped-XXXXXX";
  const Fd file(mkstemp(name));
  ASSERT_TRUE(file.valid());
  constexpr size_t kBytes = 1U << 20U;
  ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
  void* const address = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  ASSERT_NE(address, MAP_FAILED);
  const std::vector<int> self = {getpid()};
  EXPECT_EQ(MappedResidentBytes(os::ProcRoot::Real(), self, name), kBytes);
  ASSERT_EQ(madvise(address, kBytes, MADV_DONTNEED), 0);
  EXPECT_EQ(MappedResidentBytes(os::ProcRoot::Real(), self, name), 0);
  munmap(address, kBytes);
  unlink(name);
  EXPECT_FALSE(MappedResidentBytes(os::ProcRoot::Real(), {}, "/nowhere/at-all").has_value());
}

}  // namespace
}  // namespace rouse::lab
