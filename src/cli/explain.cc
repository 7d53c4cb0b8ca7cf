// `rouse explain`: where a first token's time went, what was cold, what to measure next. Of a
// stored run or attempt from what is stored; of a server from what it and the kernel tell, sending
// nothing that would change its state.
#include <cstdio>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/output_text.h"
#include "cli/run_argument.h"
#include "cli/state_url.h"
#include "explain/explain.h"
#include "results/store.h"

namespace rouse::cli {
namespace {

using results::Attempt;
using results::Run;

template <typename Explanation>
int Print(const Explanation& explanation, const CommonFlags& flags) {
  const std::string text = flags.json ? explain::ExplanationJson(explanation) + "\n"
                                      : SafeLines(explain::ExplanationText(explanation));
  std::fputs(text.c_str(), stdout);
  return 0;
}

std::optional<double> Number(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// What a rouse server says of its one model.
void FillFromServer(const nlohmann::json& own, explain::ServerFacts& facts) {
  const auto models = own.find("models");
  if (models != own.end() && models->is_array() && !models->empty() && models->at(0).is_object()) {
    const nlohmann::json& model = models->at(0);
    if (const auto id = model.find("id"); id != model.end() && id->is_string()) {
      facts.model = id->get<std::string>();
    }
    if (const auto layers = model.find("layers"); layers != model.end() && layers->is_object()) {
      for (const auto& [layer, value] : layers->items()) {
        if (value.is_string()) facts.layers[layer] = value.get<std::string>();
      }
    }
    // Null where the server's user may not count the pages: what this one read stays then.
    if (const auto ratio = Number(model, "resident_ratio")) facts.resident_ratio = ratio;
    facts.model_bytes = Number(model, "bytes");
    facts.eta_first_token_ns = Number(model, "eta_first_token_ns");
  }
  if (const auto queue = own.find("queue"); queue != own.end() && queue->is_object()) {
    const std::optional<double> waiting = Number(*queue, "waiting");
    if (waiting) facts.queue_waiting = static_cast<int64_t>(*waiting);
  }
}

int ExplainUrl(const std::string& url, const CommonFlags& flags) {
  const Result<ServerState> state = ReadServerState(url);
  if (!state.ok()) return Fail(state.error());
  explain::ServerFacts facts;
  facts.url = state->url;
  facts.tells_state = state->own.is_object();
  facts.why_not = state->own_missing;
  facts.process_age_ns = state->age_ns;
  facts.swap_bytes = state->counters.swap_bytes;
  for (const MappedModel& model : state->models) {
    if (!model.residency) continue;
    facts.model = model.path;
    facts.resident_ratio = model.residency->Ratio();
    facts.model_bytes = static_cast<double>(model.residency->file_bytes);
  }
  if (facts.tells_state) FillFromServer(state->own, facts);
  return Print(explain::ExplainServer(facts), flags);
}

int ExplainStored(const std::string& text, const std::string& database, const std::string& against,
                  const CommonFlags& flags) {
  const Result<std::string> path = results::StorePath(database);
  if (!path.ok()) return Fail(path.error());
  Result<results::Store> store = results::Store::Open(*path, results::OpenMode::kReadOnly);
  if (!store.ok()) return Fail(store.error());
  const Result<RunArgument> argument = ParseRunArgument(text, *store);
  if (!argument.ok()) return Fail(argument.error());
  if (argument->condition) {
    return Fail(Error(ErrorCode::kUsage, "explain takes a RUN, a RUN#ATTEMPT or a URL"));
  }
  if (!against.empty() && !argument->attempt) {
    return Fail(Error(ErrorCode::kUsage, "--against needs one attempt: RUN#ATTEMPT"));
  }
  const Result<Run> run = store->LoadRun(argument->run);
  if (!run.ok()) return Fail(run.error());
  const Result<std::vector<Attempt>> attempts = store->LoadAttempts(argument->run);
  if (!attempts.ok()) return Fail(attempts.error());
  if (argument->attempt) {
    const Result<explain::AttemptExplanation> explanation =
        explain::ExplainAttempt(*run, *attempts, *argument->attempt, against);
    return explanation.ok() ? Print(*explanation, flags) : Fail(explanation.error());
  }
  const Result<explain::RunExplanation> explanation = explain::ExplainRun(*run, *attempts);
  return explanation.ok() ? Print(*explanation, flags) : Fail(explanation.error());
}

}  // namespace

int RunExplain(int argc, const char* const* argv) {
  CLI::App app("Where the time of a first token went, which layer was cold, and what to try next",
               "explain");
  CommonFlags flags;
  std::string subject;
  std::string database;
  std::string against;
  app.add_option("SUBJECT", subject,
                 "RUN (default: the latest), RUN#ATTEMPT, or the URL of a server (nothing is sent "
                 "that would change its state)");
  app.add_option("--db", database, "The database (default: $ROUSE_DB or the user's own)");
  app.add_option("--against", against,
                 "With RUN#ATTEMPT: the condition to compare with (default: its base, else the "
                 "other attempts of its own condition)");
  AddCommonFlags(app, flags);
  app.footer(
      "A cause is called proved only when a contrast changed one layer, read it back in every\n"
      "attempt, and its interval excludes 0. Everything else is evidence.\n\n"
      "Example:\n  rouse explain 3\n  rouse explain 3#17\n  rouse explain http://127.0.0.1:8080\n");
  if (const auto status = ParseArguments(app, argc, argv)) return *status;
  if (subject.find("://") != std::string::npos) {
    if (!against.empty()) {
      return Fail(Error(ErrorCode::kUsage, "--against needs one attempt: RUN#ATTEMPT"));
    }
    return ExplainUrl(subject, flags);
  }
  return ExplainStored(subject, database, against, flags);
}

}  // namespace rouse::cli
