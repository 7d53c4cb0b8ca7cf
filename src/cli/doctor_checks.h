// What this machine lets us set, prove and observe. Tries things out where that is harmless (a
// temporary file of 2 MiB beside the model, a reading of our own process) instead of guessing from
// versions and user ids. Changes nothing that stays; touches neither model nor server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/doctor_target.h"
#include "lab/layers.h"

namespace rouse::cli {

// Whether something can be done here. `widen` is the exact command that would make it possible, or
// "" when there is none (or nothing is missing).
struct Ability {
  bool yes = false;
  std::string how;  // by which means, or why not
  std::string widen;
  std::string but = {};  // what it does not cover, or ""
};

struct LayerAbility {
  std::string layer;
  Ability settable;
  Ability provable;
  Ability observable;
};

// A source of evidence that is stored with an attempt.
struct ReaderAbility {
  std::string what;  // "bytes read from disk"
  Ability ability;
};

struct DoctorReport {
  std::string target;                                        // as it was given
  std::string kind;                                          // "builtin", "command", "url"
  std::string model_file;                                    // "" when there is none here
  std::vector<std::pair<std::string, std::string>> machine;  // name -> text
  std::vector<LayerAbility> layers;
  std::vector<ReaderAbility> readers;
  std::vector<std::string> remarks;  // what may surprise a measurement here
};

// Without a model file the page cache is tried beside where models are kept.
DoctorReport Examine(const DoctorTarget& target);

// The parts, for Examine.
std::vector<LayerAbility> ExamineLayers(const DoctorTarget& target);
std::vector<ReaderAbility> ExamineReaders(const DoctorTarget& target);
std::vector<std::pair<std::string, std::string>> DescribeMachine(const DoctorTarget& target);
std::vector<std::string> Remarks(const DoctorTarget& target);

}  // namespace rouse::cli
