// Sends requests: the seam to wire/client.h, so that tests can script exchanges.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"
#include "base/time.h"
#include "wire/exchange.h"
#include "wire/request.h"

namespace rouse::lab {

class Sender {
 public:
  virtual ~Sender() = default;
  // Name resolution, TLS context, body: everything that is slow and not part of the answer. Returns
  // what Perform sends; kUsage for a request that cannot be sent.
  virtual Status Prepare(const wire::RequestSpec& spec) = 0;
  // The request that was prepared last. With an intended send time its lateness counts; one that
  // lies ahead is waited for.
  virtual wire::Exchange Perform(std::optional<MonoTime> intended_send,
                                 const std::atomic<bool>* interrupt) = 0;
  // Whether the next Perform may use, and keeps, one connection.
  virtual void KeepConnection(bool keep) = 0;
};

using SenderMaker = std::function<std::unique_ptr<Sender>()>;

// The real sender. Secrets come from the environment variables that the plan names.
std::unique_ptr<Sender> MakeSender();

// The server is there but not ready, or not there yet: to be tried again while it starts.
bool IsStarting(const wire::Exchange& exchange);

// Between tries at a starting server: 2 ms in the first second, then 10 ms.
int64_t RetryPauseNs(int64_t waited_ns);

}  // namespace rouse::lab
