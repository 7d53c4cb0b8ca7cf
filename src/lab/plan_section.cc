#include "lab/plan_section.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/strings.h"
#include "base/units.h"

namespace rouse::lab {
namespace {

constexpr size_t kNameLimitBytes = 60;

std::string Quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string Joined(const Names& names) {
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

std::string Meant(std::string_view text, const Names& names) {
  const std::string nearest = NearestName(text, names);
  return nearest.empty() ? "" : " (did you mean " + Quoted(nearest) + "?)";
}

std::string_view TypeWord(toml::node_type type) {
  switch (type) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

int LineOfNode(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

// A state's value as text: words, and numbers where a layer takes them.
std::optional<std::string> StateText(const toml::node& node) {
  if (node.is_string()) return node.as_string()->get();
  if (node.is_integer()) return std::to_string(node.as_integer()->get());
  if (!node.is_floating_point()) return std::nullopt;
  std::array<char, 64> text{};
  const auto [end, status] =
      std::to_chars(text.data(), text.data() + text.size(), node.as_floating_point()->get());
  return std::string(text.data(), status == std::errc() ? end : text.data());
}

// What a message expects of a row that does not say it in words of its own.
std::string ExpectedOf(const KeyRow& row) {
  if (!row.expected.empty()) return std::string(row.expected);
  if (row.choices != nullptr) return "one of " + Joined(row.choices());
  return "a string";
}

}  // namespace

Error Place::Fail(const std::string& what) const {
  return PlanError(file, line, Quoted(key) + " in " + title + what);
}

int Section::line() const { return LineOfNode(table_); }

int Section::LineOf(std::string_view key) const {
  const toml::node* const node = Find(key);
  return node == nullptr ? line() : LineOfNode(*node);
}

Error Section::Fail(int line, const std::string& what) const {
  return PlanError(file_, line, what);
}

Error Section::WrongType(std::string_view key, const toml::node& node,
                         std::string_view expected) const {
  return Fail(LineOfNode(node), Quoted(key) + " in " + title_ + " must be " +
                                    std::string(expected) + ", not " +
                                    std::string(TypeWord(node.type())));
}

Status Section::AllowOnly(const Names& names) const {
  const toml::key* unknown = nullptr;
  for (const auto& [key, node] : table_) {
    if (std::find(names.begin(), names.end(), key.str()) != names.end()) continue;
    if (unknown == nullptr || key.source().begin.line < unknown->source().begin.line) {
      unknown = &key;
    }
  }
  if (unknown == nullptr) return {};
  return Fail(static_cast<int>(unknown->source().begin.line),
              "unknown key " + Quoted(unknown->str()) + " in " + title_ +
                  Meant(unknown->str(), names) + "; expected " + Joined(names));
}

Status Section::Require(const KeyRow& row) const {
  if (row.needed.empty() || Find(row.name) != nullptr) return {};
  return Fail(line(), title_ + " needs " + Quoted(row.name) + ": " + std::string(row.needed));
}

Place Section::PlaceOf(const KeyRow& row) const {
  return {.file = file_, .line = LineOf(row.name), .key = row.name, .title = title_};
}

Result<std::optional<KeyValue>> Section::Read(const KeyRow& row) const {
  const toml::node* const node = Find(row.name);
  if (node == nullptr) return std::optional<KeyValue>();
  Result<KeyValue> value = Error(ErrorCode::kInternal, "no value");
  switch (row.type) {
    case KeyType::kName:
    case KeyType::kText:
    case KeyType::kDuration:
    case KeyType::kChoice:
      value = ReadText(row, *node);
      break;
    case KeyType::kInteger:
      value = ReadInteger(row, *node);
      break;
    case KeyType::kShare: {
      const auto share = node->value<double>();
      if (!share) return WrongType(row.name, *node, "a number such as 0.95");
      if (!(*share > 0.5 && *share < 1)) {
        return PlaceOf(row).Fail(" must be above 0.5 and below 1");
      }
      value = KeyValue{.share = *share};
      break;
    }
    case KeyType::kBoolean:
      if (!node->is_boolean()) return WrongType(row.name, *node, "true or false");
      value = KeyValue{.flag = node->as_boolean()->get()};
      break;
    case KeyType::kTexts:
      value = ReadStrings(row, *node);
      break;
    case KeyType::kTable:
      value = ReadTexts(row, *node);
      break;
    case KeyType::kState:
      value = ReadState(row, *node);
      break;
  }
  if (!value.ok()) return value.error();
  return std::optional<KeyValue>(*std::move(value));
}

Result<KeyValue> Section::ReadText(const KeyRow& row, const toml::node& node) const {
  if (!node.is_string()) return WrongType(row.name, node, ExpectedOf(row));
  KeyValue value;
  value.text = node.as_string()->get();
  const Place place = PlaceOf(row);
  if (value.text.find('\0') != std::string::npos) return place.Fail(" holds a NUL character");
  if (row.type == KeyType::kName) RETURN_IF_ERROR(CheckName(place, value.text));
  if (row.type == KeyType::kDuration) {
    const Result<int64_t> ns = ParseDuration(value.text);
    if (!ns.ok()) return place.Fail(": " + ns.error().message());
    value.number = *ns;
  }
  if (row.type != KeyType::kChoice) return value;
  const Names choices = row.choices();
  if (std::find(choices.begin(), choices.end(), value.text) != choices.end()) return value;
  return place.Fail(" has no value " + Quoted(value.text) + Meant(value.text, choices) +
                    "; expected one of " + Joined(choices));
}

Status Section::CheckName(const Place& place, const std::string& name) const {
  if (TrimBlanks(name).empty() || TrimBlanks(name) != name) {
    return place.Fail(" must not be empty nor begin or end with a blank");
  }
  if (name.size() > kNameLimitBytes) {
    return place.Fail(" must have at most 60 bytes, not " + std::to_string(name.size()));
  }
  for (const char letter : name) {
    const auto code = static_cast<unsigned char>(letter);
    if (code < 0x20 || code == 0x7f) return place.Fail(" holds a control character");
  }
  return {};
}

Result<KeyValue> Section::ReadInteger(const KeyRow& row, const toml::node& node) const {
  const std::string range =
      "a whole number from " + std::to_string(row.low) + " to " + std::to_string(row.high);
  if (!node.is_integer()) return WrongType(row.name, node, range);
  const int64_t number = node.as_integer()->get();
  if (number >= row.low && number <= row.high) return KeyValue{.number = number};
  return PlaceOf(row).Fail(" must be " + range + ", not " + std::to_string(number));
}

Result<KeyValue> Section::ReadStrings(const KeyRow& row, const toml::node& node) const {
  constexpr std::string_view kExpected = "an array of strings";
  if (!node.is_array()) return WrongType(row.name, node, kExpected);
  KeyValue value;
  for (const toml::node& element : *node.as_array()) {
    if (!element.is_string()) return WrongType(row.name, element, kExpected);
    value.texts.push_back(element.as_string()->get());
  }
  return value;
}

Result<KeyValue> Section::ReadTexts(const KeyRow& row, const toml::node& node) const {
  if (!node.is_table()) return WrongType(row.name, node, row.expected);
  KeyValue value;
  for (const auto& [name, text] : *node.as_table()) {
    if (!text.is_string()) return WrongType(row.name, text, row.expected);
    value.table[std::string(name.str())] = text.as_string()->get();
  }
  return value;
}

Result<KeyValue> Section::ReadState(const KeyRow& row, const toml::node& node) const {
  if (!node.is_table()) return WrongType(row.name, node, row.expected);
  Names names;
  for (const LayerRow& layer : Layers()) names.push_back(layer.name);
  const Section state(*node.as_table(), file_, "state of " + title_);
  RETURN_IF_ERROR(state.AllowOnly(names));
  KeyValue value;
  for (const auto& [key, element] : *node.as_table()) {
    const std::optional<std::string> text = StateText(element);
    if (!text) return state.WrongType(key.str(), element, "a string or a number");
    const Result<std::string> normal = NormalizeLayerValue(*LayerFromName(key.str()), *text);
    if (!normal.ok()) {
      return Fail(LineOfNode(element), normal.error().message() + " in " + title_);
    }
    value.table[std::string(key.str())] = *normal;
  }
  return value;
}

}  // namespace rouse::lab
