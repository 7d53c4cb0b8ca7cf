#include "gguf/parser.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "base/strings.h"
#include "gguf/sniff.h"
#include "gguf/tensor_table.h"

namespace rouse::gguf {
namespace {

static_assert(std::endian::native == std::endian::little,
              "Cursor reads scalars as they lie in a little-endian file");

// Limits that no real model comes near (a few dozen entries, some thousands of tensors), so that a
// damaged file can't make us allocate by its size.
constexpr int64_t kMaxEntries = 100'000;
constexpr int64_t kMaxTensors = 1'000'000;
constexpr int64_t kMaxKeyBytes = 65'535;                     // the specification's limit
constexpr int64_t kMaxTensorNameBytes = 63;                  // the engine's limit
constexpr int64_t kMaxCopiedStringBytes = int64_t{1} << 20;  // longer ones stay in the file
constexpr int64_t kMaxDims = 4;
constexpr uint64_t kMaxTensorOffset = uint64_t{1} << 61U;  // sums with sizes do not overflow

// Fewest bytes of a metadata entry (key length, type, one byte) and of a tensor's row.
constexpr int64_t kMinEntryBytes = 8 + 4 + 1;
constexpr int64_t kMinTensorBytes = 8 + 4 + 4 + 8;

// Bytes of a scalar; 0 for strings, arrays and numbers that are no type.
int64_t ScalarBytes(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kInt8:
    case ValueType::kBool:
      return 1;
    case ValueType::kUint16:
    case ValueType::kInt16:
      return 2;
    case ValueType::kUint32:
    case ValueType::kInt32:
    case ValueType::kFloat32:
      return 4;
    case ValueType::kUint64:
    case ValueType::kInt64:
    case ValueType::kFloat64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      break;
  }
  return 0;
}

// A name from the file, safe to print: at most 80 bytes, anything odd as '?'.
std::string Printable(std::string_view name) {
  std::string text(name.substr(0, 80));
  if (IsValidUtf8(text)) {
    std::ranges::replace_if(
        text, [](char letter) { return static_cast<unsigned char>(letter) < 0x20; }, '?');
  } else {
    std::ranges::replace_if(text, [](char letter) { return letter < 0x20 || letter == 0x7f; }, '?');
  }
  if (name.size() > 80) text += "...";
  return text;
}

class Parser {
 public:
  Parser(ByteSource& source, int64_t file_bytes, const std::string& name)
      : source_(source), cursor_(source, file_bytes) {
    header_.path = name;
    header_.file_bytes = file_bytes;
  }

  Result<Header> Run() {
    RETURN_IF_ERROR(ReadMagicAndVersion());
    const auto tensor_count = cursor_.Read<uint64_t>();
    const auto entry_count = cursor_.Read<uint64_t>();
    RETURN_IF_ERROR(Sound("its counts"));
    RETURN_IF_ERROR(CheckCount("metadata entries", entry_count, kMinEntryBytes, kMaxEntries));
    RETURN_IF_ERROR(CheckCount("tensors", tensor_count, kMinTensorBytes, kMaxTensors));
    for (uint64_t i = 0; i < entry_count; ++i) {
      RETURN_IF_ERROR(ReadEntry(i, entry_count));
    }
    RETURN_IF_ERROR(CheckKeysAreUnique());
    RETURN_IF_ERROR(ReadAlignment());
    for (uint64_t i = 0; i < tensor_count; ++i) {
      RETURN_IF_ERROR(ReadTensor(i, tensor_count));
    }
    header_.data_offset = cursor_.offset();
    if (tensor_count > 0) header_.data_offset = AlignUp(cursor_.offset(), header_.alignment);
    RETURN_IF_ERROR(PlaceTensors(header_));
    return std::move(header_);
  }

 private:
  Error Corrupt(const std::string& sentence) const {
    return {ErrorCode::kCorrupt, header_.path + " " + sentence};
  }
  Error Unsupported(const std::string& sentence) const {
    return {ErrorCode::kUnsupported, header_.path + " " + sentence};
  }

  Error Cut(const std::string& where) const {
    return Corrupt("is cut off or damaged in its header, in " + where + " near byte " +
                   std::to_string(cursor_.offset()) + "; the file has " +
                   std::to_string(header_.file_bytes) + " bytes");
  }

  // An error if the cursor ran out of bytes while reading `where`.
  Status Sound(const std::string& where) const {
    if (cursor_.ok()) return {};
    if (cursor_.source_error().has_value()) return *cursor_.source_error();
    return Cut(where);
  }

