// Builds GGUF bytes by hand, for tests: everything is written as told, however wrong.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace rouse::gguf {

class TestBytes {
 public:
  template <typename T>
  TestBytes& Put(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    text_.append(bytes, sizeof(T));
    return *this;
  }
  TestBytes& Raw(std::string_view bytes) {
    text_ += bytes;
    return *this;
  }
  TestBytes& Text(std::string_view text) { return Put(uint64_t{text.size()}).Raw(text); }
  TestBytes& Head(uint64_t tensor_count, uint64_t entry_count, uint32_t version = 3) {
    return Raw("GGUF").Put(version).Put(tensor_count).Put(entry_count);
  }
  TestBytes& Key(std::string_view key, uint32_t type) { return Text(key).Put(type); }
  TestBytes& TensorRow(std::string_view name, const std::vector<int64_t>& dims, uint32_t type,
                       uint64_t offset) {
    Text(name).Put(static_cast<uint32_t>(dims.size()));
    for (const int64_t dim : dims) Put(dim);
    return Put(type).Put(offset);
  }
  TestBytes& PadTo(size_t alignment) {
    while (text_.size() % alignment != 0) text_ += '\0';
    return *this;
  }
  TestBytes& Zeros(size_t count) {
    text_.append(count, '\0');
    return *this;
  }

  const std::string& str() const { return text_; }
  int64_t size() const { return static_cast<int64_t>(text_.size()); }

 private:
  std::string text_;
};

// A sound small model: one string, one array, two tensors of 64 bytes.
inline TestBytes SoundFile() {
  TestBytes bytes;
  bytes.Head(2, 2).Key("general.architecture", 8).Text("llama");
  bytes.Key("tokenizer.ggml.tokens", 9).Put(uint32_t{8}).Put(uint64_t{3}).Text("a").Text("b");
  bytes.Text("");
  bytes.TensorRow("token_embd.weight", {16}, 0, 0).TensorRow("output.weight", {4, 4}, 0, 64);
  bytes.PadTo(32).Zeros(128);
  return bytes;
}

// A folder of its own that disappears at the end.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rouse_test_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  // Writes a file there and returns its path.
  std::string Write(std::string_view name, std::string_view content) const {
    const std::string path = path_ + "/" + std::string(name);
    std::ofstream(path, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return path;
  }

 private:
  std::string path_;
};

}  // namespace rouse::gguf
