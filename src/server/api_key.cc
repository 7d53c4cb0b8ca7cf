#include "server/api_key.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/strings.h"

namespace rouse::server {
namespace {

// Looks at every byte of `given`, also behind the first difference.
bool SameSecret(std::string_view given, std::string_view secret) {
  size_t different = given.size() ^ secret.size();
  for (size_t at = 0; at < given.size(); ++at) {
    const char expected = secret.empty() ? '\0' : secret[at % secret.size()];
    different |= static_cast<size_t>(static_cast<unsigned char>(given[at] ^ expected));
  }
  return different == 0;
}

}  // namespace

Result<std::string> ReadApiKeyFile(const std::string& path) {
  ASSIGN_OR_RETURN(const Fd fd, OpenFile(path, O_RDONLY));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return Error::FromErrno(errno, "cannot read " + path);
  if (S_ISREG(status.st_mode) && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error(ErrorCode::kPermission,
                 "--api-key-file " + path + " can be read by other users; run chmod 600 " + path);
  }
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, size_t{64} << 10U));
  const std::string_view key = TrimBlanks(std::string_view(text).substr(0, text.find('\n')));
  if (key.empty()) return Error(ErrorCode::kUsage, "--api-key-file " + path + " holds no key");
  return std::string(key);
}

bool CarriesKey(const http::Request& request, std::string_view key) {
  if (const auto header = request.Find("Authorization")) {
    constexpr std::string_view kBearer = "bearer ";
    if (LowerAscii(header->substr(0, kBearer.size())) == kBearer) {
      return SameSecret(TrimBlanks(header->substr(kBearer.size())), key);
    }
  }
  if (const auto header = request.Find("X-Api-Key")) return SameSecret(TrimBlanks(*header), key);
  return false;
}

}  // namespace rouse::server
