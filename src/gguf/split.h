// Models that are split over several files (PREFIX-00001-of-00003.gguf): finds the others.
// Each part is a GGUF file of its own with its own tensors; the first one has the metadata.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/header.h"

namespace rouse::gguf {

// The paths of all parts in order, given any one of them; just `header.path` for a whole file.
// kCorrupt when the file's name does not follow the pattern, so that the others can't be told.
// Does not look at the disk.
Result<std::vector<std::string>> PartPaths(const Header& header);

// Reads and validates all parts of the model that `path` belongs to, first part first. An error
// names the part that is missing or does not belong (another count, number or tensor count).
Result<std::vector<Header>> ReadAllParts(const std::string& path, const ReadOptions& options = {});

}  // namespace rouse::gguf
