// What `rouse ui` serves: the list of runs, a page per run, their JSON, and server-sent events
// while runs change. Reads the database, writes nothing, listens on loopback only. For this folder
// only.
//
// Threads: the handler only checks and queues; one worker thread owns the database connection and
// makes pages; another watches the database (its own connection) and feeds the event streams.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace rouse::cli {

struct UiOptions {
  std::string database;  // may be missing now and appear later
  std::string host = "127.0.0.1";
  int port = 0;  // 0: the kernel picks
};

class UiServer {
 public:
  // kUsage: `host` is not a loopback address. kState: the port is taken.
  static Result<std::unique_ptr<UiServer>> Start(UiOptions options);
  virtual ~UiServer() = default;  // ends all threads and connections
  virtual std::string host() const = 0;
  virtual int port() const = 0;
  virtual std::string url() const = 0;
};

}  // namespace rouse::cli
