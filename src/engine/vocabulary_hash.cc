// Reads everything of a vocabulary through the library and hashes it. Compiled into the test only.
#include "engine/vocabulary_hash.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/llama_runtime.h"
#include "llama.h"

// Of the library's inside, which its headers do not show; the linker knows them. Declared as what
// they are, members of the class that llama.h only names.
struct llama_vocab {  // NOLINT(readability-identifier-naming)
  // NOLINTNEXTLINE(readability-identifier-naming)
  std::vector<std::string> get_bpe_merges() const;
  // NOLINTNEXTLINE(readability-identifier-naming)
  int find_bpe_rank(const std::string& left, const std::string& right) const;
};

namespace rouse::engine {
namespace {

// FNV-1a with 64 bits, each value with its length in front.
class Hash {
 public:
  void Add(std::string_view bytes) {
    Mix(bytes.size());
    for (const char byte : bytes) {
      hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
    }
  }
  void Add(int64_t number) { Mix(static_cast<uint64_t>(number)); }
  void Add(float number) {
    std::array<char, sizeof number> bytes{};
    std::copy_n(reinterpret_cast<const char*>(&number), bytes.size(), bytes.data());
    Add(std::string_view(bytes.data(), bytes.size()));
  }

  std::string Text() const {
    std::array<char, 17> text{};
    std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash_));
    return text.data();
  }

 private:
  void Mix(uint64_t number) {
    for (int i = 0; i < 8; ++i) {
      hash_ = (hash_ ^ (number >> (8 * i) & 0xffU)) * 0x100000001b3U;
    }
  }
  uint64_t hash_ = 0xcbf29ce484222325U;
};

void AddTokens(const llama_vocab* vocab, Hash& hash) {
  const int32_t count = llama_vocab_n_tokens(vocab);
  hash.Add(int64_t{llama_vocab_type(vocab)});
  hash.Add(int64_t{count});
  std::string piece(4096, '\0');
  for (llama_token token = 0; token < count; ++token) {
    hash.Add(llama_vocab_get_text(vocab, token));
    hash.Add(llama_vocab_get_score(vocab, token));
    hash.Add(int64_t{llama_vocab_get_attr(vocab, token)});
    hash.Add(int64_t{llama_vocab_is_eog(vocab, token)});
    for (const bool special : {false, true}) {
      const int32_t length = llama_token_to_piece(vocab, token, piece.data(),
                                                  static_cast<int32_t>(piece.size()), 0, special);
      hash.Add(int64_t{length});
      if (length > 0) hash.Add(std::string_view(piece).substr(0, static_cast<size_t>(length)));
    }
  }
}

void AddSpecialIds(const llama_vocab* vocab, Hash& hash) {
  for (const auto id :
       {llama_vocab_bos, llama_vocab_eos, llama_vocab_eot, llama_vocab_sep, llama_vocab_nl,
        llama_vocab_pad, llama_vocab_mask, llama_vocab_fim_pre, llama_vocab_fim_suf,
        llama_vocab_fim_mid, llama_vocab_fim_pad, llama_vocab_fim_rep, llama_vocab_fim_sep}) {
    hash.Add(int64_t{id(vocab)});
  }
  for (const auto flag :
       {llama_vocab_get_add_bos, llama_vocab_get_add_eos, llama_vocab_get_add_sep}) {
    hash.Add(int64_t{flag(vocab)});
  }
  int32_t count = 0;
  const llama_token* suppressed = llama_vocab_get_suppress_tokens(vocab, &count);
  for (int32_t i = 0; suppressed != nullptr && i < count; ++i) hash.Add(int64_t{suppressed[i]});
}

void AddMerges(const llama_vocab* vocab, Hash& hash) {
  const std::vector<std::string> merges = vocab->get_bpe_merges();
  hash.Add(std::ssize(merges));
  for (const std::string& merge : merges) {
    hash.Add(merge);
    const size_t gap = merge.find(' ', 1);
    if (gap == std::string::npos) continue;
    const std::string right = merge.substr(gap + 1);
    if (merge.front() == ' ' || right.find(' ') != std::string::npos) continue;
    hash.Add(int64_t{vocab->find_bpe_rank(merge.substr(0, gap), right)});
    hash.Add(int64_t{vocab->find_bpe_rank(merge.substr(0, gap), right + "?")});
  }
}

void AddText(const llama_vocab* vocab, const std::string& text, Hash& hash) {
  std::vector<llama_token> tokens(text.size() * 4 + 16);
  for (const bool parse_special : {false, true}) {
    const int32_t count = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()),
                                         tokens.data(), static_cast<int32_t>(tokens.size()),
                                         /*add_special=*/true, parse_special);
    hash.Add(int64_t{count});
    for (int32_t i = 0; i < count; ++i) hash.Add(int64_t{tokens[static_cast<size_t>(i)]});
  }
}

