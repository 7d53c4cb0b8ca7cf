#include "lab/sender.h"

#include <cerrno>

#include "base/check.h"
#include "wire/client.h"

namespace rouse::lab {
namespace {

class WireSender : public Sender {
 public:
  Status Prepare(const wire::RequestSpec& spec) override {
    ASSIGN_OR_RETURN(request_, wire::Prepare(spec));
    return {};
  }

  wire::Exchange Perform(std::optional<MonoTime> intended_send,
                         const std::atomic<bool>* interrupt) override {
    CHECK(request_.has_value());
    return wire::Perform(*request_, {.intended_send = intended_send, .interrupt = interrupt},
                         keep_ ? &connection_ : nullptr);
  }

  void KeepConnection(bool keep) override {
    if (keep_ && !keep) connection_.Close();
    keep_ = keep;
  }

 private:
  std::optional<wire::PreparedRequest> request_;
  wire::Connection connection_;
  bool keep_ = false;
};

}  // namespace

std::unique_ptr<Sender> MakeSender() { return std::make_unique<WireSender>(); }

bool IsStarting(const wire::Exchange& exchange) {
  if (exchange.http_status == 503) return true;
  return exchange.outcome == wire::Outcome::kConnectError &&
         exchange.connection.connect_errno == ECONNREFUSED;
}

int64_t RetryPauseNs(int64_t waited_ns) {
  return waited_ns < kNsPerSecond ? 2 * kNsPerMs : 10 * kNsPerMs;
}

}  // namespace rouse::lab
