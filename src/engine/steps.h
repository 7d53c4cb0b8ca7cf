// Steps: what the engine did, from when to when, in terms of the stages of a first token
// (method.md). Steps may overlap: each is a lane of the timeline. WaitedFor() turns overlapping
// steps into what a request that came at some moment waited for, without overlap.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace rouse::engine {

enum class Stage {
  kWeights,      // the model file's bytes made available: header, mapping, copies
  kRuntimeInit,  // backends, context, KV and compute buffers, graph
  kTokenize,     // vocabulary, chat template, rendering, prompt text to tokens
  kPrefill,      // computing the prompt
  kFirstDecode,  // sampling, and more tokens until the first text can be given out
};

// "weights", "runtime_init", "tokenize", "prefill", "first_decode": the timeline's words.
std::string_view StageName(Stage stage);

struct Step {
  Stage stage = Stage::kWeights;
  std::string name = {};  // of the lane: "backends", "tokenizer", "weights", "template", "context"
  MonoTime start = {};
  MonoTime end = {};
  std::optional<int64_t> bytes = {};  // of the file or of memory that the step made available
};

// A part of a request's waiting, attributed to one stage.
struct Segment {
  Stage stage = Stage::kWeights;
  MonoTime start = {};
  MonoTime end = {};
};

// What a request that waited from `from` until `until` waited for: walks back from `until` along
// the steps that ended last (the critical path), clipped to [from, until]. The segments are in
// order of time and don't overlap; a time in which no step ran is in none of them. Neighbours of
// one stage are joined.
std::vector<Segment> WaitedFor(const std::vector<Step>& steps, MonoTime from, MonoTime until);

}  // namespace rouse::engine
