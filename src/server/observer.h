// A thread for short work that must run neither on the I/O thread nor on the engine's: reading how
// much of a large file is resident (10 ms for 4 GB), parsing a large body.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace rouse::server {

class Observer {
 public:
  Observer();
  ~Observer();  // Stop()

  // False when kLimit tasks wait already, or after Stop(). Never blocks.
  bool Post(std::function<void()> task);
  // Drops what waits and joins.
  void Stop();

 private:
  void Run();

  static constexpr size_t kLimit = 256;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace rouse::server
