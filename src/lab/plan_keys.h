// The keys of a plan file: one table, of which the parser reads what is allowed and of which type,
// and from which the JSON Schema for editors is made. A new key is one row here, and its line in
// docs/plan.md (a test holds them equal). What keys mean together is in lab/plan_check.cc.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/plan.h"
#include "lab/plan_internal.h"

namespace rouse::lab {

using Names = std::vector<std::string_view>;

enum class KeyType {
  kName,      // a string of 1 to 60 bytes without control characters
  kText,      // a string
  kInteger,   // within low and high
  kShare,     // a number of at least 0.5 and below 1
  kBoolean,   //
  kDuration,  // a string with a unit
  kTexts,     // an array of strings
  kChoice,    // one of `choices`
  kTable,     // names to strings
  kState,     // layers to values
};

// Kinds of target that a key of [target] has a meaning for.
enum class KeyScope { kEvery, kBuiltin, kCommand, kStarted, kUrl, kGivenApi };
bool InScope(KeyScope scope, TargetKind kind);

struct KeyValue {
  std::string text = {};
  int64_t number = 0;
  double share = 0;
  bool flag = false;
  std::vector<std::string> texts = {};
  std::map<std::string, std::string> table = {};  // a state's values in their stored form
};

struct KeyRow {
  std::string_view name;
  KeyType type = KeyType::kText;
  std::string_view expected = "";  // in messages: "a duration such as \"10m\""
  std::string_view meaning = "";   // one line, shown by editors
  std::string_view needed = "";    // not "": the key must be there, and this is what is expected
  int64_t low = 0;
  int64_t high = 0;
  Names (*choices)() = nullptr;
  KeyScope scope = KeyScope::kEvery;
};

struct Place;

// A row with what its value does to the section's struct.
template <typename Into>
struct Key {
  KeyRow row;
  Status (*set)(const KeyValue& value, const Place& place, Into& into);
};

std::span<const Key<Plan>> ExperimentKeys();
std::span<const Key<TargetSpec>> TargetKeys();
std::span<const Key<RawCondition>> ConditionKeys();
std::span<const Key<RawHypothesis>> HypothesisKeys();

// "experiment", "target", "condition", "hypothesis".
Names SectionNames();

}  // namespace rouse::lab
