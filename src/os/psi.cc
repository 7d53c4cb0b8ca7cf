#include "os/psi.h"

#include <charconv>
#include <cmath>

#include "os/kernel_text.h"

namespace rouse::os {
namespace {

Result<double> ParsePercent(std::string_view text, const std::string& path) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value) || value < 0) {
    return Error(ErrorCode::kCorrupt,
                 "/" + path + ": \"" + std::string(text) + "\" is not a percentage");
  }
  return value;
}

// some avg10=98.57 avg60=92.75 avg300=46.91 total=382418811
Status ParseLine(const std::vector<std::string_view>& fields, const std::string& path,
                 PsiLine& line) {
  for (size_t i = 1; i < fields.size(); ++i) {
    const size_t equals = fields[i].find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = fields[i].substr(0, equals);
    const std::string_view value = fields[i].substr(equals + 1);
    if (key == "total") {
      ASSIGN_OR_RETURN(line.total_us, ParseKernelNumber(value, path, key));
    } else if (key == "avg10") {
      ASSIGN_OR_RETURN(line.avg10, ParsePercent(value, path));
    } else if (key == "avg60") {
      ASSIGN_OR_RETURN(line.avg60, ParsePercent(value, path));
    } else if (key == "avg300") {
      ASSIGN_OR_RETURN(line.avg300, ParsePercent(value, path));
    }
  }
  return {};
}

}  // namespace

Result<Psi> ReadPsi(const ProcRoot& root, PsiResource resource) {
  switch (resource) {
    case PsiResource::kCpu:
      return ReadPsiFile(root, "proc/pressure/cpu");
    case PsiResource::kMemory:
      return ReadPsiFile(root, "proc/pressure/memory");
    case PsiResource::kIo:
      return ReadPsiFile(root, "proc/pressure/io");
  }
  return Error(ErrorCode::kInternal, "unknown resource");
}

Result<Psi> ReadPsiFile(const ProcRoot& root, const std::string& path) {
  const Result<std::string> text = root.Read(path);
  if (!text.ok()) return text.error();
  Psi psi;
  bool any = false;
  for (const std::string_view line : SplitAt(*text, '\n')) {
    const std::vector<std::string_view> fields = SplitBlanks(line);
    if (fields.empty() || (fields[0] != "some" && fields[0] != "full")) continue;
    RETURN_IF_ERROR(ParseLine(fields, path, fields[0] == "some" ? psi.some : psi.full));
    any = true;
  }
  if (!any) return Error(ErrorCode::kCorrupt, "/" + path + " has neither a some nor a full line");
  return psi;
}

}  // namespace rouse::os
