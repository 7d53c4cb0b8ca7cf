// Model names: which file a name stands for, which models are here, and how to get the ones that
// are not. Nothing here downloads (`./dev run` fetches the default model by a hash-pinned package).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rouse::models {

inline constexpr std::string_view kDefaultModel = "smollm2-135m";

// A model that is here and whose header is sound.
struct ModelFile {
  std::string name;                // the catalogue's name, or the file's name without ".gguf"
  std::string path;                // the file, or a split model's first part
  std::vector<std::string> parts;  // all files, in order; {path} for a whole file
  int64_t bytes = 0;               // of all parts
};

struct CatalogEntry {
  std::string name;
  std::string path;              // where it is, or where it has to go
  std::optional<int64_t> bytes;  // of all parts; for a pinned model that is absent, its known size
  std::optional<std::string> sha256;  // known: pinned, and the file's size agrees (or it is absent)
  bool present = false;
  bool is_default = false;
  std::string problem;     // why a file that is here can't be used; empty when it can
  std::string how_to_get;  // one sentence; empty for files that are simply there
};

// $ROUSE_CACHE, else $XDG_CACHE_HOME/rouse, else ~/.cache/rouse; then "/models".
std::string ModelsFolder();
// The absolute folder of a model file; ModelsFolder() for no file.
std::string FolderOf(const std::string& model_file);
// The folders that are searched for *.gguf: those of $ROUSE_MODELS (separated by ':'), in its
// order, then ModelsFolder().
std::vector<std::string> SearchFolders();

// The file for a name or a path. What has a slash or ends with ".gguf" is a path (a bare file name
// is looked up in the current folder, then in SearchFolders()). Reads the file's header.
// Errors: kUsage for a name that the catalogue does not know (names the nearest one and how to get
// the default), kNotFound for a known model or a path that is not there (how to get it), else what
// gguf::ReadHeader says.
Result<ModelFile> Resolve(std::string_view name_or_path);

// Known models, then every other *.gguf of SearchFolders() by name. Reads each file's header, no
// tensor data.
std::vector<CatalogEntry> List();

// SHA-256 of a whole file as hex. Reads it past the page cache where the file system can.
// `on_bytes` hears the bytes read so far; kInterrupted when `cancel` becomes true.
Result<std::string> FileSha256(const std::string& path,
                               const std::function<void(int64_t)>& on_bytes = {},
                               const std::atomic<bool>* cancel = nullptr);

}  // namespace rouse::models
