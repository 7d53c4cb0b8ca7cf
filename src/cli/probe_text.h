// What `rouse probe` shows a person: the answer first, then the request's timeline in 80 columns.
// Pure text; nothing here measures or prints.
#pragma once

#include <string>
#include <string_view>

#include "results/attempt.h"
#include "wire/exchange.h"

namespace rouse::cli {

struct ProbeText {
  std::string url;  // as it may be shown
  bool color = false;
};

std::string RenderProbe(const ProbeText& text, const results::Attempt& attempt,
                        const wire::Exchange& exchange);

// `text` without control characters (a server could steer the terminal), at most `columns` bytes.
std::string OneLine(std::string_view text, size_t columns);

// `text` broken at blanks into lines of at most 80 columns, each behind `indent`.
std::string Wrap(std::string_view text, std::string_view indent);

}  // namespace rouse::cli
