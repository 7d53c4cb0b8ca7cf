#include "engine/start_plan.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rouse::engine {

StartPlan::~StartPlan() {
  RequestStop();
  Join();
}

void StartPlan::Add(Part part) { entries_.push_back({std::move(part), State::kWaiting}); }

void StartPlan::Start(int threads, const std::stop_token& stop, Observer observer, Finish finish) {
  CHECK(threads_.empty() && threads > 0);
  observer_ = std::move(observer);
  finish_ = std::move(finish);
  outer_stop_.emplace(stop, [this] { RequestStop(); });
  threads_.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      pthread_setname_np(pthread_self(), "rouse-start");
      Work();
    });
  }
}

void StartPlan::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (Entry* const entry = Next()) {
      RunPart(*entry, lock);
      continue;
    }
    if (AllEnded()) break;
    changed_.wait(lock);
  }
  if (finishing_) return;
  finishing_ = true;
  const Status status = error_.has_value() ? Status(*error_) : Status();
  lock.unlock();
  if (finish_) finish_(status);
  lock.lock();
  finished_ = true;
  changed_.notify_all();
}

// Called and left with the lock held.
void StartPlan::RunPart(Entry& entry, std::unique_lock<std::mutex>& lock) {
  entry.state = State::kRunning;
  lock.unlock();
  const MonoTime start = MonoNow();
  const Result<std::optional<int64_t>> result = entry.part.run(stop_.get_token());
  const MonoTime end = MonoNow();
  lock.lock();
  if (result.ok()) {
    steps_.push_back({entry.part.stage, entry.part.name, start, end, *result});
    entry.state = State::kDone;
    if (observer_) observer_(steps_.back());
  } else {
    entry.state = State::kFailed;
    // The owner's stop and another part's failure ask alike; the first error tells which it was.
    if (!error_.has_value()) {
      error_ = stop_.stop_requested() ? Error(ErrorCode::kInterrupted, "stopped") : result.error();
    }
    // What needs it can't run any more, and what runs is for nothing.
    stop_.request_stop();
    for (Entry& other : entries_) {
      if (other.state == State::kWaiting) other.state = State::kSkipped;
    }
  }
  changed_.notify_all();
}

StartPlan::Entry* StartPlan::Next() {
  for (Entry& entry : entries_) {
    if (entry.state != State::kWaiting) continue;
    if (std::ranges::all_of(entry.part.needs, [this](const auto& name) { return Ended(name); })) {
      return &entry;
    }
  }
  return nullptr;
}

bool StartPlan::Ended(std::string_view name) const {
  return std::ranges::all_of(entries_, [name](const Entry& entry) {
    return entry.part.name != name || entry.state == State::kDone ||
           entry.state == State::kFailed || entry.state == State::kSkipped;
  });
}

bool StartPlan::AllEnded() const {
  return std::ranges::none_of(entries_, [](const Entry& entry) {
    return entry.state == State::kWaiting || entry.state == State::kRunning;
  });
}

void StartPlan::WaitFor(std::string_view name) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ || Ended(name); });
}

void StartPlan::Join() {
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  outer_stop_.reset();
}

std::vector<Step> StartPlan::TakeSteps() {
  const std::scoped_lock lock(mutex_);
  std::ranges::sort(steps_, [](const Step& a, const Step& b) {
    return a.start != b.start ? a.start < b.start : a.end < b.end;
  });
  return std::exchange(steps_, {});
}

}  // namespace rouse::engine
