#include "server/job_queue.h"

#include <algorithm>
#include <chrono>

namespace rouse::server {

Admission JobQueue::Push(std::shared_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Admission::kClosed;
    if (static_cast<int64_t>(jobs_.size()) >= limit_) return Admission::kFull;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
  return Admission::kQueued;
}

std::shared_ptr<Job> JobQueue::Pop() {
  while (true) {
    std::shared_ptr<Job> job = PopUntil(std::nullopt);
    if (job != nullptr || closed()) return job;
  }
}

std::shared_ptr<Job> JobQueue::PopUntil(const std::optional<MonoTime>& deadline) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return closed_ || woken_ || !jobs_.empty(); };
  if (deadline) {
    changed_.wait_for(lock, std::chrono::nanoseconds(*deadline - MonoNow()), ready);
  } else {
    changed_.wait(lock, ready);
  }
  woken_ = false;
  return PopFront();
}

void JobQueue::Wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

bool JobQueue::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_ && jobs_.empty();
}

std::shared_ptr<Job> JobQueue::TryPop() {
  const std::lock_guard lock(mutex_);
  return PopFront();
}

std::shared_ptr<Job> JobQueue::PopFront() {
  if (jobs_.empty()) return nullptr;
  std::shared_ptr<Job> job = std::move(jobs_.front());
  jobs_.pop_front();
  return job;
}

bool JobQueue::Remove(const Job* job) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                  [&](const auto& waiting) { return waiting.get() == job; });
  if (found == jobs_.end()) return false;
  jobs_.erase(found);
  return true;
}

void JobQueue::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

int64_t JobQueue::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(jobs_.size());
}

}  // namespace rouse::server
