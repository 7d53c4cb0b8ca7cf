#include "http/outbox.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/check.h"
#include "http/message.h"

namespace rouse::http {

// One response, shared by its writer and, until it is complete, by the outbox. Guarded by mutex_.
struct Outbox::State {
  enum class Phase { kFresh, kStreaming, kEnded };

  Traits traits;
  Response on_abandon;
  Phase phase = Phase::kFresh;
  std::string head;  // of a stream, until its first bytes
  Framing framing = Framing::kLength;
  bool reusable = true;
  bool complete = false;                         // all of it was taken by the kernel
  std::optional<int64_t> first_write_end_bytes;  // in terms of given_bytes_
  ResponseTimes times;
  std::function<void()> on_gone;
};

class Outbox::Writer : public ResponseWriter {
 public:
  Writer(std::shared_ptr<Outbox> outbox, std::shared_ptr<State> state)
      : outbox_(std::move(outbox)), state_(std::move(state)) {}

  ~Writer() override {
    Lock lock(outbox_->mutex_);
    const State::Phase phase = state_->phase;
    lock.unlock();
    if (phase == State::Phase::kFresh) outbox_->SendWhole(*state_, state_->on_abandon);
    if (phase == State::Phase::kStreaming) outbox_->Abort(*state_);
  }

  void Send(Response response) override { outbox_->SendWhole(*state_, response); }
  void Begin(Response head) override { outbox_->Begin(*state_, head); }
  bool Write(std::string_view bytes) override { return outbox_->Write(*state_, bytes); }
  void End() override { outbox_->End(*state_); }
  void Abort() override { outbox_->Abort(*state_); }

  bool ClientGone() const override {
    const Lock lock(outbox_->mutex_);
    return outbox_->gone_;
  }

  void OnClientGone(std::function<void()> callback) override {
    {
      const Lock lock(outbox_->mutex_);
      if (state_->complete) return;
      if (!outbox_->closed_) {
        state_->on_gone = std::move(callback);
        return;
      }
    }
    callback();
  }

  ResponseTimes Times() const override {
    const Lock lock(outbox_->mutex_);
    return state_->times;
  }

