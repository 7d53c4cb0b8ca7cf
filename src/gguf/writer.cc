#include "gguf/writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/fd.h"
#include "base/units.h"
#include "gguf/tensor_table.h"

namespace rouse::gguf {
namespace {

constexpr int64_t kAlignment = 32;
// Dirty pages are handed to the device in steps of this size, so that the progress shown is the
// disk's and the final fsync has little left.
constexpr int64_t kWritebackStepBytes = int64_t{64} << 20;

template <typename T>
  requires std::is_arithmetic_v<T>
void Append(std::string& out, T value) {
  std::array<char, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(T));  // little-endian host; parser.cc asserts it
  out.append(bytes.data(), bytes.size());
}

void AppendText(std::string& out, std::string_view text) {
  Append(out, static_cast<uint64_t>(text.size()));
  out += text;
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

struct PlannedTensor {
  std::string name;
  std::vector<int64_t> dims;
  uint32_t type = 0;
  int64_t offset = 0;
};

}  // namespace

struct Writer::State {
  std::string path;
  std::string entries;
  uint64_t entry_count = 0;
  std::vector<std::string> keys;
  std::vector<PlannedTensor> tensors;
  int64_t data_bytes = 0;

  Fd fd;
  std::string temporary;  // the unfinished file's name; empty when it has none (O_TMPFILE)
  int64_t header_bytes = 0;
  int64_t written_bytes = 0;  // of data
  int64_t synced_bytes = 0;   // of the file: handed to the device

  ~State() {
    if (!temporary.empty()) unlink(temporary.c_str());
  }

  void AddKey(std::string_view key, ValueType type) {
    CHECK(!fd.valid());
    CHECK(std::ranges::find(keys, key) == keys.end());
    keys.emplace_back(key);
    ++entry_count;
    AppendText(entries, key);
    Append(entries, static_cast<uint32_t>(type));
  }

  template <typename T>
  void AddScalar(std::string_view key, ValueType type, T value) {
    AddKey(key, type);
    Append(entries, value);
  }

  void AddArrayHead(std::string_view key, ValueType element, size_t count) {
    AddKey(key, ValueType::kArray);
    Append(entries, static_cast<uint32_t>(element));
    Append(entries, static_cast<uint64_t>(count));
  }

  // The header with its padding.
  std::string HeaderText() const {
    std::string text = "GGUF";
    Append(text, uint32_t{3});
    Append(text, static_cast<uint64_t>(tensors.size()));
    Append(text, entry_count);
    text += entries;
    for (const PlannedTensor& tensor : tensors) {
      AppendText(text, tensor.name);
      Append(text, static_cast<uint32_t>(tensor.dims.size()));
      for (const int64_t dim : tensor.dims) Append(text, dim);
      Append(text, tensor.type);
      Append(text, static_cast<uint64_t>(tensor.offset));
    }
    text.resize(static_cast<size_t>(AlignUp(static_cast<int64_t>(text.size()), kAlignment)));
    return text;
  }

  Error WriteError(int error_number) const;
  Status Create();
  Status Reserve(int64_t total_bytes);
  Status WriteAt(std::string_view bytes, int64_t at);
  void StartWriteback();
  Status Publish();
};

// "cannot write OUT.gguf: No space left on device (703.2 MB wanted, 1.2 MB free)"
Error Writer::State::WriteError(int error_number) const {
  Error error = Error::FromErrno(error_number, "cannot write " + path);
  if (error_number != ENOSPC && error_number != EDQUOT && error_number != EFBIG) return error;
  std::string text =
      error.message() + " (" + std::to_string(header_bytes + data_bytes) + " bytes wanted";
  struct statvfs facts{};
  if (error_number == ENOSPC && statvfs(FolderOf(path).c_str(), &facts) == 0) {
    const auto free_bytes = static_cast<int64_t>(facts.f_bavail * facts.f_frsize);
    text += ", " + std::to_string(free_bytes) + " free on " + FolderOf(path);
  }
  return {error.code(), text + ")"};
}

Status Writer::State::Create() {
  struct stat facts{};
  if (stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
    return Error(ErrorCode::kState, "cannot write " + path + ": it is there and no regular file");
  }
  // Without a name until it is whole: a killed process leaves nothing behind.
  fd.Reset(open(FolderOf(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644));
  if (fd.valid()) return {};
  if (errno == ENOENT) {
    return Error(ErrorCode::kNotFound,
                 "cannot write " + path + ": there is no folder " + FolderOf(path));
  }
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return WriteError(errno);
  const std::string name = path + "." + std::to_string(getpid()) + ".part";
  fd.Reset(open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644));
  if (!fd.valid()) return WriteError(errno);
  temporary = name;
  return {};
}

Status Writer::State::Reserve(int64_t total_bytes) {
  int error_number = 0;
  do {
    error_number = fallocate(fd.get(), 0, 0, total_bytes) == 0 ? 0 : errno;
  } while (error_number == EINTR);
  // A file system without it shows a full disk later, at a write.
  if (error_number == 0 || error_number == EOPNOTSUPP || error_number == ENOSYS) return {};
  return WriteError(error_number);
}

Status Writer::State::WriteAt(std::string_view bytes, int64_t at) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd.get(), bytes.data(), bytes.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return WriteError(errno);
    bytes.remove_prefix(static_cast<size_t>(count));
    at += count;
  }
  return {};
}

