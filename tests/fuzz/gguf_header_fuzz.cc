// libFuzzer entry of the GGUF header parser: any bytes, in a file of just that size and in one that
// claims a tebibyte. What parses must keep the promises of gguf/header.h.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "gguf/header.h"
#include "gguf/split.h"

namespace rouse::gguf {
namespace {

void CheckPromises(const Header& header) {
  int64_t end_before = header.data_offset;
  for (const Tensor& tensor : header.tensors) {
    CHECK(tensor.type != nullptr);
    CHECK(tensor.dims.size() <= 4);
    CHECK(tensor.bytes >= 0);
    CHECK(tensor.bytes == 0 || tensor.offset >= end_before);
    CHECK(tensor.bytes <= header.file_bytes - tensor.offset);
    if (tensor.bytes > 0) end_before = tensor.offset + tensor.bytes;
  }
  for (const Entry& entry : header.metadata) {
    CHECK(!entry.key.empty());
    CHECK(entry.offset >= 0 && entry.bytes >= 0);
    CHECK(entry.bytes <= header.file_bytes - entry.offset);
    CHECK(header.Find(entry.key) == &entry);
  }
  size_t grouped = 0;
  for (const Group& group : GraphOrder(header)) {
    grouped += group.tensors.size();
    int64_t range_bytes = 0;
    for (const FileRange& range : group.ranges) range_bytes += range.bytes;
    CHECK(range_bytes >= group.bytes);
  }
  CHECK(grouped == header.tensors.size());
}

void ParseOnce(std::string_view bytes, int64_t file_bytes) {
  const Result<Header> header = ParseHeader(bytes, file_bytes, "fuzz.gguf");
  if (!header.ok()) {
    CHECK(header.error().message().find("fuzz.gguf") != std::string::npos);
    CHECK(header.error().message().size() < 1000);
    return;
  }
  CheckPromises(*header);
  const Result<std::vector<std::string>> parts = PartPaths(*header);
  CHECK(!parts.ok() || !parts->empty());
}

}  // namespace
}  // namespace rouse::gguf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  rouse::gguf::ParseOnce(bytes, static_cast<int64_t>(size));
  rouse::gguf::ParseOnce(bytes, int64_t{1} << 40);
  return 0;
}
