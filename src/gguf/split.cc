#include "gguf/split.h"

#include <optional>
#include <utility>

namespace rouse::gguf {
namespace {

// "00042"; longer numbers as they are.
std::string FiveDigits(int64_t number) {
  const std::string digits = std::to_string(number);
  return digits.size() >= 5 ? digits : std::string(5 - digits.size(), '0') + digits;
}

// The tail of a part's file name, as llama.cpp's gguf-split writes it, counted from 1.
std::string PartSuffix(int64_t number, int64_t count) {
  return "-" + FiveDigits(number + 1) + "-of-" + FiveDigits(count) + ".gguf";
}

Error BadPart(const Header& header, const std::string& sentence) {
  return {ErrorCode::kCorrupt, header.path + " " + sentence};
}

}  // namespace

Result<std::vector<std::string>> PartPaths(const Header& header) {
  const int64_t count = header.PartCount();
  const int64_t number = header.PartNumber();
  if (count == 0 || count == 1) return std::vector<std::string>{header.path};
  // 16 bits in the file; the name's five digits fit.
  if (count < 0 || count > 65'535 || number < 0 || number >= count) {
    return BadPart(header, "is damaged in its header: it claims to be part " +
                               std::to_string(number + 1) + " of " + std::to_string(count));
  }
  const std::string suffix = PartSuffix(number, count);
  if (!header.path.ends_with(suffix)) {
    return BadPart(header, "is part " + std::to_string(number + 1) + " of " +
                               std::to_string(count) +
                               " of a split model, but its name does not "
                               "end with \"" +
                               suffix + "\", so the other parts can't be found");
  }
  const std::string prefix = header.path.substr(0, header.path.size() - suffix.size());
  std::vector<std::string> paths;
  for (int64_t i = 0; i < count; ++i) paths.push_back(prefix + PartSuffix(i, count));
  return paths;
}

Result<std::vector<Header>> ReadAllParts(const std::string& path, const ReadOptions& options) {
  ASSIGN_OR_RETURN(Header given, ReadHeader(path, options));
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, PartPaths(given));
  std::vector<Header> parts;
  if (paths.size() == 1) {
    parts.push_back(std::move(given));
    return parts;
  }
  const int64_t count = given.PartCount();
  int64_t tensor_count = 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    Result<Header> part = ReadHeader(paths[i], options);
    if (!part.ok()) {
      return Error(part.error().code(), part.error().message() + " (part " + std::to_string(i + 1) +
                                            " of " + std::to_string(count) + " of the model " +
                                            path + ")");
    }
    if (part->PartCount() != count || part->PartNumber() != static_cast<int64_t>(i)) {
      return BadPart(*part, "says it is part " + std::to_string(part->PartNumber() + 1) + " of " +
                                std::to_string(part->PartCount()) + ", its name says part " +
                                std::to_string(i + 1) + " of " + std::to_string(count));
    }
    tensor_count += static_cast<int64_t>(part->tensors.size());
    parts.push_back(*std::move(part));
  }
  const std::optional<int64_t> wanted = parts.front().FindInt("split.tensors.count");
  if (wanted.has_value() && *wanted != tensor_count) {
    return BadPart(parts.front(), "belongs to a model of " + std::to_string(*wanted) +
                                      " tensors, but its parts hold " +
                                      std::to_string(tensor_count));
  }
  return parts;
}

}  // namespace rouse::gguf
