// What `rouse doctor --target` was given: a kind, a URL, KIND:URL or 'cmd:...', and what this
// machine tells of it. No request is sent: a request could wake a server that is to be measured
// cold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/plan.h"

namespace rouse::cli {

struct DoctorTarget {
  lab::TargetSpec spec;
  std::string text;        // as it was given
  bool named = false;      // a certain server or command, and not a kind alone
  std::string model_file;  // "" when it is not known

  // Of a URL.
  std::string host;
  int port = 0;
  bool on_this_machine = false;
  bool plain_http = true;
  std::optional<int> pid;  // who listens on the port, if this user may see it
  std::string comm;
  bool counters_readable = false;
  std::vector<std::string> mapped_models;  // .gguf files that its processes map
  bool maps_model_file = false;

  // Of a command: the program, and why it cannot be started ("" when it can).
  std::string program;
  std::string program_missing;
};

// `model` is a name or a GGUF file, `model_file` a path; both may be "". kUsage for a target that
// cannot be parsed and for an unknown model.
Result<DoctorTarget> ReadDoctorTarget(const std::string& text, const std::string& model,
                                      const std::string& model_file);

}  // namespace rouse::cli
