// What a condition can vary beside the layers of its state: one table. Each factor counts as one
// layer for the one-change rule, is shown by --dry-run with its proof, and is stored with the
// condition.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lab/plan.h"

namespace rouse::lab {

struct FactorRow {
  std::string_view name;  // the key of a condition
  // As it is stored and shown; "" = not varied.
  std::string (*value)(const Condition&);
  std::string_view set;
  std::string_view proof;
};

std::span<const FactorRow> Factors();

// ["--threads", "1"], as a plan writes it.
std::string ArgumentsText(const std::vector<std::string>& arguments);

}  // namespace rouse::lab
