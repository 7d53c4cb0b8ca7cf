// What the engine's edits put in place of std containers must give the same answers.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rouse-strings.h"
#include "rouse-token-table.h"

namespace rouse::engine {
namespace {

std::vector<std::string> RandomTexts(size_t count, size_t longest) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::vector<std::string> texts(count);
  for (std::string& text : texts) {
    for (size_t left = random() % (longest + 1); left > 0; --left) {
      text += static_cast<char>(random() % 256);
    }
  }
  return texts;
}

TEST(TokenTable, GivesTheOrderAndTheAnswersOfAnUnorderedMap) {
  for (const size_t count : {0, 1, 2, 12, 13, 14, 100, 541, 5000, 49'152, 128'256}) {
    // Short ones are often equal.
    const std::vector<std::string> texts = RandomTexts(count, count < 6000 ? 2 : 9);
    std::unordered_map<std::string, int32_t> map;
    rouse_token_table table;
    if (count % 2 == 0) table.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      map[texts[i]] = static_cast<int32_t>(i);
      table.set(texts[i], static_cast<int32_t>(i));
    }
    table.settle();
    ASSERT_EQ(table.size(), map.size());
    auto expected = map.begin();
    table.each([&](std::string_view text, int32_t token) {
      ASSERT_NE(expected, map.end());
      EXPECT_EQ(text, expected->first);
      EXPECT_EQ(token, expected->second);
      ++expected;
    });
    EXPECT_EQ(expected, map.end());
    for (const std::string& text : texts) {
      EXPECT_EQ(table.at(text), map.at(text));
      EXPECT_EQ(table.count(text), 1U);
    }
    EXPECT_EQ(table.find("not there at all"), table.end());
    EXPECT_THROW(table.at("not there at all"), std::out_of_range);
  }
}

// As a file has them: a length of 8 bytes before each.
std::string InAFile(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) {
    const uint64_t length = text.size();
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
    bytes += text;
  }
  return bytes;
}

int64_t Fill(rouse_strings& strings, uint64_t count, const std::string& file, uint64_t longest) {
  size_t done = 0;
  return strings.fill(count, file.size(), longest, [&](void* where, size_t bytes) {
    if (bytes > file.size() - done) return false;
    std::memcpy(where, file.data() + done, bytes);
    done += bytes;
    return true;
  });
}

TEST(Strings, AreThoseOfTheFile) {
  for (const size_t longest : {0, 3, 40, 5000}) {
    const std::vector<std::string> texts = RandomTexts(3000, longest);
    const std::string file = InAFile(texts);
    rouse_strings strings;
    ASSERT_EQ(Fill(strings, texts.size(), file + "more", 1 << 20),
              static_cast<int64_t>(file.size()));
    ASSERT_EQ(strings.size(), texts.size());
    for (size_t i = 0; i < texts.size(); ++i) EXPECT_STREQ(strings.at(i), texts[i].c_str());
  }
}

TEST(Strings, OfACutOrImpossibleFileAreRefused) {
  const std::vector<std::string> texts = RandomTexts(100, 20);
  const std::string file = InAFile(texts);
  for (size_t bytes = 0; bytes < file.size(); bytes += 7) {
    rouse_strings strings;
    EXPECT_EQ(Fill(strings, texts.size(), file.substr(0, bytes), 1 << 20), -1) << bytes;
  }
  rouse_strings longer;
  EXPECT_EQ(Fill(longer, texts.size(), file, 5), -1);
  std::string huge = file;
  huge.replace(0, 8, std::string(8, '\xff'));
  rouse_strings impossible;
  EXPECT_EQ(Fill(impossible, texts.size(), huge, UINT64_MAX), -1);
}

}  // namespace
}  // namespace rouse::engine
