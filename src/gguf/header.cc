#include "gguf/header.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>

#include "base/fd.h"
#include "gguf/cursor.h"
#include "gguf/parser.h"

namespace rouse::gguf {
namespace {

constexpr size_t kWindowBytes = size_t{256} << 10U;
constexpr size_t kPageBytes = 4096;  // what O_DIRECT wants memory, offsets and lengths aligned to

class FileSource : public ByteSource {
 public:
  FileSource(Fd fd, std::string path)
      : fd_(std::move(fd)),
        path_(std::move(path)),
        buffer_(static_cast<char*>(std::aligned_alloc(kPageBytes, kWindowBytes))) {
    CHECK(buffer_ != nullptr);
  }

  Result<std::string_view> ReadAt(int64_t offset) override {
    const auto into_page = static_cast<size_t>(offset) % kPageBytes;
    const off_t start = offset - static_cast<off_t>(into_page);
    ssize_t count = pread(fd_.get(), buffer_.get(), kWindowBytes, start);
    // Some file systems accept O_DIRECT at open and refuse it here.
    while (count < 0 && (errno == EINTR || (errno == EINVAL && StopDirect()))) {
      count = pread(fd_.get(), buffer_.get(), kWindowBytes, start);
    }
    if (count < 0) return Error::FromErrno(errno, "cannot read " + path_);
    const auto valid = static_cast<size_t>(count);
    if (valid <= into_page) return std::string_view();
    return std::string_view(buffer_.get() + into_page, valid - into_page);
  }

 private:
  // Whether the descriptor was O_DIRECT; now it is not.
  bool StopDirect() {
    const int flags = fcntl(fd_.get(), F_GETFL);
    if (flags < 0 || (flags & O_DIRECT) == 0) return false;
    return fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) == 0;
  }

  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  Fd fd_;
  std::string path_;
  std::unique_ptr<char, Free> buffer_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}

  Result<std::string_view> ReadAt(int64_t offset) override {
    const auto start = static_cast<size_t>(offset);
    if (start >= bytes_.size()) return std::string_view();
    return bytes_.substr(start);
  }

 private:
  std::string_view bytes_;
};

Result<Fd> OpenModel(const std::string& path, const ReadOptions& options) {
  // O_NONBLOCK: a FIFO that nobody writes to must not hang us; it means nothing for a file.
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
  if (options.leave_page_cache_alone) {
    Result<Fd> fd = OpenFile(path, kFlags | O_DIRECT);
    if (fd.ok()) return fd;
  }
  Result<Fd> fd = OpenFile(path, kFlags);
  if (fd.ok()) return fd;
  if (fd.error().code() == ErrorCode::kNotFound) {
    return Error(ErrorCode::kNotFound, "there is no model file " + path);
  }
  return fd;
}

}  // namespace

Result<Header> ReadHeader(const std::string& path, const ReadOptions& options) {
  ASSIGN_OR_RETURN(Fd fd, OpenModel(path, options));
  struct stat facts{};
  if (fstat(fd.get(), &facts) != 0) return Error::FromErrno(errno, "cannot examine " + path);
  if (S_ISDIR(facts.st_mode)) {
    return Error(ErrorCode::kCorrupt, path + " is a directory, not a model file");
  }
  if (!S_ISREG(facts.st_mode)) {
    return Error(ErrorCode::kCorrupt, path + " is not a regular file");
  }
  if (facts.st_size == 0) return Error(ErrorCode::kCorrupt, path + " is empty (0 bytes)");
  FileSource source(std::move(fd), path);
  return Parse(source, facts.st_size, path);
}

Result<Header> ParseHeader(std::string_view bytes, int64_t file_bytes, const std::string& name) {
  if (bytes.empty() || file_bytes <= 0) {
    return Error(ErrorCode::kCorrupt, name + " is empty (0 bytes)");
  }
  MemorySource source(bytes);
  return Parse(source, file_bytes, name);
}

const Entry* Header::Find(std::string_view key) const {
  for (const Entry& entry : metadata) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

std::optional<int64_t> Header::FindInt(std::string_view key) const {
  const Entry* const entry = Find(key);
  if (entry == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(&entry->value)) return *number;
  const auto* number = std::get_if<uint64_t>(&entry->value);
  if (number == nullptr || !std::in_range<int64_t>(*number)) return std::nullopt;
  return static_cast<int64_t>(*number);
}

std::optional<double> Header::FindFloat(std::string_view key) const {
  const Entry* const entry = Find(key);
  if (entry == nullptr) return std::nullopt;
  const auto* number = std::get_if<double>(&entry->value);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

std::optional<std::string> Header::FindString(std::string_view key) const {
  const Entry* const entry = Find(key);
  if (entry == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string>(&entry->value);
  return text == nullptr ? std::nullopt : std::optional(*text);
}

std::string Header::Architecture() const { return FindString("general.architecture").value_or(""); }

std::optional<int64_t> Header::ArchitectureInt(std::string_view name) const {
  return FindInt(Architecture() + "." + std::string(name));
}

int64_t Header::VocabularySize() const {
  const Entry* const tokens = Find("tokenizer.ggml.tokens");
  return tokens == nullptr ? 0 : tokens->count;
}

int64_t Header::PartCount() const { return FindInt("split.count").value_or(1); }

int64_t Header::PartNumber() const { return FindInt("split.no").value_or(0); }

}  // namespace rouse::gguf
