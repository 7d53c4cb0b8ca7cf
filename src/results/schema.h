// The tables of the store, as the scripts that make them. Once released a script never changes: a
// new version appends one. For this folder only; docs/results_format.md explains every table.
#pragma once

#include <span>
#include <string_view>

namespace rouse::results {

// "rous": marks the file as ours (PRAGMA application_id).
inline constexpr int kApplicationId = 0x726f7573;

// Script number i brings a file from version i to i + 1.
std::span<const std::string_view> Migrations();

}  // namespace rouse::results
