#include "base/terminal_text.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace rouse {
namespace {

TEST(FitText, KeepsWhatFits) {
  EXPECT_EQ(FitText("warm", 4), "warm");
  EXPECT_EQ(FitText("", 4), "");
}

TEST(FitText, CutsToDisplayColumnsWithDots) {
  EXPECT_EQ(FitText("page cache cold", 10), "page ca...");
  EXPECT_EQ(FitText("page cache cold", 2), "pa");
  EXPECT_EQ(FitText("\u6a21\u578b\u6a21\u578b", 7), "\u6a21\u578b...");
  EXPECT_EQ(FitText("\u6a21\u578b", 3), "...");
}

TEST(FitText, MakesControlsEscapesAndBidirectionalMarksHarmless) {
  EXPECT_EQ(FitText("a\x1b[31mb\n\r\tc\x7f", 80), "a?[31mb???c?");
  EXPECT_EQ(FitText("a\u202eb\u2066c\u200bd\u009be", 80), "a?b?c?d?e");
  EXPECT_EQ(FitText("\xff\xfe\xc3", 80), "???");
  EXPECT_EQ(FitText("\U000e0041\ue000", 80), "??");
}

TEST(SafeText, IsNeverCut) {
  const std::string text(300, 'x');
  EXPECT_EQ(SafeText(text), text);
  EXPECT_EQ(SafeText("a\nb"), "a?b");
}

TEST(CodePointsOf, TellsWhatIsValidAndWhatIsHarmful) {
  const std::vector<CodePoint> points = CodePointsOf("a\u202e\xff");
  ASSERT_EQ(points.size(), 3U);
  EXPECT_TRUE(points[0].valid && !points[0].harmful && points[0].value == 'a');
  EXPECT_TRUE(points[1].valid && points[1].harmful && points[1].value == 0x202e);
  EXPECT_TRUE(!points[2].valid && points[2].harmful && points[2].bytes == "\xff");
}

TEST(DisplayColumns, CountsWideTwiceAndCombiningNever) {
  EXPECT_EQ(DisplayColumns("abc"), 3);
  EXPECT_EQ(DisplayColumns("\u6a21\u578b"), 4);
  EXPECT_EQ(DisplayColumns("\uff21\uac00\U0001f680"), 6);
  EXPECT_EQ(DisplayColumns("e\u0301"), 1);
  EXPECT_EQ(DisplayColumns("\u2595\u2588"), 2);
  EXPECT_EQ(DisplayColumns("\u00e9\u044f"), 2);
}

TEST(DisplayColumns, PassesOverColours) {
  EXPECT_EQ(DisplayColumns("\x1b[30;48;5;214mss\x1b[0m"), 2);
}

TEST(Padding, FillsByDisplayColumns) {
  EXPECT_EQ(PadRight("\u6a21", 4), "\u6a21  ");
  EXPECT_EQ(PadLeft("\u6a21", 4), "  \u6a21");
  EXPECT_EQ(PadLeft("long", 2), "long");
}

TEST(WrapText, BreaksAtBlanksWithAHangingIndent) {
  EXPECT_EQ(WrapText("one two three", {.columns = 9, .indent = 2, .hanging = 4}),
            "  one two\n    three\n");
}

TEST(WrapText, KeepsANumberWithItsUnit) {
  EXPECT_EQ(WrapText("it took 24.1 ms more", {.columns = 12}), "it took\n24.1 ms more\n");
  EXPECT_EQ(WrapText("read at 331 MB/s, twice", {.columns = 13}), "read at\n331 MB/s,\ntwice\n");
}

TEST(WrapText, BreaksAWordThatIsLongerThanALineAndLosesNothingOfIt) {
  EXPECT_EQ(WrapText("abcdefghij", {.columns = 6, .indent = 2, .hanging = 2}),
            "  abcd\n  efgh\n  ij\n");
  EXPECT_EQ(WrapText("\u6a21\u578b\u6a21", {.columns = 5}), "\u6a21\u578b\n\u6a21\n");
}

TEST(WrapText, IsNeverWiderThanItsColumns) {
  const std::string text =
      "\u6a21\u578b\u540d abcdefghijklmnopqrstuvwxyz \x1b[2J 12.5 GB/s e\u0301";
  for (int columns = 6; columns < 60; ++columns) {
    const std::string wrapped = WrapText(text, {.columns = columns, .indent = 1, .hanging = 3});
    for (const std::string_view line : SplitAt(wrapped, '\n')) {
      EXPECT_LE(DisplayColumns(line), columns) << line;
    }
  }
}

TEST(WrapText, OfNothingIsOneEmptyLine) { EXPECT_EQ(WrapText("", {}), "\n"); }

TEST(ShellQuoted, LeavesPlainWordsAlone) {
  EXPECT_EQ(ShellQuoted("model-1.gguf"), "model-1.gguf");
  EXPECT_EQ(ShellQuoted(""), "''");
}

TEST(ShellQuoted, QuotesBlanksQuotesAndWideCharacters) {
  EXPECT_EQ(ShellQuoted("page cache"), "'page cache'");
  EXPECT_EQ(ShellQuoted("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellQuoted("\u6a21"), "'\u6a21'");
}

TEST(ShellQuoted, WritesControlCharactersAsEscapesOfTheShell) {
  EXPECT_EQ(ShellQuoted("a\x1b'\\\n"), "$'a\\x1b\\'\\\\\\x0a'");
}

}  // namespace
}  // namespace rouse
