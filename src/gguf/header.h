// Reads the header of a GGUF file (versions 2 and 3, little-endian): metadata and the tensor table.
// It never maps the file and never reads tensor data. Everything in the file is untrusted: each
// count, length, offset and size is held against the file's own size before it is believed, and
// nothing is allocated in proportion to a number that the file merely claims. Large arrays (a
// vocabulary) are walked over, not copied: they stay as offset and count.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "gguf/tensor_type.h"

namespace rouse::gguf {

// The numbers of the file format.
enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// One metadata entry.
struct Entry {
  std::string key;
  ValueType type = ValueType::kUint8;
  // Scalars: a number in its widest form, a bool or a string. Arrays: monostate.
  std::variant<std::monostate, int64_t, uint64_t, double, bool, std::string> value;
  // Where the payload lies in the file: of a string, its characters; of an array, its elements.
  int64_t offset = 0;
  int64_t bytes = 0;
  // Arrays only.
  ValueType element_type = ValueType::kUint8;
  int64_t count = 0;
};

struct Tensor {
  std::string name;
  std::vector<int64_t>
      dims;  // dims[0] varies fastest in memory, as in the file; at most 4, none = a scalar
  const TensorType* type = nullptr;
  int64_t offset = 0;  // from the start of the file
  int64_t bytes = 0;   // without padding
};

// A part of the file: bytes [offset, offset + bytes).
struct FileRange {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// The tensors that one step of a forward pass needs together.
struct Group {
  std::string name;             // "embedding", "blk.0", ..., "output", "other"
  int64_t bytes = 0;            // of its tensors, without padding
  std::vector<size_t> tensors;  // indices into Header::tensors, in file order
  // Where they lie, merged over gaps of padding only, in file order.
  std::vector<FileRange> ranges;
};

struct Header {
  std::string path;
  uint32_t version = 0;
  int64_t file_bytes = 0;
  int64_t alignment = 32;
  int64_t data_offset = 0;      // first byte of tensor data; header bytes are [0, data_offset)
  std::vector<Entry> metadata;  // in file order
  std::vector<Tensor> tensors;  // in the order in which their data lies in the file

  // nullptr when there is no such key.
  const Entry* Find(std::string_view key) const;
  // nullopt when the key is missing or holds another kind of value (an integer of any width that
  // fits, for FindInt).
  std::optional<int64_t> FindInt(std::string_view key) const;
  std::optional<double> FindFloat(std::string_view key) const;
  std::optional<std::string> FindString(std::string_view key) const;

  std::string Architecture() const;  // "llama", or "" when the file doesn't say
  // `FindInt` of "<architecture>.<name>", as in ArchitectureInt("context_length").
  std::optional<int64_t> ArchitectureInt(std::string_view name) const;
  // Length of the token array (not "<arch>.vocab_size", which may differ), 0 without one.
  int64_t VocabularySize() const;
  // Parts that a split model consists of (1 for a whole file), and which one this is, from 0.
  int64_t PartCount() const;
  int64_t PartNumber() const;
};

struct ReadOptions {
  // Reads past the page cache (O_DIRECT) where the file system can, so that looking at a cold file
  // does not warm its header. Where it can't (tmpfs: always resident anyway), reads plainly.
  bool leave_page_cache_alone = false;
};

// Reads and validates. Errors are one sentence that names the file: kNotFound (missing),
// kPermission, kCorrupt (a directory, empty, not GGUF and what it looks like, cut, impossible
// numbers), kUnsupported (a version, byte order or tensor type that we can't read), kIo.
// Cost: reads the header once, in 256 KiB pieces; 5-10 ms for a 128k vocabulary in page cache.
// Thread-safe.
Result<Header> ReadHeader(const std::string& path, const ReadOptions& options = {});

// The same for bytes in memory that are a file's beginning, of a file that has `file_bytes` in all;
// for tests and the fuzzer. `name` stands for the path in errors.
Result<Header> ParseHeader(std::string_view bytes, int64_t file_bytes, const std::string& name);

// The tensors in the order in which a forward pass needs them: embedding, blocks, output.
std::vector<Group> GraphOrder(const Header& header);

}  // namespace rouse::gguf
