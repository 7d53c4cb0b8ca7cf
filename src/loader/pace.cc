#include "loader/pace.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "os/psi.h"

namespace rouse::loader {
namespace {

constexpr double kCpuShare = 0.05;       // of a core, when others want it
constexpr double kOthersWait = 0.10;     // of the time, for a core
constexpr double kMemoryIsShort = 0.10;  // of the time, for memory
constexpr int64_t kDecideEveryNs = 25 * kNsPerMs;
constexpr int64_t kLongestSleepNs = 200 * kNsPerMs;
constexpr int64_t kMemorySleepNs = 50 * kNsPerMs;
constexpr int64_t kCancelLookNs = 10 * kNsPerMs;
constexpr int kShortEnough = 4;

bool Exceeds(const std::optional<int64_t>& part_ns, int64_t whole_ns, double share) {
  return part_ns && static_cast<double>(*part_ns) > share * static_cast<double>(whole_ns);
}

int64_t ThreadCpuNs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

std::optional<int64_t> WaitUs(const os::ProcRoot& root, os::PsiResource resource) {
  const Result<os::Psi> psi = os::ReadPsi(root, resource);
  return psi.ok() ? psi->some.total_us : std::nullopt;
}

// The growth of a counter of microseconds; remembers its new value.
std::optional<int64_t> GrowthNs(std::optional<int64_t>& last_us, std::optional<int64_t> now_us) {
  const std::optional<int64_t> before_us = std::exchange(last_us, now_us);
  if (!before_us || !now_us) return std::nullopt;
  return (*now_us - *before_us) * kNsPerUs;
}

}  // namespace

PaceDecision Decide(const PaceInput& input) {
  PaceDecision decision;
  if (input.interval_ns <= 0) return decision;
  if (Exceeds(input.memory_wait_ns, input.interval_ns, kMemoryIsShort)) {
    decision.memory_is_short = true;
    decision.sleep_ns = kMemorySleepNs;
  }
  if (input.computing || Exceeds(input.cpu_wait_ns, input.interval_ns, kOthersWait)) {
    const auto fair_ns = static_cast<int64_t>(static_cast<double>(input.own_cpu_ns) / kCpuShare);
    const int64_t rest_ns = fair_ns - input.interval_ns;
    decision.sleep_ns = std::max(decision.sleep_ns, std::min(rest_ns, kLongestSleepNs));
  }
  return decision;
}

Pacer::Pacer(const os::ProcRoot& root, Clock& clock) : root_(root), clock_(clock) {}

Pacer::Thread::Thread(Pacer& pacer)
    : pacer_(pacer),
      decided_(pacer.clock_.Now()),
      cpu_ns_(ThreadCpuNs()),
      cpu_wait_us_(WaitUs(pacer.root_, os::PsiResource::kCpu)),
      memory_wait_us_(WaitUs(pacer.root_, os::PsiResource::kMemory)) {}

bool Pacer::Thread::Pause(const std::atomic<bool>& cancel) {
  const MonoTime now = pacer_.clock_.Now();
  if (now - decided_ < kDecideEveryNs) return true;
  PaceInput input;
  input.interval_ns = now - decided_;
  const int64_t cpu_ns = ThreadCpuNs();
  input.own_cpu_ns = cpu_ns - std::exchange(cpu_ns_, cpu_ns);
  input.cpu_wait_ns = GrowthNs(cpu_wait_us_, WaitUs(pacer_.root_, os::PsiResource::kCpu));
  input.memory_wait_ns = GrowthNs(memory_wait_us_, WaitUs(pacer_.root_, os::PsiResource::kMemory));
  input.computing = pacer_.computing_;
  const PaceDecision decision = Decide(input);
  short_in_a_row_ = decision.memory_is_short ? short_in_a_row_ + 1 : 0;
  const MonoTime until = now + decision.sleep_ns;
  while (pacer_.clock_.Now() < until && !cancel) {
    pacer_.clock_.SleepUntil(std::min(until, pacer_.clock_.Now() + kCancelLookNs));
  }
  pacer_.slept_ns_ += std::max<int64_t>(0, decision.sleep_ns);
  decided_ = now;
  return short_in_a_row_ < kShortEnough;
}

}  // namespace rouse::loader
