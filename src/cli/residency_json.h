// One reading of the page cache for people and for programs. What could only be estimated is null
// with the reason; the estimate stands beside it under its own name.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "os/page_cache.h"

namespace rouse::cli {

// Sets resident_bytes, resident_ratio, proof, sampled_pages, estimate and, where needed, entries of
// null_reasons. `estimate`: {"resident_ratio", "low", "high", "confidence": 0.95, "sampled_pages"}.
void PutResidency(const os::Residency& residency, nlohmann::json& json);

// resident_ratio of a part of the file: null when it is an estimate.
nlohmann::json ExactRatio(const os::Residency& residency);

// "98.3 MB of 98.3 MB, 100 % (read by cachestat)"; "not known exactly: ..." for an estimate.
std::string ResidencyText(const os::Residency& residency);

// "100 %", "99.6 %", "0 %": never rounded to a whole or a nothing that it is not.
std::string RatioText(double ratio);

}  // namespace rouse::cli
