// One table of a plan file, read key by key as a row of lab/plan_keys.h says. Every message names
// file, line, key, what was expected and the nearest valid name. Knows no key itself.
#pragma once

#include <toml++/toml.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lab/plan_keys.h"

namespace rouse::lab {

// Where a value stands, for messages of the checks that need more than its type.
struct Place {
  std::string_view file;
  int line = 0;
  std::string_view key;
  std::string title;  // "[experiment]", "condition \"warm\""

  // "FILE:LINE: "KEY" in TITLE" and `what`, which begins with a blank or a colon.
  Error Fail(const std::string& what) const;
};

class Section {
 public:
  Section(const toml::table& table, std::string_view file, std::string title)
      : table_(table), file_(file), title_(std::move(title)) {}

  void set_title(std::string title) { title_ = std::move(title); }
  const std::string& title() const { return title_; }
  std::string_view file() const { return file_; }
  int line() const;
  // Of a key that is there; else the section's own.
  int LineOf(std::string_view key) const;

  Error Fail(int line, const std::string& what) const;
  Error WrongType(std::string_view key, const toml::node& node, std::string_view expected) const;
  // The first key (by line) that is not among `names` is an error.
  Status AllowOnly(const Names& names) const;
  Status Require(const KeyRow& row) const;

  const toml::node* Find(std::string_view key) const { return table_.get(key); }
  Place PlaceOf(const KeyRow& row) const;
  // Nothing when the key is not there.
  Result<std::optional<KeyValue>> Read(const KeyRow& row) const;

 private:
  Result<KeyValue> ReadText(const KeyRow& row, const toml::node& node) const;
  Result<KeyValue> ReadInteger(const KeyRow& row, const toml::node& node) const;
  Result<KeyValue> ReadStrings(const KeyRow& row, const toml::node& node) const;
  Result<KeyValue> ReadTexts(const KeyRow& row, const toml::node& node) const;
  Result<KeyValue> ReadState(const KeyRow& row, const toml::node& node) const;
  Status CheckName(const Place& place, const std::string& name) const;

  const toml::table& table_;
  std::string_view file_;
  std::string title_;
};

}  // namespace rouse::lab
