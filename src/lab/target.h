// The server under test, seen from the lab: something that can be started, stopped, asked for its
// state and found in the process table. A seam: the built-in server, a command and a bare URL are
// the real ones; tests use a fake. The lab talks to all of them over HTTP only.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/compile_cache.h"
#include "lab/layers.h"
#include "lab/llama_slots.h"
#include "lab/plan.h"
#include "os/read_limit.h"

namespace rouse::lab {

// Which process answers: a pid alone is reused by the kernel, pid and start time are not.
struct ProcessIdentity {
  int pid = 0;
  int64_t start_ticks = 0;
  bool operator==(const ProcessIdentity&) const = default;
};

struct CommandLine {
  int pid = 0;
  std::vector<std::string> words;
};

// What the server says of itself, as far as it can.
struct ServerState {
  std::optional<bool> model_loaded;
  bool asleep = false;  // not loaded, and all but the weights' pages and the KV's memory is kept
  std::optional<int64_t> memory_bytes;
  std::string json;  // verbatim

  // In the words of the layer `model`; "" when it does not tell.
  std::string ModelWord() const {
    if (asleep) return "asleep";
    if (!model_loaded) return "";
    return *model_loaded ? "loaded" : "unloaded";
  }
};

class Target {
 public:
  virtual ~Target() = default;

  // Waiting for the server ends with kInterrupted as soon as the flag is true; ending it does not
  // look at it.
  void StopWaitingWhen(const std::atomic<bool>* interrupt) { interrupt_ = interrupt; }

  virtual TargetKind kind() const = 0;
  // Base URL for requests. Known before the process runs: the port is chosen beforehand.
  virtual std::string url() const = 0;
  // "model" of a request, and the local file whose pages are the page-cache layer ("" = unknown).
  virtual std::string request_model() const = 0;
  virtual std::string model_file() const = 0;
  // Whether requests may carry "rouse_timeline": true.
  virtual bool tells_timeline() const = 0;

  // From the next Spawn on the server loads this file, which has the model's bytes; "" = the one
  // that the plan names. kUnsupported where the file is not ours to choose.
  virtual Status UseModelFile(const std::string& path) {
    if (path.empty()) return {};
    return Error(ErrorCode::kUnsupported, "this target's model file is not ours to choose");
  }

  // From the next Spawn on the server's processes are under this limit; empty = under none.
  // kUnsupported where they are not ours to start.
  virtual Status LimitReads(const std::optional<os::ReadLimit>& limit) {
    if (!limit) return {};
    return Error(ErrorCode::kUnsupported, "this target's processes are not ours to start");
  }

  // Starts the process with these arguments added; returns the moment of spawning, without waiting
  // for anything. A target that has no process of ours is kUnsupported.
  virtual Result<MonoTime> Spawn(const std::vector<std::string>& args) = 0;
  // A port for the next Spawn that is free now. Called before a state with a new process.
  virtual Status PickPort() = 0;
  // Waits until the server accepts connections (and, where it says so, its model is loaded).
  // kState with the last lines of stderr when it exits first, kTimeout otherwise.
  virtual Status WaitReady(MonoTime deadline) = 0;
  // Ends the process and its children and waits for their end. No process: success.
  virtual Status Stop(MonoTime deadline) = 0;

  // Whether our process runs. Without a process of ours: true.
  virtual bool Alive() = 0;
  virtual std::optional<ProcessIdentity> Identity() = 0;
  // Arguments of a condition as they are given to the process: {port} and {model} filled in.
  virtual std::vector<std::string> FilledIn(const std::vector<std::string>& args) const {
    return args;
  }
  // Our process and all its descendants; empty when there is none.
  virtual std::vector<int> Tree() = 0;
  // The command lines of these processes, as the kernel has them.
  virtual std::vector<CommandLine> CommandLines();
  // "exited with status 1" or "killed by signal 9 (Killed)", once it ended; else "".
  virtual std::string ExitText() = 0;
  // The last lines of the process's stderr.
  virtual std::string LogTail() = 0;
  // Whether our process has ended and another program listens on the port that was picked for it.
  virtual bool PortTaken() { return false; }

  // Both return when the server says that it is so, kUnsupported when it has no such call.
  virtual Status LoadModel(MonoTime deadline) = 0;
  virtual Status UnloadModel(MonoTime deadline) = 0;
  // From loaded to asleep. The sleep of servers that free their model then is UnloadModel().
  virtual Status SleepModel(MonoTime) {
    return Error(ErrorCode::kUnsupported, "this kind of server has no such sleep");
  }
  // Contacts the server: never between the idle time and the request.
  virtual Result<ServerState> ReadState() = 0;
  // Asks the server to forget all cached prefixes, where its kind has such a call.
  virtual Status ForgetPrefixes(MonoTime) { return {}; }
  // How large the KV of the prefix that the server holds now is outside of its context, where it
  // has a call for it and does not tell it in its state. Never before or while a request is
  // measured.
  virtual Result<PrefixSize> MeasurePrefix(MonoTime) {
    return Error(ErrorCode::kUnsupported,
                 "known of rouse serve, and of llama-server with --slot-save-path");
  }
  // The directory of compiled kernels that this target was started with; null without one.
  virtual const CompileCache* compile_cache() const { return nullptr; }

 protected:
  bool Interrupted() const { return interrupt_ != nullptr && interrupt_->load(); }
  const std::atomic<bool>* interrupt() const { return interrupt_; }

 private:
  const std::atomic<bool>* interrupt_ = nullptr;
};

// A started process is ended by the destructor, and by the kernel when the tool dies.
Result<std::unique_ptr<Target>> MakeTarget(const TargetSpec& spec);

}  // namespace rouse::lab
