// The benefits among a run's cases (results/verification.h): each is one of its hypotheses.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "results/attempt.h"
#include "results/run.h"

namespace rouse::report {

// Sets status, evidence and time of each benefit that is a hypothesis of the run: passed when it is
// adopted, failed when it is rejected or when an attempt of its two conditions got no answer, else
// undecided. Errors are JudgeHypotheses' own.
Status JudgeBenefits(results::Run& run, std::span<const results::Attempt> attempts);

}  // namespace rouse::report
