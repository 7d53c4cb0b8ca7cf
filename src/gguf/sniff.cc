#include "gguf/sniff.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "base/strings.h"

namespace rouse::gguf {
namespace {

struct Signature {
  std::string_view bytes;
  std::string_view description;
};

using std::string_view_literals::operator""sv;

constexpr auto kSignatures = std::to_array<Signature>({
    // Magic numbers of the formats before GGUF, little-endian in the file.
    {"lmgg"sv, "an old GGML file from before GGUF; convert it, or get a GGUF of that model"},
    {"fmgg"sv, "an old GGML file (ggmf) from before GGUF; convert it, or get a GGUF of that model"},
    {"tjgg"sv, "an old GGML file (ggjt) from before GGUF; convert it, or get a GGUF of that model"},
    {"algg"sv, "an old LoRA adapter (ggla) from before GGUF"},
    {"PK\x03\x04"sv, "a zip archive (a PyTorch checkpoint is one too)"},
    {"\x1f\x8b"sv, "a gzip archive; unpack it first"},
    {"\xfd"
     "7zXZ"sv,
     "an xz archive; unpack it first"},
    {"\x28\xb5\x2f\xfd"sv, "a zstd archive; unpack it first"},
    {"7z\xbc\xaf"sv, "a 7z archive; unpack it first"},
    {"BZh"sv, "a bzip2 archive; unpack it first"},
    {"\x80\x02"sv, "a Python pickle (a PyTorch checkpoint)"},
    {"\x89HDF"sv, "an HDF5 file"},
    {"\x7f"
     "ELF"sv,
     "a program, not a model"},
    {"SQLite format 3"sv, "an SQLite database"},
    {"version https://git-lfs"sv, "a Git LFS pointer; the model itself was not downloaded"},
});

bool LooksLikeSafetensors(std::string_view bytes) {
  // An 8-byte little-endian length of the JSON that follows.
  if (bytes.size() < 10 || bytes[8] != '{') return false;
  uint64_t json_bytes = 0;
  std::memcpy(&json_bytes, bytes.data(), sizeof json_bytes);
  return json_bytes >= 2 && json_bytes <= (uint64_t{100} << 20U);
}

bool IsPrintableText(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char letter) {
    const auto code = static_cast<unsigned char>(letter);
    return (code >= 0x20 && code != 0x7f) || letter == '\n' || letter == '\r' || letter == '\t';
  });
}

}  // namespace

std::string DescribeForeignFile(std::string_view first_bytes) {
  for (const Signature& signature : kSignatures) {
    if (first_bytes.starts_with(signature.bytes)) return std::string(signature.description);
  }
  if (LooksLikeSafetensors(first_bytes)) return "a safetensors file; convert it to GGUF first";
  if (first_bytes.size() >= 262 && first_bytes.substr(257, 5) == "ustar") {
    return "a tar archive; unpack it first";
  }
  const std::string start = LowerAscii(TrimBlanks(first_bytes.substr(0, 64)));
  if (start.starts_with("<!doctype html") || start.starts_with("<html")) {
    return "an HTML page (a download that went wrong?)";
  }
  if (start.starts_with("<?xml")) return "an XML document (a download that went wrong?)";
  if (std::ranges::all_of(first_bytes, [](char letter) { return letter == '\0'; })) {
    return "a file of zeros (a download that was interrupted?)";
  }
  if (start.starts_with("{") || start.starts_with("[")) return "JSON text";
  if (IsPrintableText(first_bytes)) return "plain text";
  std::string hex = "a file of an unknown kind (first bytes";
  for (const char letter : first_bytes.substr(0, 4)) {
    std::array<char, 4> digits{};
    std::snprintf(digits.data(), digits.size(), " %02x",
                  static_cast<unsigned>(static_cast<unsigned char>(letter)));
    hex += digits.data();
  }
  return hex + ")";
}

}  // namespace rouse::gguf
