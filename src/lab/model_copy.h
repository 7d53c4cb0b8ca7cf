// The model's file in another directory, for a condition's `path`: storage tiers are compared with
// the same bytes. A file of that name with the same content is used as it is; else a copy is made
// beside it and removed at the end. One thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace rouse::lab {

class ModelCopies {
 public:
  ModelCopies() = default;
  // Removes the copies that were made.
  ~ModelCopies();
  ModelCopies(ModelCopies&&) = default;
  ModelCopies& operator=(ModelCopies&&) = default;

  // The path of `source`'s content in `directory`; copied there, and on its disk (fdatasync), when
  // it is not. Asked for again it answers at once. Errors as the kernel says (no such directory, no
  // space: nothing is left then), kInterrupted, kUnsupported for a model of several files.
  Result<std::string> Place(const std::string& source, const std::string& directory,
                            const std::function<bool()>& interrupted);

 private:
  std::map<std::string, std::string> placed_;  // directory -> path
  std::vector<std::string> made_;
};

// Whether both files have the same bytes, as far as 64 windows of 1 MiB, the first and the last
// among them, and their sizes tell; up to 64 MiB that is everything.
Result<bool> SameContent(const std::string& a, const std::string& b);

}  // namespace rouse::lab
