// The whole-number fields of an attempt, one row each: its column in SQLite, its place in the JSON
// and where it lives in the struct. The store, the JSON code and the metric catalogue all read this
// table, so that a field cannot be stored and then forgotten. For this folder only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "results/attempt.h"

namespace rouse::results {

inline constexpr std::string_view kAttemptSchema = "rouse.attempt/1";

// Whether the schema has that name at the top level of an attempt.
bool IsTopLevelField(std::string_view name);

struct IntegerField {
  std::string_view column;  // in the table `attempts`
  std::string_view group;   // the JSON object that holds it, or "" for the top level
  std::string_view key;     // its name there
  std::optional<int64_t>& (*at)(Attempt&);
};

std::span<const IntegerField> IntegerFields();

// The field of that column, or nullptr.
const IntegerField* FindIntegerField(std::string_view column);

inline const std::optional<int64_t>& Read(const IntegerField& field, const Attempt& attempt) {
  // The row's function only forms a reference; nothing is changed through it here.
  return field.at(const_cast<Attempt&>(attempt));
}

}  // namespace rouse::results
