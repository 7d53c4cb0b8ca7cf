// The plan language as a JSON Schema (draft 2020-12) for editors, made from the table that the
// parser reads (lab/plan_keys.h) and from the table of layers.
#pragma once

#include <string>

namespace rouse::lab {

// What the schema accepts is what a single key can tell; what keys mean together (bases, the
// one-change rule, what a target can do) only `rouse measure --dry-run` checks.
std::string PlanSchemaJson();

}  // namespace rouse::lab
