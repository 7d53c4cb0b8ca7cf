#include "server/job_queue.h"

#include <algorithm>

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
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !jobs_.empty(); });
  return PopFront();
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
