#include "wire/redact.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "wire/json_read.h"

namespace rouse::wire {
namespace {

constexpr size_t kLeastBytes = 8;
constexpr size_t kLeastSecretBytes = 4;

bool IsSecretName(std::string_view name) {
  constexpr std::array<std::string_view, 6> kWords = {"auth",   "key",    "token",
                                                      "secret", "cookie", "passw"};
  const std::string lower = LowerAscii(name);
  return std::ranges::any_of(
      kWords, [&lower](std::string_view word) { return lower.find(word) != std::string::npos; });
}

bool IsScheme(std::string_view word) {
  const std::string lower = LowerAscii(word);
  return lower == "bearer" || lower == "basic" || lower == "digest" || lower == "token";
}

}  // namespace

Redactor::Redactor(const std::vector<Header>& headers) {
  for (const Header& header : headers) {
    const size_t least = IsSecretName(header.name) ? kLeastSecretBytes : kLeastBytes;
    Add(header.value, least);
    for (const std::string_view word : SplitAt(header.value, ' ')) {
      if (!IsScheme(word)) Add(word, least);
    }
  }
  std::ranges::sort(secrets_, std::ranges::greater(), &std::string::size);
}

void Redactor::Add(std::string_view secret, size_t least_bytes) {
  if (secret.size() < least_bytes) return;
  secrets_.emplace_back(secret);
  // As it looks inside a JSON string.
  std::string quoted = Dump(Json(std::string(secret)));
  quoted = quoted.substr(1, quoted.size() - 2);
  if (quoted != secret) secrets_.push_back(std::move(quoted));
}

std::string Redactor::Apply(std::string text) const {
  for (const std::string& secret : secrets_) {
    for (size_t at = text.find(secret); at != std::string::npos;
         at = text.find(secret, at + secret.size())) {
      text.replace(at, secret.size(), secret.size(), '*');
    }
  }
  return text;
}

void Redactor::Apply(Exchange& exchange) const {
  if (secrets_.empty()) return;
  for (std::string* text :
       {&exchange.outcome_detail, &exchange.content_type, &exchange.server_timings_json,
        &exchange.usage_json, &exchange.rouse_timeline_json, &exchange.content_text,
        &exchange.reasoning_text, &exchange.stream.finish_reason}) {
    *text = Apply(std::move(*text));
  }
  for (Warning& warning : exchange.warnings) warning.message = Apply(std::move(warning.message));
  std::string all;
  for (const ReadStamp& read : exchange.reads) all += read.data;
  if (all.empty()) return;
  all = Apply(std::move(all));
  size_t at = 0;
  for (ReadStamp& read : exchange.reads) {
    read.data = all.substr(at, read.data.size());
    at += read.data.size();
  }
}

}  // namespace rouse::wire
