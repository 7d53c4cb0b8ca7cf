#include "engine/shared_tokenizers.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/fd.h"

namespace rouse::engine {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
// The library (llama-vocab.cpp) gives tokens other attributes where general.name contains one of
// these, in any case.
constexpr std::array<std::string_view, 3> kNamesThatMatter = {"phi-3", "phi3", "modern-bert"};

class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    CHECK(context_ != nullptr);
    CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void Bytes(const void* data, size_t size) {
    CHECK(EVP_DigestUpdate(context_.get(), data, size) == 1);
  }
  template <typename Number>
  void Value(Number number) {
    Bytes(&number, sizeof number);
  }
  void Text(std::string_view text) {
    Value(text.size());
    Bytes(text.data(), text.size());
  }
  std::string Finish() {
    std::string digest(EVP_MAX_MD_SIZE, '\0');
    unsigned length = 0;
    CHECK(EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()),
                             &length) == 1);
    digest.resize(length);
    return digest;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

Status AddPayload(int fd, const gguf::Header& header, const gguf::Entry& entry, Digest& digest) {
  std::vector<char> piece(std::min(kPieceBytes, static_cast<size_t>(entry.bytes)));
  for (int64_t done = 0; done < entry.bytes;) {
    const size_t wanted = std::min(piece.size(), static_cast<size_t>(entry.bytes - done));
    const ssize_t count = pread(fd, piece.data(), wanted, entry.offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::FromErrno(errno, "cannot read " + header.path);
    if (count == 0) return Error(ErrorCode::kCorrupt, header.path + " ends early");
    digest.Bytes(piece.data(), static_cast<size_t>(count));
    done += count;
  }
  return {};
}

// Numbers and bools; strings and arrays are payload.
void AddScalar(const gguf::Entry& entry, Digest& digest) {
  std::visit(
      [&](const auto& value) {
        using Held = std::decay_t<decltype(value)>;
        if constexpr (std::is_arithmetic_v<Held>) digest.Value(value);
      },
      entry.value);
}

}  // namespace

Result<std::string> VocabularyDigest(const gguf::Header& header) {
  ASSIGN_OR_RETURN(const Fd fd, OpenFile(header.path, O_RDONLY));
  Digest digest;
  digest.Text(header.Architecture());
  std::string name = header.FindString("general.name").value_or("");
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const std::string_view part : kNamesThatMatter) {
    digest.Value(name.find(part) != std::string::npos);
  }
  for (const gguf::Entry& entry : header.metadata) {
    if (!entry.key.starts_with("tokenizer.")) continue;
    if (entry.key.starts_with("tokenizer.chat_template")) continue;
    digest.Text(entry.key);
    digest.Value(entry.type);
    digest.Value(entry.element_type);
    digest.Value(entry.count);
    AddScalar(entry, digest);
    const bool payload =
        entry.type == gguf::ValueType::kString || entry.type == gguf::ValueType::kArray;
    digest.Value(payload ? entry.bytes : 0);
    if (payload) RETURN_IF_ERROR(AddPayload(fd.get(), header, entry, digest));
  }
  return digest.Finish();
}

SharedTokenizers& SharedTokenizers::Instance() {
  static SharedTokenizers instance;
  return instance;
}

bool SharedTokenizers::Any() {
  const std::scoped_lock lock(mutex_);
  std::erase_if(known_, [](const Known& one) { return one.tokenizer.expired(); });
  return !known_.empty();
}

std::shared_ptr<const Tokenizer> SharedTokenizers::Find(const gguf::Header& header) {
  const Result<std::string> wanted = VocabularyDigest(header);
  if (!wanted.ok()) return nullptr;
  const std::scoped_lock lock(mutex_);
  for (Known& one : known_) {
    std::shared_ptr<const Tokenizer> tokenizer = one.tokenizer.lock();
    if (tokenizer == nullptr) continue;
    if (one.digest.empty()) {
      const Result<std::string> digest = VocabularyDigest(one.header);
      // Looked at after reading: what was read is what the tokenizer was made of.
      if (!digest.ok() || IdentifyFile(one.header.path) != one.identity) continue;
      one.digest = *digest;
    }
    if (one.digest == *wanted) return tokenizer;
  }
  return nullptr;
}

void SharedTokenizers::Add(const gguf::Header& header, const FileIdentity& identity,
                           const std::shared_ptr<const Tokenizer>& tokenizer) {
  Known known = {.header = header, .identity = identity, .digest = {}, .tokenizer = tokenizer};
  known.header.tensors.clear();
  const std::scoped_lock lock(mutex_);
  known_.push_back(std::move(known));
}

}  // namespace rouse::engine
