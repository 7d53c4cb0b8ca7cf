// Writes a GGUF version 3 file as a stream: metadata, tensor table, then each tensor's bytes in the
// order in which the tensors were added. The file appears under its name only when it is whole and
// on disk (temporary name beside it, fsync, rename); a writer that is destroyed earlier removes
// what it wrote. It knows nothing about models.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/header.h"

namespace rouse::gguf {

class Writer {
 public:
  // Nothing is created before BeginData. Calls in a wrong order are a programmer's error (CHECK).
  explicit Writer(std::string path);
  ~Writer();
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;

  // Metadata; each key once.
  void AddUint32(std::string_view key, uint32_t value);
  void AddUint16(std::string_view key, uint16_t value);
  void AddInt32(std::string_view key, int32_t value);
  void AddFloat32(std::string_view key, float value);
  void AddBool(std::string_view key, bool value);
  void AddString(std::string_view key, std::string_view value);
  void AddStrings(std::string_view key, std::span<const std::string> values);
  void AddFloats(std::string_view key, std::span<const float> values);
  void AddInts(std::string_view key, std::span<const int32_t> values);

  // `dims[0]` varies fastest and is a multiple of the type's block.
  void AddTensor(std::string_view name, std::vector<int64_t> dims, uint32_t type);

  // Size of the finished file.
  int64_t TotalBytes() const;
  // Bytes of tensor data, padding included.
  int64_t DataBytes() const;

  // Creates the temporary file, reserves its space (so that a full disk shows at once: the error
  // names file, bytes wanted and bytes free) and writes the header.
  Status BeginData();
  // The next bytes of tensor data. Calls need not match tensors, but each tensor's padding (zeros
  // up to the alignment) is part of the stream.
  Status WriteData(std::span<const std::byte> bytes);
  // fsync and rename; kInternal unless exactly DataBytes() were written.
  Status Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rouse::gguf
