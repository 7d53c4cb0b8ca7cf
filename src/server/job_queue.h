// The jobs that wait for the engine thread: first in, first out, bounded. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

#include "base/time.h"
#include "http/server.h"
#include "server/completion_request.h"

namespace rouse::server {

struct Job {
  enum class Kind { kCompletion, kLoad, kSleep, kUnload };

  Kind kind = Kind::kCompletion;
  CompletionRequest request;  // kCompletion
  // Who is to be answered; for kLoad, kSleep and kUnload possibly nobody (null).
  std::shared_ptr<http::ResponseWriter> writer;
  http::RequestTimes times;
  std::stop_source stop;  // requested when the client has gone
};

enum class Admission { kQueued, kFull, kClosed };

class JobQueue {
 public:
  // At most `limit` jobs wait; the one that was popped does not count.
  explicit JobQueue(int64_t limit) : limit_(limit) {}

  Admission Push(std::shared_ptr<Job> job);
  // Waits for a job; null when the queue is closed and empty.
  std::shared_ptr<Job> Pop();
  // The same. Null also at `deadline` and after Wake().
  std::shared_ptr<Job> PopUntil(const std::optional<MonoTime>& deadline);
  // Ends the wait of PopUntil(), the present one or else the next.
  void Wake();
  // The next job, or null when none waits.
  std::shared_ptr<Job> TryPop();
  // A job that waits no longer: true when it was still waiting, and is then gone.
  bool Remove(const Job* job);
  // Refuses further jobs. Those that wait can still be popped.
  void Close();

  bool closed() const;  // and empty
  int64_t waiting() const;
  int64_t limit() const { return limit_; }

 private:
  std::shared_ptr<Job> PopFront();

  const int64_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool closed_ = false;
  bool woken_ = false;
};

}  // namespace rouse::server
