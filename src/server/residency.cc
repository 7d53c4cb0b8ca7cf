#include "server/residency.h"

#include <sys/stat.h>

#include <algorithm>

namespace rouse::server {
namespace {

constexpr int64_t kPieces = 32;
constexpr int64_t kPieceBytes = int64_t{256} << 10;

}  // namespace

double ModelResidency::Ratio() const {
  if (file_bytes == 0) return 1;
  return static_cast<double>(resident_bytes) / static_cast<double>(file_bytes);
}

Result<ModelResidency> ReadModelResidency(const std::vector<std::string>& parts) {
  ModelResidency all;
  double low_bytes = 0;
  double high_bytes = 0;
  for (const std::string& part : parts) {
    ASSIGN_OR_RETURN(const os::Residency one, os::ReadResidency(part));
    all.file_bytes += one.file_bytes;
    all.resident_bytes += one.resident_bytes;
    all.exact = all.exact && one.Exact();
    // Each file by its size: a small one is sampled by as many pages as a large one.
    const os::ShareBounds bounds = one.Bounds();
    low_bytes += bounds.low * static_cast<double>(one.file_bytes);
    high_bytes += bounds.high * static_cast<double>(one.file_bytes);
    if (one.sampled_pages) all.sampled_pages = all.sampled_pages.value_or(0) + *one.sampled_pages;
    if (all.proof.empty() || !one.Exact()) all.proof = one.proof;
  }
  const auto bytes = static_cast<double>(all.file_bytes);
  all.bounds = {all.Ratio(), all.Ratio()};
  if (!all.exact) all.bounds = {low_bytes / bytes, high_bytes / bytes};
  return all;
}

Result<ModelResidency> ReadModelResidency(const std::vector<std::string>& parts,
                                          const std::vector<FileIdentity>& loaded) {
  if (ChangeOf(loaded, parts) == FileChange::kReplaced) {
    return Error(ErrorCode::kState,
                 parts.front() +
                     " was replaced since it was loaded: the pages in use are those of the file "
                     "that had this name before");
  }
  return ReadModelResidency(parts);
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
