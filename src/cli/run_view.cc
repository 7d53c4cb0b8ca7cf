#include "cli/run_view.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <ctime>

#include "base/terminal_text.h"
#include "base/units.h"

namespace rouse::cli {
namespace {

constexpr size_t kKept = 32;                  // results, for the sparkline
constexpr int64_t kSettleNs = 60 * kNsPerMs;  // steps that are over sooner are not drawn
constexpr int64_t kTickNs = kNsPerSecond;
constexpr int64_t kSlowTickNs = 10 * kNsPerSecond;  // while many minutes of idling are left
constexpr int64_t kManyMinutesNs = 120 * kNsPerSecond;
constexpr int64_t kLeaveAloneNs = 2 * kNsPerSecond;
constexpr int64_t kWorthALineNs = 60 * kNsPerSecond;
constexpr int64_t kFarNs = 3600 * kNsPerSecond;

std::string ClockText(int64_t wall_ns) {
  const std::time_t seconds = wall_ns / kNsPerSecond;
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%H:%M:%S", &local);
  return text.data();
}

std::string AttemptLine(const results::Attempt& attempt, const lab::Progress& progress) {
  std::string line = "[" + std::to_string(progress.done) + "/" + std::to_string(progress.total) +
                     "] " + FitText(attempt.condition, 40) + ": ";
  if (attempt.ttft_ns) {
    line += "TTFT " + FormatDuration(*attempt.ttft_ns);
    if (attempt.outcome != results::Outcome::kOk) line += ", ";
  }
  if (attempt.outcome != results::Outcome::kOk) {
    line += std::string(results::OutcomeName(attempt.outcome)) + " (" +
            FitText(attempt.outcome_detail.substr(0, attempt.outcome_detail.find('\n')), 200) + ")";
  }
  return line + ", " + report::CountdownText(progress.eta_ns) + " left";
}

}  // namespace

RunView::RunView(const CommonFlags& flags, Progress& progress)
    : progress_(progress), live_(progress.live()) {
  unicode_ = TerminalOf(flags, STDERR_FILENO).unicode;
  if (!live_) return;
  // Ctrl-C is for the thread that measures: it ends a sleep there.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

RunView::~RunView() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  progress_.Clear();
}

void RunView::OnStep(const lab::Progress& now) {
  const std::lock_guard lock(mutex_);
  now_ = now;
  step_since_ = eta_since_ = MonoNow();
  idle_ns_ = now.until_wall_ns ? std::max<int64_t>(0, *now.until_wall_ns - WallNowNs()) : 0;
  idle_until_ = MonoNow() + idle_ns_;
  if (!live_) {
    if (idle_ns_ < kWorthALineNs) return;
    progress_.Line("[" + std::to_string(now.done) + "/" + std::to_string(now.total) + "] " +
                   FitText(now.condition, 40) + ": " + now.step + ", until " +
                   ClockText(*now.until_wall_ns));
    return;
  }
  dirty_ = true;
  // Now or not at all: from here on the terminal is left alone.
  if (now.request) Draw();
  changed_.notify_one();
}

void RunView::OnAttempt(const results::Attempt& attempt, const lab::Progress& now) {
  if (attempt.prime) return;
  const std::lock_guard lock(mutex_);
  if (!live_) {
    progress_.Update(AttemptLine(attempt, now));
    return;
  }
  const bool ok = attempt.outcome == results::Outcome::kOk;
  results_.ttft_ns.push_back(ok ? attempt.ttft_ns : std::nullopt);
  results_.last_condition = attempt.condition;
  if (results_.ttft_ns.size() > kKept) results_.ttft_ns.erase(results_.ttft_ns.begin());
  now_ = now;
  now_.request = false;
  eta_since_ = MonoNow();
  dirty_ = true;
  changed_.notify_one();
}

report::LiveStatus RunView::Facts() const {
  report::LiveStatus facts = results_;
  facts.done = now_.done;
  facts.total = now_.total;
  facts.condition = now_.condition;
  facts.step = now_.step;
  facts.step_ns = now_.request ? 0 : MonoNow() - step_since_;
  facts.eta_ns = now_.eta_ns - (MonoNow() - eta_since_);
  facts.stopping = InterruptRequested();
  if (now_.until_wall_ns) {
    facts.idle = {idle_until_ - MonoNow(), idle_ns_, ClockText(*now_.until_wall_ns)};
  }
  return facts;
}

void RunView::Draw() {
  dirty_ = false;
  drawn_at_ = MonoNow();
  progress_.Show(report::LiveStatusLines(Facts(), TerminalColumns(STDERR_FILENO), unicode_));
}

MonoTime RunView::NextDraw() const {
  const MonoTime never = MonoNow() + kFarNs;
  if (now_.request) return never;
  if (dirty_) return step_since_ + kSettleNs;
  if (!now_.until_wall_ns) return drawn_at_ + kTickNs;
  const int64_t left_ns = idle_until_ - MonoNow();
  if (left_ns < kLeaveAloneNs + kTickNs) return never;
  return drawn_at_ + (left_ns > kManyMinutesNs ? kSlowTickNs : kTickNs);
}

void RunView::Loop() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const int64_t wait_ns = NextDraw() - MonoNow();
    if (wait_ns > 0) {
      changed_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
      continue;
    }
    Draw();
  }
}

}  // namespace rouse::cli
