// Where the time of a first token went, which layers were cold, what caused it as far as that can
// be told, and what to measure next. From stored evidence only: nothing here measures, and nothing
// is sent. docs/explain.md has the rules, docs/results_format.md the JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "explain/causes.h"
#include "explain/contrasts.h"
#include "results/attempt.h"
#include "results/run.h"

namespace rouse::explain {

// What an attempt is compared with.
struct Reference {
  std::string condition;
  std::string why;  // "its base", "the other attempts of its condition", "asked for"
  Profile profile;  // n = 0: there is none
};

struct LayerRow {
  std::string layer;
  std::string before;  // "100 %", "loaded"; "" when it was not read
  std::string at_send;
  std::string after;
  std::string usual;  // of the reference
  std::string proof;
  bool cold = false;     // by proof
  bool changed = false;  // differs from the reference
};

// One command to paste, and what it would settle.
struct NextStep {
  std::string why;
  std::string command;  // may have several lines (a plan in a here-document)
};

struct AttemptExplanation {
  int64_t run = 0;
  int64_t attempt = 0;
  std::string condition;
  results::Outcome outcome = results::Outcome::kOk;
  std::string outcome_detail;
  std::optional<double> ttft_ns;
  Reference reference;
  std::optional<double> excess_ns;  // empty without a TTFT on both sides
  bool within_reference = false;    // no slower than what the reference itself shows
  // What the excess is made of; empty claims when within the reference.
  std::optional<Attribution> attribution;
  // A contrast of the run that proved the layer of the first claim, when there is one.
  std::string proved_by;
  std::vector<LayerRow> layers;
  std::string reading;   // bytes read against the bandwidth, or "" without reads
  std::string clocks;    // what they could explain at most
  std::string boundary;  // "" unless no layer was cold
  NextStep next;
};

struct RunExplanation {
  int64_t run = 0;
  std::string name;
  std::string target;
  int64_t attempts = 0;
  int64_t failed = 0;
  int64_t not_reached = 0;
  std::vector<Contrast> contrasts;  // largest cost first
  std::string warm_condition;       // the root that everything is compared with; "" without one
  Profile warm;
  std::string boundary;
  NextStep next;
};

// `against`: the condition to compare with, or "" for the rule of docs/explain.md: the base of the
// attempt's condition, else the other attempts of its own condition. kUsage: no such attempt or
// condition. kState: nothing to compare with is no error; the explanation says so.
Result<AttemptExplanation> ExplainAttempt(const results::Run& run,
                                          std::span<const results::Attempt> attempts, int64_t id,
                                          const std::string& against);

// The layers that the attempt's request met cold, by proof: what LayerRow::cold says.
std::vector<std::string> ColdLayers(const results::Attempt& attempt);

// kState: the run holds no attempt.
Result<RunExplanation> ExplainRun(const results::Run& run,
                                  std::span<const results::Attempt> attempts);

// What a server and the operating system tell without a request being sent.
struct ServerFacts {
  std::string url;
  bool tells_state = false;  // it is a rouse server
  std::string why_not;       // else
  std::string model;
  std::map<std::string, std::string> layers;  // "weights" -> "unloaded", as it says itself
  std::optional<double> resident_ratio;
  std::optional<double> model_bytes;
  std::optional<double> eta_first_token_ns;
  std::optional<int64_t> queue_waiting;
  std::optional<int64_t> process_age_ns;
  std::optional<int64_t> swap_bytes;
};

struct ServerFinding {
  std::string layer;
  bool cold = false;
  std::string sentence;
};

struct ServerExplanation {
  std::string url;
  std::string headline;
  std::vector<ServerFinding> findings;  // cold ones first
  std::vector<std::string> cannot_tell;
  NextStep next;
};

ServerExplanation ExplainServer(const ServerFacts& facts);

// 80 columns, ends in a newline. `rouse.explanation/1`, one object without a newline.
std::string ExplanationText(const AttemptExplanation& explanation);
std::string ExplanationText(const RunExplanation& explanation);
std::string ExplanationText(const ServerExplanation& explanation);
std::string ExplanationJson(const AttemptExplanation& explanation);
std::string ExplanationJson(const RunExplanation& explanation);
std::string ExplanationJson(const ServerExplanation& explanation);

}  // namespace rouse::explain
