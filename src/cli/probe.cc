// `rouse probe URL`: one request, and its whole first-token timeline. Sends that request and
// nothing else; a health check or a model list would change the state under test.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/strings.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/probe_text.h"
#include "lab/exchange_mapping.h"
#include "lab/server_report.h"
#include "lab/timeline.h"
#include "results/json.h"
#include "wire/client.h"
#include "wire/replay.h"

namespace rouse::cli {
namespace {

constexpr std::string_view kDefaultPrompt = "Reply with one word: what colour is the sky?";
constexpr size_t kPromptLimitBytes = size_t{64} << 20;

struct ProbeFlags {
  CommonFlags common;
  std::string url;
  std::string api;
  std::string model;
  std::optional<std::string> prompt;
  std::string prompt_file;
  std::string max_tokens = "64";
  std::vector<std::string> headers;
  std::string timeout = "600s";
  std::string timeout_first_token;
  bool insecure = false;
  std::string events;
};

void AddFlags(CLI::App& app, ProbeFlags& flags) {
  app.add_option("URL", flags.url,
                 "A base (http://127.0.0.1:8080, may end in /v1), a full endpoint (its path "
                 "selects the API), or unix:/path/to.sock[:/path]")
      ->required();
  app.add_option("--api", flags.api,
                 "openai-chat (default), openai-completions, openai-responses, anthropic, "
                 "ollama-generate, ollama-chat or llama-completion");
  app.add_option("--model", flags.model, "The request's \"model\"; left out by default");
  auto* const prompt = app.add_option("--prompt", flags.prompt, "The prompt");
  app.add_option("--prompt-file", flags.prompt_file, "Read the prompt from a file")
      ->excludes(prompt);
  app.add_option("--max-tokens", flags.max_tokens, "Tokens to generate at most (default 64)");
  app.add_option("--header", flags.headers,
                 "'Name: value', may be repeated; values are never printed or stored")
      ->allow_extra_args(false);
  app.add_option("--timeout", flags.timeout, "For the whole request (default 600s)");
  app.add_option("--timeout-first-token", flags.timeout_first_token,
                 "For the first token, from the send");
  app.add_flag("--insecure", flags.insecure, "Accept any TLS certificate");
  app.add_option("--events", flags.events,
                 "Write every read and event to this file, one JSON object a line");
  AddCommonFlags(app, flags.common);
  app.footer(
      "Exit status: 0 when a first token came, 3 when none came (the attempt is printed all the\n"
      "same), 2 for a mistake in the command, 130 when interrupted.\n\n"
      "Example: rouse probe http://127.0.0.1:8080 --max-tokens 16 --events reads.jsonl");
}

Error Usage(std::string message) { return {ErrorCode::kUsage, std::move(message)}; }

Result<wire::Api> ParseApi(const std::string& name) {
  if (const std::optional<wire::Api> api = wire::ApiFromName(name)) return *api;
  std::string message = "--api: no such API: \"" + name + "\"";
  const std::string nearest = NearestName(name, wire::ApiNames());
  message += nearest.empty() ? "; there are" : " (did you mean " + nearest + "?); there are";
  for (const std::string_view known : wire::ApiNames()) message += " " + std::string(known);
  return Usage(message);
}

// The message never repeats the value: it may be a secret that was typed wrongly.
Result<wire::Header> ParseHeader(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0) {
    return Usage("--header needs the form 'Name: value'");
  }
  const std::string_view view = text;
  return wire::Header{std::string(view.substr(0, colon)),
                      std::string(TrimBlanks(view.substr(colon + 1)))};
}

Result<int64_t> ParsePositiveDuration(std::string_view flag, const std::string& text) {
  const Result<int64_t> ns = ParseDuration(text);
  if (!ns.ok()) return ns.error().WithContext(flag);
  if (*ns <= 0) return Usage(std::string(flag) + " must be above zero");
  return *ns;
}

Result<std::string> ReadPrompt(const ProbeFlags& flags) {
  if (flags.prompt_file.empty()) return flags.prompt.value_or(std::string(kDefaultPrompt));
  Result<std::string> text = ReadSmallFile(flags.prompt_file, kPromptLimitBytes);
  if (!text.ok()) return text.error().WithContext("--prompt-file");
  return text;
}

Result<wire::RequestSpec> MakeSpec(const ProbeFlags& flags) {
  wire::RequestSpec spec;
  spec.url = flags.url;
  if (!flags.api.empty()) {
    ASSIGN_OR_RETURN(spec.api, ParseApi(flags.api));
  }
  spec.model = flags.model;
  ASSIGN_OR_RETURN(spec.prompt, ReadPrompt(flags));
  const std::optional<int64_t> max_tokens = ParseInt64(flags.max_tokens);
  if (!max_tokens || *max_tokens < 1) {
    return Usage("--max-tokens must be a whole number of at least 1, not \"" + flags.max_tokens +
                 "\"");
  }
  spec.max_tokens = *max_tokens;
  for (const std::string& text : flags.headers) {
    ASSIGN_OR_RETURN(wire::Header header, ParseHeader(text));
    spec.headers.push_back(std::move(header));
  }
  ASSIGN_OR_RETURN(spec.timeouts.total_ns, ParsePositiveDuration("--timeout", flags.timeout));
  if (!flags.timeout_first_token.empty()) {
    ASSIGN_OR_RETURN(spec.timeouts.first_token_ns,
                     ParsePositiveDuration("--timeout-first-token", flags.timeout_first_token));
  }
  spec.insecure_tls = flags.insecure;
  spec.keep_raw = !flags.events.empty();
  return spec;
}

// Stages as far as a client can tell them: the wire, a prefill that the server reports, the rest.
results::Attempt MakeAttempt(const wire::Exchange& exchange, int64_t started_wall_ns) {
  results::Attempt attempt;
  lab::StoreExchange(exchange, attempt);
  attempt.started_wall_ns = started_wall_ns;
  attempt.suspended_ns = SuspendedNs();
  attempt.tries = 1;
  lab::TimelineInput input;
  input.marks = attempt.marks;
  input.ttft_ns = attempt.ttft_ns;
  input.reported_prefill_ns = lab::ReportedPrefillNs(exchange.server_timings_json);
  lab::TimelineResult timeline = lab::ComputeStages(input);
  attempt.stages = timeline.stages;
  // Nothing here knows whether the server's process was just starting.
  results::StageTime& start = attempt.stages[static_cast<size_t>(results::Stage::kProcessStart)];
  if (start.ns.value_or(0) == 0) start = {};
  for (results::Warning& warning : timeline.warnings) {
    attempt.warnings.push_back(std::move(warning));
  }
  return attempt;
}

int Probe(const ProbeFlags& flags, const wire::PreparedRequest& request, const Fd& events_file) {
  Progress progress(flags.common);
  progress.Update("waiting for the answer of " + OneLine(request.display_url(), 60));
  const int64_t started_wall_ns = WallNowNs();
  const wire::Exchange exchange =
      wire::Perform(request, {.intended_send = {}, .interrupt = &InterruptRequested()});
  progress.Clear();
  const results::Attempt attempt = MakeAttempt(exchange, started_wall_ns);
  std::string text;
  if (flags.common.json) {
    text = results::AttemptJson(attempt) + "\n";
  } else {
    text = RenderProbe(
        {.url = request.display_url(), .terminal = TerminalOf(flags.common, STDOUT_FILENO)},
        attempt, exchange);
  }
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  if (events_file.valid()) {
    const Status written = WriteAll(events_file.get(), wire::EventsJsonl(exchange));
    if (!written.ok()) return Fail(written.error().WithContext("--events " + flags.events));
  }
  if (attempt.outcome == results::Outcome::kInterrupted) return 130;
  return attempt.ttft_ns ? 0 : 3;
}

}  // namespace

int RunProbe(int argc, const char* const* argv) {
  CLI::App app("Send one request and show its whole first-token timeline", "probe");
  ProbeFlags flags;
  AddFlags(app, flags);
  if (const std::optional<int> status = ParseArguments(app, argc, argv)) return *status;
  const Result<wire::RequestSpec> spec = MakeSpec(flags);
  if (!spec.ok()) return Fail(spec.error());
  Result<wire::PreparedRequest> request = wire::Prepare(*spec);
  if (!request.ok()) return Fail(request.error());
  Fd events_file;
  if (!flags.events.empty()) {
    // Opened before the request: a path that can't be written must not cost a measurement.
    Result<Fd> opened = OpenFile(flags.events, O_WRONLY | O_CREAT | O_TRUNC);
    if (!opened.ok()) return Fail(opened.error().WithContext("--events"));
    events_file = *std::move(opened);
  }
  InstallInterruptHandler();
  return Probe(flags, *request, events_file);
}

}  // namespace rouse::cli
