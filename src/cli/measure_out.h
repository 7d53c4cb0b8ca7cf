// `rouse measure --out DIR`: a run as files beside each other, for whoever has no database at hand.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "results/attempt.h"
#include "results/run.h"

namespace rouse::cli {

// kIo when it cannot be made.
Status MakeRunFolder(const std::string& directory);

// plan.toml, report.json, attempts.csv and trace.json in `directory`, which is made when it is not
// there; files of these names are replaced.
Status WriteRunFolder(const std::string& directory, const results::Run& run,
                      const std::vector<results::Attempt>& attempts);

}  // namespace rouse::cli
