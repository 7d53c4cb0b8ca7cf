// Proofs of the factors that a condition varies beside its layers (lab/factors.h): arguments and
// file of the server by its command line, the length of the prompt by the server's own count.
#pragma once

#include <string>
#include <vector>

#include "lab/plan.h"
#include "lab/states.h"
#include "results/attempt.h"

namespace rouse::lab {

// `target_args` and `path`, as the command lines of the server's processes show them; nothing when
// the plan varies neither, or when no process of ours runs (a new one is only being started). Does
// not contact the server.
void AddLaunch(StateContext& context, const Condition& condition, results::LayerReadings& readings);

// What the built-in server's own state (rouse.server_state/1) says against the arguments makes
// `target_args` not reached; what it confirms is added to the proof. Other servers' JSON: nothing.
void AddToldArguments(const Condition& condition, const std::string& state_json,
                      results::LayerReadings& readings);

// `prompt_tokens`, by the count of the answer. A server that does not count is no failure: reached
// stays empty.
void AddPromptTokens(const Condition& condition, const results::Attempt& attempt,
                     results::LayerReadings& readings);

// "kv_bytes" of the same state as the counter target_kv_bytes, or why it is not known.
void StoreToldMemory(const std::string& state_json, results::Attempt& attempt);

// target_prefix_bytes and target_prefix_tokens: by the same state, else by a call of the server's
// own, which is made for conditions about the KV cache alone. Contacts the server.
void StorePrefixSize(StateContext& context, const Condition& condition, results::Attempt& attempt);

// Whether `words` has `wanted` as a run of neighbours.
bool HasRun(const std::vector<std::string>& words, const std::vector<std::string>& wanted);

}  // namespace rouse::lab
