#include "cli/file_argument.h"

#include <sys/stat.h>

#include "models/catalog.h"

namespace rouse::cli {

Result<std::vector<std::string>> FilesOfArgument(const std::string& argument) {
  struct stat facts{};
  if (stat(argument.c_str(), &facts) == 0) {
    if (S_ISDIR(facts.st_mode)) {
      return Error(ErrorCode::kNotFound, argument + " is a directory: name a file in it");
    }
    return std::vector<std::string>{argument};
  }
  // Any file may be looked at, so a path that is missing is no question for the catalogue.
  if (argument.find('/') != std::string::npos) {
    return Error(ErrorCode::kNotFound, "there is no file " + argument);
  }
  ASSIGN_OR_RETURN(const models::ModelFile model, models::Resolve(argument));
  return model.parts;
}

std::string DescribeFiles(const std::vector<std::string>& files) {
  if (files.size() == 1) return files[0];
  return files[0] + " and " + std::to_string(files.size() - 1) + " more parts";
}

}  // namespace rouse::cli
