// Keeps secrets out of what is printed and stored: header values that a user gave are masked
// wherever the server's text repeats them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wire/exchange.h"
#include "wire/request.h"

namespace rouse::wire {

class Redactor {
 public:
  // Every value of 8 bytes or more is a secret, and of 4 or more in a header whose name says so
  // (authorization, key, token, secret, cookie, password). In "Bearer abcd" each word counts.
  explicit Redactor(const std::vector<Header>& headers);

  // With every secret replaced by as many asterisks: lengths and times stay as they were.
  std::string Apply(std::string text) const;

  // All texts of the exchange; one that is spread over several reads too.
  void Apply(Exchange& exchange) const;

 private:
  void Add(std::string_view secret, size_t least_bytes);

  std::vector<std::string> secrets_;  // longest first
};

}  // namespace rouse::wire
