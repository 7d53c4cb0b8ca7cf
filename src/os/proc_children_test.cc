#include "os/proc_children.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "os/fake_root.h"

namespace rouse::os {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(ReadChildren, AddsUpWhatEachThreadHasForked) {
  FakeRoot root;
  root.Write("proc/7/task/7/children", "71 98 \n");
  root.Write("proc/7/task/9/children", "80 ");
  root.Write("proc/7/task/8/children", "");
  EXPECT_THAT(ReadChildren(root.Open(), 7), ElementsAre(71, 80, 98));
}

TEST(ReadChildren, AreNoneOfAProcessThatEndedOrAKernelThatDoesNotTell) {
  FakeRoot root;
  root.Write("proc/7/task/7/stat", "7 (x) S 1");
  EXPECT_THAT(ReadChildren(root.Open(), 7), IsEmpty());
  EXPECT_THAT(ReadChildren(root.Open(), 8), IsEmpty());
  root.Write("proc/7/task/7/children", "what 0 -3");
  EXPECT_THAT(ReadChildren(root.Open(), 7), IsEmpty());
}

TEST(ReadChildren, HasAChildOfOurOwn) {
  const pid_t pid = fork();
  if (pid == 0) {
    pause();
    _exit(0);
  }
  EXPECT_THAT(ReadChildren(ProcRoot::Real(), getpid()), Contains(pid));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

}  // namespace
}  // namespace rouse::os