 private:
  std::shared_ptr<Outbox> outbox_;
  std::shared_ptr<State> state_;
};

Outbox::Outbox(int fd, int64_t buffer_limit_bytes, Hooks hooks)
    : fd_(fd), limit_bytes_(buffer_limit_bytes), hooks_(std::move(hooks)) {}

std::shared_ptr<ResponseWriter> Outbox::NewResponse(Traits traits, Response on_abandon) {
  auto state = std::make_shared<State>();
  state->traits = traits;
  state->on_abandon = std::move(on_abandon);
  const Lock lock(mutex_);
  CHECK(current_ == nullptr);
  current_ = state;
  return std::make_shared<Writer>(shared_from_this(), state);
}

void Outbox::SendInterim(std::string_view bytes) {
  Lock lock(mutex_);
  Enqueue(bytes);
  Finish(std::move(lock));
}

Outbox::Flushed Outbox::Flush() {
  Lock lock(mutex_);
  if (gone_) return Flushed::kBroken;
  const size_t taken = SendNow(std::string_view(buffered_).substr(buffered_start_));
  buffered_start_ += taken;
  const bool all = buffered_start_ == buffered_.size();
  if (all) {
    buffered_.clear();
    buffered_start_ = 0;
  } else if (buffered_start_ > buffered_.size() / 2) {
    buffered_.erase(0, buffered_start_);
    buffered_start_ = 0;
  }
  Stamp();
  CompleteIfSent();
  const Flushed flushed = gone_       ? Flushed::kBroken
                          : all       ? Flushed::kAll
                          : taken > 0 ? Flushed::kSome
                                      : Flushed::kNone;
  Finish(std::move(lock));
  return flushed;
}

void Outbox::Close() {
  std::function<void()> on_gone;
  {
    const Lock lock(mutex_);
    gone_ = true;
    closed_ = true;
    if (current_ != nullptr) on_gone = std::exchange(current_->on_gone, nullptr);
    current_ = nullptr;
  }
  if (on_gone) on_gone();
}

void Outbox::StopReusing() {
  const Lock lock(mutex_);
  reuse_ = false;
}

bool Outbox::Enqueue(std::string_view bytes) {
  if (gone_) return false;
  if (bytes.empty()) return true;
  given_bytes_ += static_cast<int64_t>(bytes.size());
  if (buffered_.empty()) {
    bytes.remove_prefix(SendNow(bytes));
    if (gone_) return false;
    if (!bytes.empty()) flush_due_ = true;
  }
  buffered_ += bytes;
  Stamp();
  return true;
}

size_t Outbox::SendNow(std::string_view bytes) {
  size_t taken = 0;
  while (taken < bytes.size()) {
    const ssize_t sent =
        ::send(fd_, bytes.data() + taken, bytes.size() - taken, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      taken += static_cast<size_t>(sent);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) Cut();
    break;
  }
  sent_bytes_ += static_cast<int64_t>(taken);
  return taken;
}

void Outbox::Cut() {
  if (gone_) return;
  gone_ = true;
  broken_due_ = true;
  ::shutdown(fd_, SHUT_RDWR);
}

void Outbox::Stamp() {
  if (current_ == nullptr || gone_) return;
  const MonoTime now = MonoNow();
  ResponseTimes& times = current_->times;
  if (!times.first_write && current_->first_write_end_bytes &&
      sent_bytes_ >= *current_->first_write_end_bytes) {
    times.first_write = now;
  }
  if (sent_bytes_ == given_bytes_) times.last_write = now;
}

void Outbox::CompleteIfSent() {
  if (current_ == nullptr || current_->phase != State::Phase::kEnded || gone_) return;
  if (sent_bytes_ != given_bytes_) return;
  done_due_ = true;
  done_reusable_ = current_->reusable;
  current_->complete = true;
  current_ = nullptr;
}

void Outbox::Finish(Lock lock) {
  const bool flush = std::exchange(flush_due_, false);
  const bool broken = std::exchange(broken_due_, false) && !closed_;
  const bool done = std::exchange(done_due_, false) && !closed_;
  const bool reusable = done_reusable_;
  const bool gone = gone_;
  lock.unlock();
  if (broken) hooks_.broken();
  if (flush && !gone) hooks_.needs_flush();
  if (done) hooks_.response_done(reusable);
}

void Outbox::SendWhole(State& state, const Response& response) {
  Lock lock(mutex_);
  CHECK(state.phase == State::Phase::kFresh);
  state.phase = State::Phase::kEnded;
  if (gone_) return;
  state.reusable = state.traits.keep_alive && reuse_;
  std::string bytes = FormatHead(response, Framing::kLength, state.reusable);
  if (!state.traits.omit_body) bytes += response.body;
  state.first_write_end_bytes = given_bytes_ + static_cast<int64_t>(bytes.size());
  Enqueue(bytes);
  CompleteIfSent();
  Finish(std::move(lock));
}

void Outbox::Begin(State& state, const Response& head) {
  const Lock lock(mutex_);
  CHECK(state.phase == State::Phase::kFresh);
  state.phase = State::Phase::kStreaming;
  state.framing = state.traits.http10 ? Framing::kClose : Framing::kChunked;
  state.reusable = state.traits.keep_alive && reuse_ && !state.traits.http10;
  state.head = FormatHead(head, state.framing, state.reusable);
}

bool Outbox::Write(State& state, std::string_view bytes) {
  Lock lock(mutex_);
  CHECK(state.phase == State::Phase::kStreaming);
  if (gone_) return false;
  std::string framed = std::exchange(state.head, {});
  if (!state.traits.omit_body) {
    if (state.framing == Framing::kChunked) {
      AppendChunk(framed, bytes);
    } else {
      framed += bytes;
    }
  }
  if (framed.empty()) return true;
  if (!state.first_write_end_bytes) {
    state.first_write_end_bytes = given_bytes_ + static_cast<int64_t>(framed.size());
  }
  bool taken = Enqueue(framed);
  if (taken && static_cast<int64_t>(buffered_.size() - buffered_start_) > limit_bytes_) {
    Cut();
    taken = false;
  }
  Finish(std::move(lock));
  return taken;
}

void Outbox::End(State& state) {
  Lock lock(mutex_);
  CHECK(state.phase == State::Phase::kStreaming);
  state.phase = State::Phase::kEnded;
  if (gone_) return;
  std::string rest = std::exchange(state.head, {});
  if (state.framing == Framing::kChunked && !state.traits.omit_body) rest += kLastChunk;
  Enqueue(rest);
  CompleteIfSent();
  Finish(std::move(lock));
}

void Outbox::Abort(State& state) {
  Lock lock(mutex_);
  state.phase = State::Phase::kEnded;
  if (current_.get() != &state) return;
  Cut();
  Finish(std::move(lock));
}

}  // namespace rouse::http
