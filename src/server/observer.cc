#include "server/observer.h"

#include <pthread.h>

#include <utility>

namespace rouse::server {

Observer::Observer() : thread_([this] { Run(); }) {}

Observer::~Observer() { Stop(); }

bool Observer::Post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || tasks_.size() >= kLimit) return false;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

void Observer::Stop() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Observer::Run() {
  pthread_setname_np(pthread_self(), "rouse-observer");
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace rouse::server
