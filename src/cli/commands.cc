#include "cli/commands.h"

#include <array>

namespace rouse::cli {
namespace {

// In the order in which `rouse --help` lists them.
constexpr auto kCommands = std::to_array<Command>({
    {"probe", "send one request and show its whole first-token timeline", RunProbe},
    {"synth", "write a synthetic model of a given shape and quantization", RunSynth},
    {"models", "the models that are here, and how to get the default one", RunModels},
});

}  // namespace

std::span<const Command> Commands() { return kCommands; }

}  // namespace rouse::cli