constexpr auto kSentences = std::to_array<std::string_view>({
    "The quick brown fox doesn't jump over 12345 lazy dogs; it's 3.14159 o'clock, we'll see.\n",
    "D\u00e9j\u00e0 vu : \u00ab l'\u0153uvre na\u00efve \u00bb co\u00fbte 1 234,56 \u20ac.\n",
    "Gr\u00fc\u00dfe aus K\u00f6ln, \u201eFu\u00dfg\u00e4nger\u201c \u00fcberqueren die "
    "Stra\u00dfe.\n",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043a\u0430\u043a \u0434\u0435\u043b\u0430 \u0441\u0435"
    "\u0433\u043e\u0434\u043d\u044f?\n",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u53bb\u516c\u56ed\u6563\u6b65\u3002\n",
    "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c\u3001\u30ab\u30bf\u30ab\u30ca\u3068\u6f22\u5b57"
    "\u3002"
    "\n",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4, \uc624\ub298\uc740 \uae08\uc694\uc77c\uc785"
    "\ub2c8\ub2e4.\n",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645\u060c \u0661\u0662"
    "\u0663.\n",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd. \u0928\u092e\u0938\u094d\u0924\u0947 "
    "\u0926\u0941\u0928\u093f\u092f\u093e\u0964 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\n",
    "\U0001f98a\U0001f469\u200d\U0001f4bb\U0001f1e9\U0001f1ea caf\u0065\u0301 \ufb01ne\u00a0space "
    "\u2026\u2014\u201cquoted\u201d\n",
    "int main(int argc, char** argv) {\n\tfor (size_t i = 0; i < 10; ++i) {\n\t\tprintf(\"%zu\\n\","
    " i);\n\t}\n}\n\n\n",
    "def f(x):\r\n    return {'a': [1, 2,   3], \"b\": None}  # comment\r\n\r\n   \t \n",
    "<|im_start|>user\nHi<|im_end|>\n<|endoftext|><s>[INST] x [/INST]</s><bos><eos><unk><0x0A>\n",
    "<|begin_of_text|><|eot_id|><|fim_prefix|>a<|fim_suffix|>b<|fim_middle|><mask>[MASK][CLS]\n",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA          zzzzzzzzzzzzzzzz 00000000000000\n",
});

void AppendUtf8(uint32_t c, std::string& text) {
  const auto add = [&text](uint32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xc0U | c >> 6U);
    add(0x80U | (c & 0x3fU));
  } else if (c < 0x10000) {
    add(0xe0U | c >> 12U);
    add(0x80U | (c >> 6U & 0x3fU));
    add(0x80U | (c & 0x3fU));
  } else {
    add(0xf0U | c >> 18U);
    add(0x80U | (c >> 12U & 0x3fU));
    add(0x80U | (c >> 6U & 0x3fU));
    add(0x80U | (c & 0x3fU));
  }
}

}  // namespace

const std::string& HashedText() {
  static const std::string text = [] {
    std::string made;
    uint64_t state = 42;
    const auto random = [&state](uint32_t below) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<uint32_t>((state >> 33U) % below);
    };
    // Block by block: ASCII, Latin, Greek and Cyrillic, Indic, CJK, symbols, emoji.
    struct Block {
      uint32_t first;
      uint32_t size;
    };
    constexpr auto kBlocks = std::to_array<Block>({{0x20, 0x5f},
                                                   {0xa1, 0x15f},
                                                   {0x370, 0x180},
                                                   {0x900, 0x500},
                                                   {0x2000, 0x300},
                                                   {0x3040, 0xc0},
                                                   {0x4e00, 0x5000},
                                                   {0xac00, 0x2b00},
                                                   {0x1f300, 0x400}});
    for (int round = 0; round < 3; ++round) {
      for (const std::string_view sentence : kSentences) made += sentence;
      for (const Block& block : kBlocks) {
        for (int i = 0; i < 60; ++i) {
          AppendUtf8(block.first + random(block.size), made);
          if (random(6) == 0) made += ' ';
        }
        made += '\n';
      }
    }
    return made;
  }();
  return text;
}

Result<std::string> HashVocabulary(const std::string& path) {
  EnsureRuntime();
  const LogCollector log;
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  const std::unique_ptr<llama_model, decltype(&llama_model_free)> model(
      llama_model_load_from_file(path.c_str(), params), &llama_model_free);
  if (model == nullptr) {
    return Error(ErrorCode::kUnsupported, path + ": " + log.Reason("cannot be loaded"));
  }
  const llama_vocab* vocab = llama_model_get_vocab(model.get());
  Hash hash;
  AddTokens(vocab, hash);
  AddSpecialIds(vocab, hash);
  AddMerges(vocab, hash);
  // An encoder's vocabulary may lack an unknown token and then refuses some texts by an assertion.
  try {
    const AbortGuard guard;
    AddText(vocab, HashedText(), hash);
  } catch (const std::exception&) {
    hash.Add(std::string_view("refused"));  // its words name a line of the source
  }
  return hash.Text();
}

}  // namespace rouse::engine
