#include "gguf/synthetic_vocabulary.h"

#include <array>
#include <unordered_set>

#include "base/check.h"
#include "gguf/random.h"

namespace rouse::gguf {
namespace {

constexpr int32_t kNormal = 1;
constexpr int32_t kControl = 3;
constexpr size_t kSpecialTokens = 256;  // most of them reserved, as in Llama 3
// A token may have as many bytes as a draw between these says: 7.0 on average then, and 1.7 merges
// a token (Llama 3: 6.9 and 2.2), which is what the time to parse a vocabulary depends on.
constexpr size_t kFewestBytesDrawn = 5;
constexpr size_t kMostBytesDrawn = 9;
constexpr std::string_view kSpace = "\u0120";  // how byte-level BPE writes a space

// Letters about as often as in English text.
constexpr std::string_view kLetters =
    "eeeeeeeeeeeetttttttttaaaaaaaaooooooooiiiiiiinnnnnnnsssssshhhhhhrrrrrrddddllllcccuuummmwwffggyy"
    "pp"
    "bbvkjxqz";

std::string Utf8(uint32_t code_point) {
  CHECK(code_point < 0x800);
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xc0U | (code_point >> 6U)),
          static_cast<char>(0x80U | (code_point & 0x3fU))};
}

// The byte-level alphabet of GPT-2: printable Latin-1 bytes stand for themselves, the others for
// U+0100 and up. In the order of the original vocabulary.
std::vector<std::string> ByteTokens() {
  const auto printable = [](uint32_t byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
           (byte >= 0xae && byte <= 0xff);
  };
  std::vector<std::string> tokens;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (printable(byte)) tokens.push_back(Utf8(byte));
  }
  const auto others = static_cast<uint32_t>(256 - tokens.size());
  for (uint32_t i = 0; i < others; ++i) tokens.push_back(Utf8(0x100 + i));
  return tokens;
}

// Makes merged tokens by joining two earlier ones, the short early ones more often than the late:
// lengths then spread as in a real vocabulary.
class Merger {
 public:
  Merger(std::vector<std::string>& tokens, std::vector<std::string>& merges, uint64_t seed)
      : tokens_(tokens), merges_(merges), random_(seed), known_(tokens.begin(), tokens.end()) {
    for (const char letter : kLetters) inner_.emplace_back(1, letter);
    // Words begin with a space.
    starts_.assign(inner_.size() / 2, std::string(kSpace));
  }

  void Grow(size_t size) {
    while (tokens_.size() < size) {
      const bool word_start = random_.Below(2) == 0;
      const std::string& left = Pick(word_start ? starts_ : inner_);
      const std::string& right = Pick(inner_);
      const size_t most =
          kFewestBytesDrawn + random_.Below(kMostBytesDrawn - kFewestBytesDrawn + 1);
      if (left.size() + right.size() > most) continue;
      std::string token = left + right;
      if (!known_.insert(token).second) continue;
      AddMerges(token);
      tokens_.push_back(token);
      (word_start ? starts_ : inner_).push_back(std::move(token));
    }
  }

 private:
  const std::string& Pick(const std::vector<std::string>& pool) {
    const double fraction = random_.Fraction();
    return pool[static_cast<size_t>(fraction * fraction * static_cast<double>(pool.size()))];
  }

  // Every way to make the token out of two known ones, as in the merge lists of Llama 3.
  void AddMerges(const std::string& token) {
    size_t at = token.starts_with(kSpace) ? kSpace.size() : 1;
    for (; at < token.size(); ++at) {
      const std::string left = token.substr(0, at);
      const std::string right = token.substr(at);
      if (known_.contains(left) && known_.contains(right)) merges_.push_back(left + " " + right);
    }
  }

  std::vector<std::string>& tokens_;
  std::vector<std::string>& merges_;
  RandomStream random_;
  std::unordered_set<std::string> known_;
  std::vector<std::string> starts_;  // with a space in front
  std::vector<std::string> inner_;
};

// ChatML, in the words of the engine's template language.
constexpr std::string_view kChatTemplate =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

}  // namespace

SyntheticVocabulary MakeVocabulary(int64_t size, uint64_t seed) {
  CHECK(size >= 1024);
  SyntheticVocabulary vocabulary;
  vocabulary.tokens = ByteTokens();
  const size_t normal = static_cast<size_t>(size) - kSpecialTokens;
  Merger(vocabulary.tokens, vocabulary.merges, seed).Grow(normal);
  vocabulary.types.assign(normal, kNormal);

  constexpr auto kNamed = std::to_array<std::string_view>(
      {"<|begin_of_text|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  vocabulary.begin_id = static_cast<uint32_t>(normal);
  vocabulary.end_of_text_id = static_cast<uint32_t>(normal + 1);
  vocabulary.end_of_turn_id = static_cast<uint32_t>(normal + 3);
  for (size_t i = 0; i < kSpecialTokens; ++i) {
    vocabulary.tokens.push_back(i < kNamed.size() ? std::string(kNamed[i])
                                                  : "<|reserved_" + std::to_string(i) + "|>");
    vocabulary.types.push_back(kControl);
  }
  return vocabulary;
}

void AddVocabularyMetadata(const SyntheticVocabulary& vocabulary, std::string_view pre_tokenizer,
                           Writer& writer) {
  writer.AddString("tokenizer.ggml.model", "gpt2");
  writer.AddString("tokenizer.ggml.pre", pre_tokenizer);
  writer.AddStrings("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.AddInts("tokenizer.ggml.token_type", vocabulary.types);
  writer.AddStrings("tokenizer.ggml.merges", vocabulary.merges);
  writer.AddUint32("tokenizer.ggml.bos_token_id", vocabulary.begin_id);
  writer.AddUint32("tokenizer.ggml.eos_token_id", vocabulary.end_of_turn_id);
  writer.AddUint32("tokenizer.ggml.padding_token_id", vocabulary.end_of_text_id);
  writer.AddBool("tokenizer.ggml.add_bos_token", false);
  writer.AddString("tokenizer.chat_template", kChatTemplate);
}

}  // namespace rouse::gguf
