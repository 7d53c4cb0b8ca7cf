// ChatTemplate: messages to prompt text, by the Jinja template that the model brings along. Parsed
// once, rendered often. Private to src/engine; the only file that knows llama.cpp's "common"
// library. Built without that library, it knows only the templates that llama.cpp recognises.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/engine.h"

namespace rouse::engine {

class ChatTemplate {
 public:
  // kUnsupported when the template can't be parsed (names the place). About 1 ms.
  static Result<std::unique_ptr<ChatTemplate>> Parse(const std::string& source);

  // For models that bring none, as llama-server does: <|im_start|>role\ntext<|im_end|>.
  static const std::string& DefaultSource();

  struct SpecialTexts {
    std::string bos = {};
    std::string eos = {};
    // The tokenizer adds them itself: then they are taken off the rendered text.
    bool strip_bos = false;
    bool strip_eos = false;
  };

  // kUsage: the messages are no such array, or the template refused them.
  Result<std::string> Render(std::string_view messages_json, const TemplateOptions& options,
                             const SpecialTexts& special) const;

  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rouse::engine
