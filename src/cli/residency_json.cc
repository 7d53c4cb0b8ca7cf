#include "cli/residency_json.h"

#include <algorithm>
#include <cstdio>

#include "base/units.h"

namespace rouse::cli {
std::string RatioText(double ratio) {
  char text[16];
  const bool whole = ratio == 0.0 || ratio == 1.0;
  double percent = 100.0 * ratio;
  if (!whole) percent = std::clamp(percent, 0.1, 99.9);
  std::snprintf(text, sizeof text, whole ? "%.0f %%" : "%.1f %%", percent);
  return text;
}

nlohmann::json ExactRatio(const os::Residency& residency) {
  return residency.Exact() ? nlohmann::json(residency.Ratio()) : nlohmann::json();
}

void PutResidency(const os::Residency& residency, nlohmann::json& json) {
  json["proof"] = residency.proof;
  json["resident_ratio"] = ExactRatio(residency);
  json["resident_bytes"] =
      residency.Exact() ? nlohmann::json(residency.resident_bytes) : nlohmann::json();
  json["sampled_pages"] =
      residency.sampled_pages ? nlohmann::json(*residency.sampled_pages) : nlohmann::json();
  json["estimate"] = nullptr;
  if (residency.Exact()) return;
  const os::ShareBounds bounds = residency.Bounds();
  json["estimate"] = {{"resident_ratio", residency.Ratio()},
                      {"low", bounds.low},
                      {"high", bounds.high},
                      {"confidence", 0.95},
                      {"sampled_pages", *residency.sampled_pages}};
  json["null_reasons"]["resident_bytes"] = os::kWhyNotExact;
  json["null_reasons"]["resident_ratio"] = os::kWhyNotExact;
}

std::string ResidencyText(const os::Residency& residency) {
  if (residency.Exact()) {
    return FormatBytes(residency.resident_bytes) + " of " + FormatBytes(residency.file_bytes) +
           ", " + RatioText(residency.Ratio()) + " (read by " + residency.proof + ")";
  }
  const os::ShareBounds bounds = residency.Bounds();
  return "between " + RatioText(bounds.low) + " and " + RatioText(bounds.high) + " of " +
         FormatBytes(residency.file_bytes) + ", estimated from " +
         std::to_string(*residency.sampled_pages) + " pages";
}

}  // namespace rouse::cli