  Status ReadMagicAndVersion() {
    ASSIGN_OR_RETURN(const std::string_view start, source_.ReadAt(0));
    const std::string_view magic = std::string_view("GGUF").substr(0, start.size());
    if (!start.starts_with(magic)) {
      return Corrupt("is not a GGUF model; it looks like " +
                     DescribeForeignFile(start.substr(0, 512)));
    }
    cursor_.Skip(4);
    header_.version = cursor_.Read<uint32_t>();
    RETURN_IF_ERROR(Sound("its first bytes"));
    if (header_.version == 2 || header_.version == 3) return {};
    if (header_.version != 0 && (header_.version & 0xffffU) == 0) {
      return Unsupported("is a big-endian GGUF file; rouse reads little-endian ones");
    }
    return Unsupported("is GGUF version " + std::to_string(header_.version) +
                       "; rouse reads versions 2 and 3");
  }

  Status CheckCount(const std::string& what, uint64_t count, int64_t min_bytes_each, int64_t max) {
    const auto possible = static_cast<uint64_t>(cursor_.remaining() / min_bytes_each);
    if (count > possible) {
      return Corrupt("is cut off or damaged: it claims " + std::to_string(count) + " " + what +
                     ", more than its " + std::to_string(header_.file_bytes) + " bytes can hold");
    }
    if (count > static_cast<uint64_t>(max)) {
      return Unsupported("claims " + std::to_string(count) + " " + what + "; rouse reads at most " +
                         std::to_string(max));
    }
    return {};
  }

  // A string's length, held against what is left of the file.
  Result<int64_t> ReadLength(const std::string& where) {
    const auto length = cursor_.Read<uint64_t>();
    RETURN_IF_ERROR(Sound(where));
    if (length > static_cast<uint64_t>(cursor_.remaining())) {
      return Corrupt("is cut off or damaged in its header: " + where + " claims " +
                     std::to_string(length) + " bytes, but only " +
                     std::to_string(cursor_.remaining()) + " are left in the file");
    }
    return static_cast<int64_t>(length);
  }

  Status ReadEntry(uint64_t index, uint64_t count) {
    const std::string where =
        "metadata entry " + std::to_string(index + 1) + " of " + std::to_string(count);
    ASSIGN_OR_RETURN(const int64_t key_bytes, ReadLength(where));
    if (key_bytes == 0 || key_bytes > kMaxKeyBytes) {
      return Corrupt("is damaged in its header: the key of " + where + " has " +
                     std::to_string(key_bytes) + " bytes");
    }
    Entry entry;
    entry.key = cursor_.ReadText(key_bytes);
    entry.type = static_cast<ValueType>(cursor_.Read<uint32_t>());
    RETURN_IF_ERROR(Sound(where));
    const std::string key = "metadata \"" + Printable(entry.key) + "\"";
    if (entry.type == ValueType::kArray) {
      RETURN_IF_ERROR(ReadArray(entry, key));
    } else if (entry.type == ValueType::kString) {
      ASSIGN_OR_RETURN(entry.bytes, ReadLength(key));
      entry.offset = cursor_.offset();
      if (entry.bytes <= kMaxCopiedStringBytes) {
        entry.value = cursor_.ReadText(entry.bytes);
      } else {
        cursor_.Skip(entry.bytes);
      }
    } else {
      entry.bytes = ScalarBytes(entry.type);
      if (entry.bytes == 0) return UnknownType(key, static_cast<uint32_t>(entry.type));
      entry.offset = cursor_.offset();
      ReadScalar(entry);
    }
    RETURN_IF_ERROR(Sound(key));
    header_.metadata.push_back(std::move(entry));
    return {};
  }

  Error UnknownType(const std::string& key, uint32_t type) const {
    return Corrupt("is damaged in its header: " + key + " has the value type " +
                   std::to_string(type) + ", which GGUF does not have there");
  }

  void ReadScalar(Entry& entry) {
    switch (entry.type) {
      case ValueType::kUint8:
        entry.value = uint64_t{cursor_.Read<uint8_t>()};
        break;
      case ValueType::kUint16:
        entry.value = uint64_t{cursor_.Read<uint16_t>()};
        break;
      case ValueType::kUint32:
        entry.value = uint64_t{cursor_.Read<uint32_t>()};
        break;
      case ValueType::kUint64:
        entry.value = cursor_.Read<uint64_t>();
        break;
      case ValueType::kInt8:
        entry.value = int64_t{cursor_.Read<int8_t>()};
        break;
      case ValueType::kInt16:
        entry.value = int64_t{cursor_.Read<int16_t>()};
        break;
      case ValueType::kInt32:
        entry.value = int64_t{cursor_.Read<int32_t>()};
        break;
      case ValueType::kInt64:
        entry.value = cursor_.Read<int64_t>();
        break;
      case ValueType::kFloat32:
        entry.value = double{cursor_.Read<float>()};
        break;
      case ValueType::kFloat64:
        entry.value = cursor_.Read<double>();
        break;
      case ValueType::kBool:
        entry.value = cursor_.Read<uint8_t>() != 0;
        break;
      case ValueType::kString:
      case ValueType::kArray:
        break;
    }
  }

