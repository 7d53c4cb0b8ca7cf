#include "cli/probe_text.h"

#include <algorithm>
#include <optional>

#include "base/terminal_text.h"
#include "base/units.h"
#include "cli/output_text.h"

namespace rouse::cli {
namespace {

constexpr int kColumnsMin = 60;
constexpr int kLabelColumns = 12;

std::string Line(std::string_view label, const std::string& text, int columns) {
  return text.empty() ? "" : Labelled(label, text, kLabelColumns, columns);
}

std::string Headline(const results::Attempt& attempt) {
  if (!attempt.ttft_ns) {
    return "No first token: " + std::string(results::OutcomeName(attempt.outcome));
  }
  std::string text = "First token after " + FormatDuration(*attempt.ttft_ns) + " (" +
                     attempt.first_token_channel + ")";
  if (attempt.ttfc_ns && attempt.ttfc_ns != attempt.ttft_ns) {
    text += ", visible answer after " + FormatDuration(*attempt.ttfc_ns);
  } else if (!attempt.ttfc_ns) {
    text += ", no visible answer";
  }
  if (attempt.outcome != results::Outcome::kOk) {
    text += "; then " + std::string(results::OutcomeName(attempt.outcome));
  }
  return text;
}

std::string CountOf(std::optional<int64_t> count) {
  return count ? std::to_string(*count) : "unknown";
}

std::string TokenLine(const results::Attempt& attempt, int columns) {
  if (!attempt.stream.events) return "";
  const results::Tokens& tokens = attempt.tokens;
  std::string text = "prompt " + CountOf(tokens.prompt);
  if (tokens.cached) text += " (" + std::to_string(*tokens.cached) + " from the prefix cache)";
  text += ", generated " + CountOf(tokens.completion) + ", in " +
          CountOf(attempt.stream.token_events) + " of " + CountOf(attempt.stream.events) +
          " events";
  const int64_t gaps = attempt.stream.token_events.value_or(0) - 1;
  if (gaps > 0 && attempt.marks.last_token && attempt.ttft_ns) {
    text += "; " + FormatDuration((*attempt.marks.last_token - *attempt.ttft_ns) / gaps) +
            " from event to event";
  }
  if (attempt.stream.pings.value_or(0) > 0) {
    text += "; " + std::to_string(*attempt.stream.pings) + " pings";
  }
  return Line("tokens", text, columns);
}

std::string StageLine(const results::Attempt& attempt, int columns) {
  std::string text;
  for (int i = 0; i < results::kStageCount; ++i) {
    const results::StageTime& time = attempt.stages[static_cast<size_t>(i)];
    if (time.ns.value_or(0) == 0) continue;
    text += text.empty() ? "" : ", ";
    text += std::string(results::StageName(static_cast<results::Stage>(i))) + " " +
            FormatDuration(*time.ns);
    if (time.source == results::StageSource::kServer) text += " (says the server)";
  }
  return Line("waited for", text, columns);
}

std::string ConnectionLine(const results::Attempt& attempt, const wire::Exchange& exchange,
                           int columns) {
  if (attempt.connection.remote.empty()) return "";
  std::string text = attempt.connection.family + " " + attempt.connection.remote;
  if (!exchange.connection.tls.empty()) text += ", " + exchange.connection.tls;
  if (attempt.http_status) text += ", HTTP status " + std::to_string(*attempt.http_status);
  if (exchange.client_read_delay_ns) {
    text += "; this client read " + FormatDuration(*exchange.client_read_delay_ns) +
            " after the kernel had the bytes";
  }
  return Line("connection", text, columns);
}

std::string AnswerLine(const wire::Exchange& exchange, int columns) {
  constexpr size_t kShownBytes = 512;  // more than a line of any width
  const auto line = [columns](const std::string& label, const std::string& text) {
    return text.empty()
               ? ""
               : "  " + PadRight(label, kLabelColumns) +
                     OneLine(text.substr(0, kShownBytes), columns - 2 - kLabelColumns) + "\n";
  };
  return line("reasoning", exchange.reasoning_text) + line("answer", exchange.content_text);
}

}  // namespace

std::string OneLine(std::string_view text, int columns) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return FitText(line, columns);
}

std::string RenderProbe(const ProbeText& text, const results::Attempt& attempt,
                        const wire::Exchange& exchange) {
  const int columns = std::max(text.terminal.columns, kColumnsMin);
  const WrapOptions item{.columns = columns, .indent = 2, .hanging = 4};
  const std::string headline = Headline(attempt);
  std::string out = text.terminal.color ? "\033[1m" + headline + "\033[0m\n" : headline + "\n";
  if (!attempt.outcome_detail.empty()) out += WrapText(OneLine(attempt.outcome_detail, 600), item);
  out += WrapText(attempt.api + " at " + OneLine(text.url, 200), item) + "\n";
  out += report::RenderLanes(attempt, text.terminal) + "\n";
  out += StageLine(attempt, columns) + TokenLine(attempt, columns) +
         ConnectionLine(attempt, exchange, columns);
  out += AnswerLine(exchange, columns);
  for (const wire::Warning& warning : exchange.warnings) {
    out += "\n" + WrapText("Warning: " + OneLine(warning.message, 400) + " [" + warning.code + "]",
                           {.columns = columns, .indent = 0, .hanging = 2});
    if (!warning.advice.empty()) out += WrapText("What helps: " + warning.advice, item);
  }
  return out;
}

}  // namespace rouse::cli
