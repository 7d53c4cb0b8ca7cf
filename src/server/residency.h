// How much of a model's files is in the page cache, for /state, /metrics and the estimate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/page_cache.h"
#include "server/file_identity.h"

namespace rouse::server {

// Of all files together.
struct ModelResidency {
  int64_t file_bytes = 0;
  int64_t resident_bytes = 0;  // an estimate unless `exact`
  bool exact = true;           // counted, in all files
  os::ShareBounds bounds;      // where the true share lies: what is to be said must hold at both
  std::string proof;
  std::optional<int64_t> sampled_pages;

  double Ratio() const;  // resident_bytes / file_bytes; 1 for empty files
};

// As os::ReadResidency can tell; about 10 ns a resident page. Never on the I/O thread.
Result<ModelResidency> ReadModelResidency(const std::vector<std::string>& parts);
// The same of a model that was loaded from files of these identities: kState when others have taken
// their names since, for it is the old ones that are mapped.
Result<ModelResidency> ReadModelResidency(const std::vector<std::string>& parts,
                                          const std::vector<FileIdentity>& loaded);

// An estimate from 32 pieces of 256 KiB over all files: about 0.1 ms, so that a load can afford it.
// Empty where the kernel counts no pages for this user.
std::optional<double> QuickResidentRatio(const std::vector<std::string>& parts);

}  // namespace rouse::server