  Status ReadArray(Entry& entry, const std::string& key) {
    entry.element_type = static_cast<ValueType>(cursor_.Read<uint32_t>());
    const auto count = cursor_.Read<uint64_t>();
    RETURN_IF_ERROR(Sound(key));
    const bool strings = entry.element_type == ValueType::kString;
    const int64_t element_bytes = strings ? 8 : ScalarBytes(entry.element_type);
    if (element_bytes == 0) return UnknownType(key, static_cast<uint32_t>(entry.element_type));
    if (count > static_cast<uint64_t>(cursor_.remaining() / element_bytes)) {
      return Corrupt("is cut off or damaged in its header: " + key + " claims " +
                     std::to_string(count) + " elements, more than the " +
                     std::to_string(cursor_.remaining()) + " bytes left in the file can hold");
    }
    entry.count = static_cast<int64_t>(count);
    entry.offset = cursor_.offset();
    if (!strings) {
      cursor_.Skip(entry.count * element_bytes);
    } else {
      for (int64_t i = 0; i < entry.count && cursor_.ok(); ++i) {
        const auto length = cursor_.Read<uint64_t>();
        constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
        cursor_.Skip(static_cast<int64_t>(std::min(length, kMax)));
      }
    }
    entry.bytes = cursor_.offset() - entry.offset;
    return Sound(key);
  }

  Status CheckKeysAreUnique() const {
    std::vector<std::string_view> keys;
    keys.reserve(header_.metadata.size());
    for (const Entry& entry : header_.metadata) keys.push_back(entry.key);
    std::ranges::sort(keys);
    const auto twice = std::ranges::adjacent_find(keys);
    if (twice == keys.end()) return {};
    return Corrupt("is damaged in its header: the metadata key \"" + Printable(*twice) +
                   "\" stands there twice");
  }

  Status ReadAlignment() {
    const Entry* const entry = header_.Find("general.alignment");
    if (entry == nullptr) return {};
    const uint64_t* const alignment = std::get_if<uint64_t>(&entry->value);
    if (entry->type != ValueType::kUint32 || alignment == nullptr ||
        !std::has_single_bit(*alignment)) {
      return Corrupt(
          "is damaged in its header: \"general.alignment\" is not a 32-bit power of two");
    }
    header_.alignment = static_cast<int64_t>(*alignment);
    return {};
  }

  Status ReadTensor(uint64_t index, uint64_t count) {
    const std::string where =
        "tensor " + std::to_string(index + 1) + " of " + std::to_string(count);
    ASSIGN_OR_RETURN(const int64_t name_bytes, ReadLength(where));
    if (name_bytes == 0 || name_bytes > kMaxTensorNameBytes) {
      return Corrupt("is damaged in its header: the name of " + where + " has " +
                     std::to_string(name_bytes) + " bytes (1 to 63 are possible)");
    }
    Tensor tensor;
    tensor.name = cursor_.ReadText(name_bytes);
    const auto dim_count = cursor_.Read<uint32_t>();
    RETURN_IF_ERROR(Sound(where));
    const std::string shown = "tensor \"" + Printable(tensor.name) + "\"";
    if (dim_count > kMaxDims) {
      return Corrupt("is damaged in its header: " + shown + " has " + std::to_string(dim_count) +
                     " dimensions (4 are possible)");
    }
    for (uint32_t i = 0; i < dim_count; ++i) tensor.dims.push_back(cursor_.Read<int64_t>());
    const auto type_id = cursor_.Read<uint32_t>();
    const auto offset = cursor_.Read<uint64_t>();
    RETURN_IF_ERROR(Sound(shown));
    tensor.type = FindTensorType(type_id);
    if (tensor.type == nullptr) {
      return Unsupported("has " + shown + " of the unknown type " + std::to_string(type_id) +
                         " (newer than this rouse, removed from GGUF, or damage)");
    }
    const std::optional<int64_t> bytes = TensorBytes(tensor.dims, *tensor.type);
    if (!bytes.has_value()) {
      return Corrupt("is damaged in its header: " + shown + " has the impossible shape " +
                     ShapeText(tensor.dims) + " of type " + std::string(tensor.type->name));
    }
    tensor.bytes = *bytes;
    // Relative to the tensor data for now; PlaceTensors holds it against the file and moves it.
    // That a file was cut is better said there, with both sizes.
    if (offset > kMaxTensorOffset) {
      return Corrupt("is damaged in its header: " + shown + " begins at byte " +
                     std::to_string(offset) + " of the tensor data");
    }
    tensor.offset = static_cast<int64_t>(offset);
    header_.tensors.push_back(std::move(tensor));
    return {};
  }

  ByteSource& source_;
  Cursor cursor_;
  Header header_;
};

}  // namespace

Result<Header> Parse(ByteSource& source, int64_t file_bytes, const std::string& name) {
  return Parser(source, file_bytes, name).Run();
}

}  // namespace rouse::gguf
