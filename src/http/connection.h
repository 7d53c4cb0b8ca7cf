// One accepted connection: reads and parses requests, hands them to the handler one at a time, and
// enforces the time limits. Everything here runs on the I/O thread. Internal to src/http: the only
// header of this folder that shows Boost; include http/server.h instead.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "http/outbox.h"
#include "http/request_parser.h"
#include "http/server.h"

namespace rouse::http {

// What all connections of a server share.
struct ConnectionContext {
  std::shared_ptr<boost::asio::io_context> io;
  ServerOptions options;
  Handler handler;
  FirstBytes first_bytes;  // may be empty
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `on_closed` runs once, on the I/O thread.
  Connection(std::shared_ptr<const ConnectionContext> context, boost::asio::ip::tcp::socket socket,
             MonoTime accepted, std::function<void(Connection*)> on_closed);

  void Start();
  // Answers 503 and closes.
  void Refuse();
  // Closes when no request is there or under way, else after its answer.
  void Drain();
  void Close();

 private:
  enum class Mode {
    kReading,    // waiting for a request, or for the rest of one
    kBusy,       // the handler has a request
    kLingering,  // answered with an error; discarding what the client still sends
    kClosed,
  };

  void MakeOutbox();
  void WaitReadable();
  void OnReadable();
  // Reads once into input_. False when the connection ended or nothing was there.
  bool ReadSome();
  void ParseInput();
  void Dispatch();
  void Fail(const ParseFailure& failure);
  void OnResponseDone(bool reusable);
  void Linger();
  void WaitWritable();
  void OnWritable();
  void SetDeadline(int64_t after_ns);
  void OnDeadline();

  std::shared_ptr<const ConnectionContext> context_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer deadline_;  // of the current mode
  boost::asio::steady_timer stall_;     // of a blocked write
  std::shared_ptr<Outbox> outbox_;
  std::function<void(Connection*)> on_closed_;
  std::string remote_;

  Mode mode_ = Mode::kReading;
  bool waiting_readable_ = false;
  bool waiting_writable_ = false;
  bool draining_ = false;
  bool continue_sent_ = false;
  bool first_request_ = true;
  MonoTime accepted_;
  MonoTime first_byte_;  // of what input_ and parser_ hold
  MonoTime last_read_;
  bool request_begun_ = false;
  std::string input_;  // read, not yet parsed
  std::unique_ptr<RequestParser> parser_;
};

}  // namespace rouse::http
