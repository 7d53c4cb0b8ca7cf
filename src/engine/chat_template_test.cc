#include "engine/chat_template.h"

#include <gtest/gtest.h>

namespace rouse::engine {
namespace {

std::unique_ptr<ChatTemplate> Parsed(const std::string& source) {
  Result<std::unique_ptr<ChatTemplate>> parsed = ChatTemplate::Parse(source);
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message());
  return parsed.ok() ? std::move(parsed).value() : nullptr;
}

std::string Rendered(const ChatTemplate& tmpl, const std::string& messages,
                     const TemplateOptions& options = {},
                     const ChatTemplate::SpecialTexts& special = {}) {
  const Result<std::string> text = tmpl.Render(messages, options, special);
  return text.ok() ? text.value() : "error: " + text.error().message();
}

constexpr char kTwo[] =
    R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi \"you\" \u00e9"}])";

TEST(ChatTemplate, RendersTheDefaultOne) {
  const auto chatml = Parsed(ChatTemplate::DefaultSource());
  const std::string messages =
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi \"you\" \xC3\xA9<|im_end|>\n";
  EXPECT_EQ(Rendered(*chatml, kTwo), messages + "<|im_start|>assistant\n");
  EXPECT_EQ(Rendered(*chatml, kTwo, {.add_generation_prompt = false}), messages);
}

TEST(ChatTemplate, JoinsTextPartsForTemplatesThatWantAString) {
  const auto chatml = Parsed(ChatTemplate::DefaultSource());
  EXPECT_EQ(Rendered(*chatml, R"([{"role":"user","content":[{"type":"text","text":"a"},
                                                            {"type":"text","text":"b"}]}])"),
            "<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, RefusesMessagesOfTheWrongShapeAndSaysWhere) {
  const auto chatml = Parsed(ChatTemplate::DefaultSource());
  const auto refused = [&](const std::string& messages, const std::string& words) {
    const Result<std::string> text = chatml->Render(messages, {}, {});
    ASSERT_FALSE(text.ok()) << messages;
    EXPECT_EQ(text.error().code(), ErrorCode::kUsage);
    EXPECT_NE(text.error().message().find(words), std::string::npos) << text.error().message();
  };
  refused("{", "not valid JSON");
  refused("{}", "must be an array");
  refused("[]", "at least one message");
  refused("[3]", "messages[0] must be an object");
  refused(R"([{"content":"x"}])", "messages[0].role");
  refused(R"([{"role":5,"content":"x"}])", "messages[0].role");
  refused(R"([{"role":"user","content":"x"},{"role":"user"}])", "messages[1].content");
  refused(R"([{"role":"user","content":7}])", "messages[0].content");
  refused(R"([{"role":"user","content":[{"text":"x"}]}])", "without a type");
  refused(R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])", "image_url");
  refused("[{\"role\":\"user\",\"content\":\"\xFF\"}]", "not valid JSON");
}

TEST(ChatTemplate, RefusesNestingThatCouldOverflowAStack) {
  const auto chatml = Parsed(ChatTemplate::DefaultSource());
  const std::string deep(1'000'000, '[');
  EXPECT_NE(Rendered(*chatml, deep).find("nested too deep"), std::string::npos);
  EXPECT_NE(Rendered(*chatml, kTwo, {.tools_json = deep}).find("nested too deep"),
            std::string::npos);
  // Brackets within strings don't nest.
  const std::string brackets = R"([{"role":"user","content":")" + std::string(500, '[') + R"("}])";
  EXPECT_NE(Rendered(*chatml, brackets).find("[[["), std::string::npos);
}

#ifdef ROUSE_HAVE_LLAMA_COMMON

TEST(ChatTemplate, GivesTheTemplateBosAndEosAndTools) {
  const auto tmpl = Parsed(
      "{{ bos_token }}{% if tools %}{{ tools|length }}:{{ tools[0].function.name }} {% endif %}"
      "{{ messages[0].content }}{{ eos_token }}");
  const ChatTemplate::SpecialTexts special = {.bos = "<s>", .eos = "</s>"};
  EXPECT_EQ(Rendered(*tmpl, R"([{"role":"user","content":"x"}])",
                     {.tools_json = R"([{"type":"function","function":{"name":"f"}}])"}, special),
            "<s>1:f x</s>");
}

TEST(ChatTemplate, TakesOffWhatTheTokenizerAddsItself) {
  const auto tmpl = Parsed("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
  EXPECT_EQ(Rendered(*tmpl, R"([{"role":"user","content":"x"}])", {},
                     {.bos = "<s>", .eos = "</s>", .strip_bos = true, .strip_eos = true}),
            "x");
}

TEST(ChatTemplate, PassesFurtherVariables) {
  const auto tmpl = Parsed("{{ enable_thinking }} {{ mood }} {{ messages[0].content }}");
  EXPECT_EQ(Rendered(*tmpl, R"([{"role":"user","content":"x"}])",
                     {.kwargs_json = R"({"mood":"calm","enable_thinking":false})"}),
            "False calm x");
}

TEST(ChatTemplate, QuotesTheTemplatesOwnWordsWhenItRefuses) {
  const auto tmpl = Parsed(
      "{% if messages[0].role != 'user' %}{{ raise_exception('roles must alternate') }}{% endif %}"
      "{{ messages[0].content }}");
  const Result<std::string> text = tmpl->Render(R"([{"role":"assistant","content":"x"}])", {}, {});
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().message(),
            "the model's chat template refused the messages: roles must alternate");
}

TEST(ChatTemplate, PutsTheSystemTextInFrontWhereTheTemplateKnowsNoSystem) {
  const auto tmpl = Parsed(
      "{% for m in messages %}{% if m.role == 'user' %}U:{{ m.content }}{% elif m.role == "
      "'assistant' %}A:{{ m.content }}{% else %}{{ raise_exception('no') }}{% endif %}{% endfor "
      "%}");
  EXPECT_EQ(Rendered(*tmpl, kTwo), "U:Be brief.\nHi \"you\" \xC3\xA9");
}

TEST(ChatTemplate, MakesTypedPartsForTemplatesThatWantThem) {
  const auto tmpl = Parsed(
      "{% for m in messages %}{% for p in m.content %}{% if p.type == 'text' %}[{{ p.text }}]"
      "{% endif %}{% endfor %}{% endfor %}");
  EXPECT_EQ(Rendered(*tmpl, R"([{"role":"user","content":"x"}])"), "[x]");
}

TEST(ChatTemplate, KnowsTheDate) {
  const auto tmpl = Parsed("{{ strftime_now('%Y') }} {{ messages[0].content }}");
  EXPECT_TRUE(Rendered(*tmpl, R"([{"role":"user","content":"x"}])").starts_with("20"));
}

TEST(ChatTemplate, SaysWhyATemplateCanNotBeParsed) {
  const Result<std::unique_ptr<ChatTemplate>> parsed = ChatTemplate::Parse("{% for x in %}");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(parsed.error().message().find('\n'), std::string::npos);
}

TEST(ChatTemplate, SurvivesAStrayBreak) {
  const Result<std::unique_ptr<ChatTemplate>> parsed = ChatTemplate::Parse("{% break %}x");
  if (!parsed.ok()) return;
  EXPECT_FALSE((*parsed)->Render(kTwo, {}, {}).ok());
}

#endif

}  // namespace
}  // namespace rouse::engine
