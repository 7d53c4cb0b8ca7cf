// FileSha256, the only user of OpenSSL in this folder.
#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/fd.h"
#include "models/catalog.h"

namespace rouse::models {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20U;
constexpr size_t kPageBytes = 4096;

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
struct FreeMemory {
  void operator()(char* memory) const { std::free(memory); }
};

std::string Hex(const unsigned char* bytes, size_t count) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4U];
    text += kDigits[bytes[i] & 15U];
  }
  return text;
}

// Past the page cache where possible: looking at a model must not warm it.
Result<Fd> OpenDirect(const std::string& path) {
  Result<Fd> fd = OpenFile(path, O_RDONLY | O_DIRECT);
  if (fd.ok()) return fd;
  return OpenFile(path, O_RDONLY);
}

bool StopDirect(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_DIRECT) == 0) return false;
  return fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

}  // namespace

Result<std::string> FileSha256(const std::string& path,
                               const std::function<void(int64_t)>& on_bytes,
                               const std::atomic<bool>* cancel) {
  ASSIGN_OR_RETURN(const Fd fd, OpenDirect(path));
  const std::unique_ptr<char, FreeMemory> buffer(
      static_cast<char*>(std::aligned_alloc(kPageBytes, kBufferBytes)));
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  if (buffer == nullptr || context == nullptr ||
      EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return Error(ErrorCode::kInternal, "cannot set up SHA-256");
  }
  int64_t done_bytes = 0;
  while (true) {
    if (cancel != nullptr && cancel->load()) {
      return Error(ErrorCode::kInterrupted, "interrupted while reading " + path);
    }
    const ssize_t count = pread(fd.get(), buffer.get(), kBufferBytes, done_bytes);
    if (count < 0 && (errno == EINTR || (errno == EINVAL && StopDirect(fd.get())))) continue;
    if (count < 0) return Error::FromErrno(errno, "cannot read " + path);
    if (count == 0) break;
    EVP_DigestUpdate(context.get(), buffer.get(), static_cast<size_t>(count));
    done_bytes += count;
    if (on_bytes) on_bytes(done_bytes);
    // A short count is the end of the file, but O_DIRECT could not go on from there anyway.
    if (done_bytes % static_cast<int64_t>(kPageBytes) != 0) StopDirect(fd.get());
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_bytes = 0;
  if (EVP_DigestFinal_ex(context.get(), digest.data(), &digest_bytes) != 1) {
    return Error(ErrorCode::kInternal, "cannot finish SHA-256 of " + path);
  }
  return Hex(digest.data(), digest_bytes);
}

}  // namespace rouse::models
