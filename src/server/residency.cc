#include "server/residency.h"

#include <sys/stat.h>

#include <algorithm>

namespace rouse::server {
namespace {

constexpr int64_t kPieces = 32;
constexpr int64_t kPieceBytes = int64_t{256} << 10;

}  // namespace

Result<os::Residency> ModelResidency(const std::vector<std::string>& parts) {
  os::Residency sum;
  for (const std::string& part : parts) {
    ASSIGN_OR_RETURN(const os::Residency one, os::ReadResidency(part));
    sum.file_bytes += one.file_bytes;
    sum.resident_bytes += one.resident_bytes;
    sum.proof = one.proof;
  }
  return sum;
}

std::optional<double> QuickResidentRatio(const std::vector<std::string>& parts) {
  if (parts.empty()) return std::nullopt;
  const int64_t pieces = std::max<int64_t>(1, kPieces / static_cast<int64_t>(parts.size()));
  os::Residency sum;
  for (const std::string& part : parts) {
    struct stat status{};
    if (::stat(part.c_str(), &status) != 0) return std::nullopt;
    std::vector<os::ByteRange> ranges;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      ranges.push_back({status.st_size / pieces * piece, kPieceBytes});
    }
    const auto readings = os::ReadResidencyRangesBy(part, ranges, os::kExactProofs);
    if (!readings.ok()) return std::nullopt;
    for (const os::Residency& reading : *readings) {
      sum.file_bytes += reading.file_bytes;
      sum.resident_bytes += reading.resident_bytes;
    }
  }
  return sum.Ratio();
}

}  // namespace rouse::server
