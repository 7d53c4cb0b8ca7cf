// The built-in server: one model behind the OpenAI API, with its own state and metrics. It joins
// the HTTP server (src/http), the engine thread (worker.h) and an observer thread that reads
// residency and large bodies, so that the I/O thread never waits for anything. The first bytes of a
// request for text are enough to begin reading weights that are not there.
//
// Routes and formats: docs/serve.md and shared words in docs/method.md.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "http/server.h"
#include "server/log.h"
#include "server/worker.h"

namespace rouse::server {

struct ModelServerOptions {
  http::ServerOptions http = {};
  int64_t queue_limit = 64;                 // at least 1
  std::optional<std::string> api_key = {};  // asked for everywhere but on /health
  std::optional<MonoTime> main_entered = {};
  Log log = {};
};

class ModelServer {
 public:
  // Listens and answers at once: requests for text wait for Run(), /health says "starting".
  static Result<std::unique_ptr<ModelServer>> Start(ModelServerOptions options);

  virtual ~ModelServer() = default;  // Stop()

  virtual int port() const = 0;
  virtual std::string host() const = 0;

  struct RunOptions {
    ModelInfo model;
    std::unique_ptr<engine::Engine> engine;
    bool load_now = true;
    IdlePolicy idle;
    EngineMaker make_engine;                // see Worker::StartOptions
    std::shared_ptr<WeightsReader> reader;  // may be null; the engine's watcher
    // Runs on the engine thread when the load of `load_now` failed.
    std::function<void(const Error&)> on_first_load_failed;
  };
  // Starts the engine thread, and with it the load. Once.
  virtual void Run(RunOptions options) = 0;

  // Takes no more connections and requests; those that are here are answered. `drained` runs once,
  // on the I/O thread, when all connections are closed.
  virtual void Drain(std::function<void()> drained) = 0;

  // Cuts connections, interrupts engine and load, joins all threads.
  virtual void Stop() = 0;
};

}  // namespace rouse::server
