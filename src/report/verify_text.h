// The cases of a run (results/verification.h) as a person reads them, one row a case, its evidence
// below, the verdict last; and as JSON. Returns text; runs and prints nothing.
#pragma once

#include <span>
#include <string>

#include "report/terminal.h"
#include "results/verification.h"

namespace rouse::report {

// "" without cases.
std::string RenderVerification(std::span<const results::VerificationCase> cases,
                               const TerminalOptions& options);

// Before they are run: what each case does, what has to be seen, and its bound.
std::string RenderCasesToCome(std::span<const results::VerificationCase> cases,
                              const TerminalOptions& options);

// {"verdict": ..., "cases": [...]}; "null" without cases.
std::string VerificationJson(std::span<const results::VerificationCase> cases);

}  // namespace rouse::report
