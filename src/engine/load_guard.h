// LoadGuard: weights that are copied out of a mapped file while they are loaded (repacked, or for a
// device) are read by touching the mapping, before anybody else knows where it is. A file that is
// cut meanwhile, or a failing disk, would end the process by SIGBUS. The runtime does not tell
// where it maps, so the guard asks the kernel. Private to src/engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "loader/mapping_guard.h"

namespace rouse::engine {

// What this process has mapped of the files, shared and read-only, from /proc/self/maps; empty
// where that can't be read. About 0.1 ms.
std::vector<FileMapping> MappingsOfFiles(const std::vector<std::string>& paths);

class LoadGuard {
 public:
  // Before the load. Mappings of these files that exist by now are others'.
  explicit LoadGuard(std::vector<std::string> paths);

  // On the loading thread, as often as there is a chance: guards what was mapped since then, once
  // there is something.
  void Look();
  // When the load has ended: guards what is still mapped, for as long as this lives. The runtime
  // unmaps what it does not need any more, and whatever comes to lie there is none of ours.
  void LookAgain();

  // kCorrupt: not all could be read, so that what was made of it is not the file's.
  Status Check();

 private:
  struct Guarded {
    FileMapping mapping;
    std::unique_ptr<loader::MappingGuard> guard;
  };

  const std::vector<std::string> paths_;
  std::vector<const std::byte*> others_;
  std::vector<Guarded> guarded_;
  Status status_;
};

}  // namespace rouse::engine
