#include "engine/text_gate.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace rouse::engine {
namespace {

constexpr char kReplaced[] = "\xEF\xBF\xBD";

TEST(TextGate, PassesPlainTextAtOnce) {
  TextGate gate({});
  EXPECT_EQ(gate.Push("Hello").text, "Hello");
  EXPECT_EQ(gate.Push(" there").text, " there");
  EXPECT_EQ(gate.Finish(), "");
}

TEST(TextGate, HoldsACharacterUntilItsLastByte) {
  const std::string parrot = "\xF0\x9F\xA6\x9C";
  TextGate gate({});
  EXPECT_EQ(gate.Push("a" + parrot.substr(0, 1)).text, "a");
  EXPECT_EQ(gate.Push(parrot.substr(1, 2)).text, "");
  EXPECT_EQ(gate.Push(parrot.substr(3) + "b").text, parrot + "b");
}

TEST(TextGate, ReplacesWhatCanNotBeUtf8) {
  TextGate gate({});
  EXPECT_EQ(gate.Push("a\xFFz").text, std::string("a") + kReplaced + "z");
  // A surrogate, an overlong slash, and a code point above U+10FFFF.
  EXPECT_EQ(gate.Push("\xED\xA0\x80").text, std::string(kReplaced) + kReplaced + kReplaced);
  EXPECT_EQ(gate.Push("\xC0\xAF").text, std::string(kReplaced) + kReplaced);
  EXPECT_TRUE(IsValidUtf8(gate.Push("\xF4\x90\x80\x80").text));
  // Begun, then something else.
  EXPECT_EQ(gate.Push("\xE2\x82").text, "");
  EXPECT_EQ(gate.Push("A").text, std::string(kReplaced) + "A");
}

TEST(TextGate, EndsAnUnfinishedCharacterWithOneReplacement) {
  TextGate gate({});
  EXPECT_EQ(gate.Push("x\xF0\x9F\xA6").text, "x");
  EXPECT_EQ(gate.Finish(), kReplaced);
  EXPECT_EQ(gate.Finish(), "");
}

TEST(TextGate, FindsAStopStringThatIsSplitBetweenPieces) {
  TextGate gate({"STOP"});
  EXPECT_EQ(gate.Push("one ST").text, "one ");
  const TextGate::Passed passed = gate.Push("OP two");
  EXPECT_EQ(passed.text, "");
  EXPECT_EQ(passed.stopped_by, "STOP");
  EXPECT_EQ(gate.Push("more").text, "");
  EXPECT_EQ(gate.Finish(), "");
}

TEST(TextGate, LetsGoWhatOnlyBeganLikeAStopString) {
  TextGate gate({"STOP"});
  EXPECT_EQ(gate.Push("ST").text, "");
  EXPECT_EQ(gate.Push("AR").text, "STAR");
  EXPECT_EQ(gate.Push("S").text, "");
  EXPECT_EQ(gate.Finish(), "S");
}

TEST(TextGate, RestartsWithinARepeatedBeginning) {
  TextGate gate({"aab"});
  EXPECT_EQ(gate.Push("aaa").text, "a");
  const TextGate::Passed passed = gate.Push("b");
  EXPECT_EQ(passed.text, "");
  EXPECT_EQ(passed.stopped_by, "aab");
}

TEST(TextGate, TakesTheStopStringThatBeginsFirst) {
  TextGate gate({"late", "early"});
  const TextGate::Passed passed = gate.Push("x early then late");
  EXPECT_EQ(passed.text, "x ");
  EXPECT_EQ(passed.stopped_by, "early");
}

TEST(TextGate, KnowsAStopStringOfSeveralByteCharacters) {
  TextGate gate({"\xC3\xA9\xC3\xA8"});  // é è
  EXPECT_EQ(gate.Push("caf\xC3").text, "caf");
  EXPECT_EQ(gate.Push("\xA9").text, "");
  EXPECT_EQ(gate.Push("!").text, "\xC3\xA9!");
  // é and ê share their first byte: what began like è must come out whole.
  EXPECT_EQ(gate.Push("\xC3\xA9\xC3\xAA").text, "\xC3\xA9\xC3\xAA");
}

// Every way to cut a text into two pieces gives the same answer.
TEST(TextGate, GivesTheSameAnswerWhereverThePiecesAreCut) {
  const std::string text = "na\xC3\xAFve \xF0\x9F\xA6\x9C <|end|> tail";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    TextGate gate({"<|end|>", "<|eot|>"});
    std::string passed = gate.Push(text.substr(0, cut)).text;
    EXPECT_TRUE(IsValidUtf8(passed)) << cut;
    passed += gate.Push(text.substr(cut)).text;
    EXPECT_EQ(passed + gate.Finish(), "na\xC3\xAFve \xF0\x9F\xA6\x9C ") << cut;
  }
}

}  // namespace
}  // namespace rouse::engine
