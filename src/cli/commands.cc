#include "cli/commands.h"

#include <array>

namespace rouse::cli {
namespace {

// In the order in which `rouse --help` lists them.
constexpr auto kCommands = std::to_array<Command>({
    {"measure", "run an experiment: the main job", RunMeasure},
    {"probe", "send one request and show its whole first-token timeline", RunProbe},
    {"report", "a stored run as a table, a page, JSON, CSV or a trace", RunReport},
    {"compare", "two runs or conditions, with intervals and a verdict", RunCompare},
    {"explain", "where the time went, which layer was cold, what to try next", RunExplain},
    {"serve", "the built-in server: OpenAI-compatible, tells its own state", RunServe},
    {"state", "which layers are warm right now (reads only, warms nothing)", RunState},
    {"warm", "bring a file into the page cache, and prove it", RunWarm},
    {"evict", "drop a file from the page cache, and prove it", RunEvict},
    {"pin", "hold a file locked in memory while this runs", RunPin},
    {"synth", "write a synthetic model of a given shape and quantization", RunSynth},
    {"models", "the models that are here, and how to get the default one", RunModels},
    {"doctor", "what this machine lets us set, prove and observe; how to widen it", RunDoctor},
    {"list", "the stored runs", RunList},
    {"ui", "a local page over the stored runs", RunUi},
    {"import", "attempts that were measured elsewhere, as a new run", RunImport},
    {"worker", "", RunWorker},
});

}  // namespace

std::span<const Command> Commands() { return kCommands; }

}  // namespace rouse::cli