// Best effort: an error of the device comes again at fsync.
void Writer::State::StartWriteback() {
  const int64_t end = header_bytes + written_bytes;
  while (end - synced_bytes >= kWritebackStepBytes) {
    sync_file_range(fd.get(), synced_bytes, kWritebackStepBytes, SYNC_FILE_RANGE_WRITE);
    if (synced_bytes >= kWritebackStepBytes) {
      sync_file_range(
          fd.get(), synced_bytes - kWritebackStepBytes, kWritebackStepBytes,
          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
    synced_bytes += kWritebackStepBytes;
  }
}

Status Writer::State::Publish() {
  if (fsync(fd.get()) != 0) return WriteError(errno);
  if (temporary.empty()) {
    const std::string name = path + "." + std::to_string(getpid()) + ".part";
    const std::string source = "/proc/self/fd/" + std::to_string(fd.get());
    if (linkat(AT_FDCWD, source.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return WriteError(errno);
    }
    temporary = name;
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) return WriteError(errno);
  temporary.clear();
  const Fd folder(open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid() && fsync(folder.get()) != 0 && errno != EINVAL) return WriteError(errno);
  return {};
}

Writer::Writer(std::string path) : state_(std::make_unique<State>()) {
  state_->path = std::move(path);
}
Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;

void Writer::AddUint32(std::string_view key, uint32_t value) {
  state_->AddScalar(key, ValueType::kUint32, value);
}
void Writer::AddUint16(std::string_view key, uint16_t value) {
  state_->AddScalar(key, ValueType::kUint16, value);
}
void Writer::AddInt32(std::string_view key, int32_t value) {
  state_->AddScalar(key, ValueType::kInt32, value);
}
void Writer::AddFloat32(std::string_view key, float value) {
  state_->AddScalar(key, ValueType::kFloat32, value);
}
void Writer::AddBool(std::string_view key, bool value) {
  state_->AddScalar(key, ValueType::kBool, static_cast<uint8_t>(value ? 1 : 0));
}
void Writer::AddString(std::string_view key, std::string_view value) {
  state_->AddKey(key, ValueType::kString);
  AppendText(state_->entries, value);
}
void Writer::AddStrings(std::string_view key, std::span<const std::string> values) {
  state_->AddArrayHead(key, ValueType::kString, values.size());
  for (const std::string& value : values) AppendText(state_->entries, value);
}
void Writer::AddFloats(std::string_view key, std::span<const float> values) {
  state_->AddArrayHead(key, ValueType::kFloat32, values.size());
  for (const float value : values) Append(state_->entries, value);
}
void Writer::AddInts(std::string_view key, std::span<const int32_t> values) {
  state_->AddArrayHead(key, ValueType::kInt32, values.size());
  for (const int32_t value : values) Append(state_->entries, value);
}

void Writer::AddTensor(std::string_view name, std::vector<int64_t> dims, uint32_t type) {
  CHECK(!state_->fd.valid());
  const TensorType* const traits = FindTensorType(type);
  CHECK(traits != nullptr);
  const std::optional<int64_t> bytes = TensorBytes(dims, *traits);
  CHECK(bytes.has_value());
  state_->tensors.push_back({std::string(name), std::move(dims), type, state_->data_bytes});
  state_->data_bytes += AlignUp(*bytes, kAlignment);
}

int64_t Writer::DataBytes() const { return state_->data_bytes; }

int64_t Writer::TotalBytes() const {
  return static_cast<int64_t>(state_->HeaderText().size()) + state_->data_bytes;
}

Status Writer::BeginData() {
  CHECK(!state_->fd.valid());
  const std::string header = state_->HeaderText();
  state_->header_bytes = static_cast<int64_t>(header.size());
  RETURN_IF_ERROR(state_->Create());
  RETURN_IF_ERROR(state_->Reserve(state_->header_bytes + state_->data_bytes));
  return state_->WriteAt(header, 0);
}

Status Writer::WriteData(std::span<const std::byte> bytes) {
  CHECK(state_->fd.valid());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  RETURN_IF_ERROR(state_->WriteAt(text, state_->header_bytes + state_->written_bytes));
  state_->written_bytes += static_cast<int64_t>(bytes.size());
  state_->StartWriteback();
  return {};
}

Status Writer::Finish() {
  CHECK(state_->fd.valid());
  if (state_->written_bytes != state_->data_bytes) {
    return Error(ErrorCode::kInternal, "cannot finish " + state_->path + ": " +
                                           std::to_string(state_->written_bytes) + " of " +
                                           std::to_string(state_->data_bytes) +
                                           " bytes of tensor data were written");
  }
  const Status status = state_->Publish();
  state_->fd.Reset();
  return status;
}

}  // namespace rouse::gguf
