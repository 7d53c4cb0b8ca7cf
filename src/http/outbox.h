// The sending half of one connection: responses in, bytes out, from any thread. It sends on the
// caller's thread while the kernel takes everything and buffers what it does not. It neither reads
// nor waits: the I/O thread is told when there is something to wait for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "http/server.h"

namespace rouse::http {

class Outbox : public std::enable_shared_from_this<Outbox> {
 public:
  // Called from any thread, with no lock held.
  struct Hooks {
    std::function<void()> needs_flush;  // wait until the socket is writable, then Flush()
    std::function<void()> broken;       // the connection is of no more use: Close() it
    std::function<void(bool reusable)> response_done;
  };

  // What a request decides about its response.
  struct Traits {
    bool keep_alive = true;
    bool http10 = false;
    bool omit_body = false;  // HEAD
  };

  // `fd`: a non-blocking stream socket, which the caller keeps open until Close(). The limit is
  // for streams: a whole response is as large as its sender made it.
  Outbox(int fd, int64_t buffer_limit_bytes, Hooks hooks);

  // The writer for the next response; the one before it must be complete.
  std::shared_ptr<ResponseWriter> NewResponse(Traits traits, Response on_abandon);

  // Interim bytes outside of any response ("100 Continue").
  void SendInterim(std::string_view bytes);

  enum class Flushed { kAll, kSome, kNone, kBroken };
  // Sends what is buffered, without blocking.
  Flushed Flush();

  // From now on `fd` is not touched. Runs the callback of a response that was not complete.
  void Close();

  // Responses that begin from now on announce the end of the connection.
  void StopReusing();

 private:
  struct State;
  class Writer;
  using Lock = std::unique_lock<std::mutex>;

  // These run under the lock; Finish() releases it and calls the hooks that became due.
  bool Enqueue(std::string_view bytes);
  size_t SendNow(std::string_view bytes);
  void Cut();
  void Stamp();
  void CompleteIfSent();
  void Finish(Lock lock);

  void SendWhole(State& state, const Response& response);
  void Begin(State& state, const Response& head);
  bool Write(State& state, std::string_view bytes);
  void End(State& state);
  void Abort(State& state);

  const int fd_;
  const int64_t limit_bytes_;
  const Hooks hooks_;

  mutable std::mutex mutex_;
  std::string buffered_;  // not yet taken by the kernel, from buffered_start_ on
  size_t buffered_start_ = 0;
  int64_t given_bytes_ = 0;
  int64_t sent_bytes_ = 0;
  std::shared_ptr<State> current_;  // the response that is not complete
  bool gone_ = false;               // no more bytes can be sent
  bool closed_ = false;
  bool reuse_ = true;
  // Hooks that are due when the lock is released.
  bool flush_due_ = false;
  bool broken_due_ = false;
  bool done_due_ = false;
  bool done_reusable_ = false;
};

}  // namespace rouse::http
