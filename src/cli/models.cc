// `rouse models`: which models are here, and how to get the default one.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/terminal_text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/output_text.h"
#include "gguf/split.h"
#include "models/catalog.h"

namespace rouse::cli {
namespace {

using models::CatalogEntry;

struct Verified {
  std::string sha256;  // of the file; empty when it was not read
  bool agrees = true;  // with the pinned digest, where there is one
};

// Digests one model's files. A split model has one digest per part, joined by commas.
Result<Verified> Verify(const CatalogEntry& entry, Progress& progress) {
  ASSIGN_OR_RETURN(const models::ModelFile file, models::Resolve(entry.path));
  Verified verified;
  for (const std::string& part : file.parts) {
    const auto show = [&](int64_t done_bytes) {
      if (done_bytes % (int64_t{64} << 20) == 0) {
        progress.Update("verifying " + entry.name + ": " + FormatBytes(done_bytes) + " of " +
                        FormatBytes(file.bytes));
      }
    };
    ASSIGN_OR_RETURN(const std::string digest,
                     models::FileSha256(part, show, &InterruptRequested()));
    if (!verified.sha256.empty()) verified.sha256 += ',';
    verified.sha256 += digest;
  }
  verified.agrees = !entry.sha256.has_value() || *entry.sha256 == verified.sha256;
  return verified;
}

nlohmann::json ToJson(const CatalogEntry& entry, const Verified* verified) {
  nlohmann::json object;
  object["name"] = entry.name;
  object["path"] = entry.path;
  object["bytes"] = entry.bytes.has_value() ? nlohmann::json(*entry.bytes) : nlohmann::json();
  object["sha256"] = entry.sha256.has_value() ? nlohmann::json(*entry.sha256) : nlohmann::json();
  object["present"] = entry.present;
  object["default"] = entry.is_default;
  object["verified"] = nullptr;
  if (verified != nullptr && !verified->sha256.empty()) {
    object["sha256"] = verified->sha256;
    object["verified"] = verified->agrees;
  }
  object["problem"] = entry.problem.empty() ? nlohmann::json() : nlohmann::json(entry.problem);
  object["how_to_get"] =
      entry.how_to_get.empty() ? nlohmann::json() : nlohmann::json(entry.how_to_get);
  return object;
}

std::string Column(const std::string& text, int width) { return PadRight(text, width) + "  "; }

// What kind of model a sound file holds: "llama, 30 blocks, 49152 tokens".
std::string ShapeOf(const CatalogEntry& entry) {
  const Result<std::vector<gguf::Header>> parts = gguf::ReadAllParts(entry.path);
  if (!parts.ok()) return "";
  const gguf::Header& header = parts->front();
  std::string text = header.Architecture();
  if (const auto blocks = header.ArchitectureInt("block_count")) {
    text += ", " + std::to_string(*blocks) + " blocks";
  }
  return text + ", " + std::to_string(header.VocabularySize()) + " tokens";
}

void PrintTable(const std::vector<CatalogEntry>& entries, const std::vector<Verified>& verified) {
  int width = 4;
  for (const CatalogEntry& entry : entries) {
    width = std::max(width, DisplayColumns(SafeText(entry.name)));
  }
  std::string text;
  for (size_t i = 0; i < entries.size(); ++i) {
    const CatalogEntry& entry = entries[i];
    text += Column(SafeText(entry.name), width);
    text += Column(entry.bytes.has_value() ? FormatBytes(*entry.bytes) : "", 8);
    text += !entry.present          ? "not here"
            : entry.problem.empty() ? SafeText(ShapeOf(entry))
                                    : "unusable";
    if (entry.is_default) text += " (default)";
    text += '\n';
    const std::string indent(static_cast<size_t>(width) + 2, ' ');
    if (entry.present) text += indent + SafeText(entry.path) + '\n';
    if (!entry.problem.empty()) text += indent + SafeText(entry.problem) + '\n';
    if (!entry.present) text += indent + "get it: " + entry.how_to_get + '\n';
    if (!verified.empty() && !verified[i].sha256.empty()) {
      const char* const verdict = !entry.sha256.has_value() ? ""
                                  : verified[i].agrees      ? " (as pinned)"
                                                            : " (NOT the pinned one)";
      text += indent + "sha256 " + verified[i].sha256 + verdict + '\n';
    }
  }
  text += "\nSearched for *.gguf:";
  for (const std::string& folder : models::SearchFolders()) text += " " + SafeText(folder);
  text += "\nPut a GGUF file there, or name one by its path: rouse measure --model ./FILE.gguf\n";
  std::fputs(text.c_str(), stdout);
}

}  // namespace

int RunModels(int argc, const char* const* argv) {
  CLI::App app("The models that are here, and how to get the default one", "models");
  CommonFlags flags;
  AddCommonFlags(app, flags);
  bool verify = false;
  app.add_flag("--verify", verify, "Read every file, print its SHA-256 and compare pinned ones");
  app.footer(
      "A name stands for a known model or for NAME.gguf in a folder of $ROUSE_MODELS (separated "
      "by\n"
      "':') or in the cache's models folder ($ROUSE_CACHE, else $XDG_CACHE_HOME/rouse, else\n"
      "~/.cache/rouse). Without --verify, sha256 is the pinned digest of a known model whose size\n"
      "agrees, and null for other files.\n\nExample: rouse models --verify");
  if (const std::optional<int> status = ParseArguments(app, argc, argv)) return *status;
  InstallInterruptHandler();

  const std::vector<CatalogEntry> entries = models::List();
  std::vector<Verified> verified;
  bool all_agree = true;
  if (verify) {
    Progress progress(flags);
    for (const CatalogEntry& entry : entries) {
      verified.emplace_back();
      if (!entry.present || !entry.problem.empty()) continue;
      Result<Verified> result = Verify(entry, progress);
      if (!result.ok()) return Fail(result.error());
      verified.back() = *std::move(result);
      all_agree = all_agree && verified.back().agrees;
    }
  }
  if (flags.json) {
    nlohmann::json list = nlohmann::json::array();
    for (size_t i = 0; i < entries.size(); ++i) {
      list.push_back(ToJson(entries[i], verify ? &verified[i] : nullptr));
    }
    const nlohmann::json object = {{"models", std::move(list)}};
    std::printf("%s\n", DumpJson(object, 2).c_str());
  } else {
    PrintTable(entries, verified);
  }
  if (all_agree) return 0;
  return Fail(Error(ErrorCode::kCorrupt,
                    "a model's content is not what it should be; delete the "
                    "file marked above and run ./dev run to fetch it again"));
}

}  // namespace rouse::cli
