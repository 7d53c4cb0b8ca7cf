// What `rouse probe` shows a person: the answer first, then the request's timeline.
// Pure text; nothing here measures or prints.
#pragma once

#include <string>
#include <string_view>

#include "report/terminal.h"
#include "results/attempt.h"
#include "wire/exchange.h"

namespace rouse::cli {

struct ProbeText {
  std::string url;  // as it may be shown
  report::TerminalOptions terminal = {};
};

std::string RenderProbe(const ProbeText& text, const results::Attempt& attempt,
                        const wire::Exchange& exchange);

// `text` in one line of at most `columns` display columns: line breaks and tabs as blanks, what
// could steer the terminal as '?'.
std::string OneLine(std::string_view text, int columns);

}  // namespace rouse::cli
