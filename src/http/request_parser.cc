#include "http/request_parser.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <exception>
#include <new>
#include <optional>

#include "base/check.h"
#include "base/strings.h"
#include "http/message.h"

namespace rouse::http {
namespace {

namespace beast = boost::beast;
using Error = beast::http::error;

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

ParseFailure Explain(const beast::error_code& code, int64_t header_limit, int64_t body_limit) {
  if (code == Error::body_limit) {
    return {413,
            "the request's body is over the limit of " + std::to_string(body_limit) + " bytes"};
  }
  if (code == Error::header_limit) {
    return {431, "the request's headers are over the limit of " + std::to_string(header_limit) +
                     " bytes"};
  }
  return {400, "not a valid HTTP request: " + code.message()};
}

// "http://host/path?query", "/path?query" -> path and query. False when it is neither.
bool SplitTarget(Request& request) {
  std::string_view rest = request.target;
  if (rest == "*") {
    request.path = rest;
    return true;
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!rest.starts_with(scheme)) continue;
    rest.remove_prefix(scheme.size());
    const size_t slash = rest.find('/');
    rest = slash == std::string_view::npos ? std::string_view("/") : rest.substr(slash);
    break;
  }
  if (!rest.starts_with('/')) return false;
  const size_t question = rest.find('?');
  request.path = rest.substr(0, question);
  if (question != std::string_view::npos) request.query = rest.substr(question + 1);
  return true;
}

}  // namespace

struct RequestParser::Impl {
  Impl(int64_t header_limit_bytes, int64_t body_limit_bytes)
      : header_limit(header_limit_bytes), body_limit(body_limit_bytes) {
    // Beast counts from what is left after the start line when a head comes in pieces: the limit
    // is held here, and Beast's only bounds its work.
    parser.header_limit(static_cast<std::uint32_t>(2 * header_limit));
    parser.body_limit(static_cast<std::uint64_t>(body_limit));
    parser.eager(false);  // so that the first stop is the end of the head
  }

  void Fail(ParseFailure why) {
    failure = std::move(why);
    state = State::kFailed;
  }

  // What a complete head must have beyond what Beast checks.
  void CheckHead() {
    head_checked = true;
    parser.eager(true);
    if (head_bytes > static_cast<size_t>(header_limit)) {
      return Fail(Explain(Error::header_limit, header_limit, body_limit));
    }
    const auto& head = parser.get();
    if (head.version() != 10 && head.version() != 11) {
      return Fail({505, "only HTTP/1.0 and HTTP/1.1 are spoken here"});
    }
    if (head.version() == 11 && head.count(beast::http::field::host) != 1) {
      return Fail({400, "an HTTP/1.1 request needs exactly one Host header"});
    }
    request.target = View(head.target());
    if (!SplitTarget(request)) return Fail({400, "the request's target is no path"});
    const auto expect = head.find(beast::http::field::expect);
    if (expect != head.end()) {
      expects_continue = SameName(TrimBlanks(View(expect->value())), "100-continue");
      if (!expects_continue) Fail({417, "the only expectation met here is 100-continue"});
    }
  }

  // Whether the head, of which `taken` bytes are gone and `rest` comes next, is over the limit.
  bool HeadIsOver(std::string_view rest, size_t taken) const {
    const size_t end = rest.find("\r\n\r\n");
    return taken + (end == std::string_view::npos ? rest.size() : end + 4) >
           static_cast<size_t>(header_limit);
  }

  size_t Feed(std::string_view bytes) {
    size_t used = 0;
    while (state == State::kNeedsMore && used < bytes.size()) {
      beast::error_code code;
      const auto rest = bytes.substr(used);
      // An assertion in Beast wants all of "0\r\n\r\n" at once when it is the first chunk. No body
      // ends with fewer bytes than these, so waiting for them is no loss.
      if (head_checked && parser.chunked() && rest.size() < 5 && rest[0] == '0') break;
      const size_t taken = parser.put(boost::asio::buffer(rest.data(), rest.size()), code);
      used += taken;
      if (!head_checked) head_bytes += taken;
      if (parser.is_header_done() && !head_checked) CheckHead();
      if (state == State::kFailed) break;
      if (code == Error::need_more) code = {};
      if (code) {
        // Beast has limits of its own, such as that of one field; a head that is too long is told
        // so.
        if (!head_checked && HeadIsOver(bytes.substr(used), head_bytes)) code = Error::header_limit;
        Fail(Explain(code, header_limit, body_limit));
        break;
      }
      if (parser.is_done()) {
        state = State::kComplete;
        break;
      }
      if (taken == 0) break;
    }
    // An unfinished head stays with the caller, which must not collect more than the limit.
    if (state == State::kNeedsMore && !parser.is_header_done() &&
        head_bytes + bytes.size() - used > static_cast<size_t>(header_limit)) {
      Fail(Explain(Error::header_limit, header_limit, body_limit));
    }
    return used;
  }

  int64_t header_limit;
  int64_t body_limit;
  beast::http::request_parser<beast::http::string_body> parser;
  bool head_checked = false;
  size_t head_bytes = 0;  // taken so far
  bool expects_continue = false;
  State state = State::kNeedsMore;
  ParseFailure failure;
  Request request;
};

RequestParser::RequestParser(int64_t header_limit_bytes, int64_t body_limit_bytes)
    : impl_(std::make_unique<Impl>(header_limit_bytes, body_limit_bytes)) {}
RequestParser::~RequestParser() = default;

size_t RequestParser::Feed(std::string_view bytes) {
  try {
    return impl_->Feed(bytes);
  } catch (const std::bad_alloc&) {
    impl_->Fail({503, "not enough memory for this request"});
  } catch (const std::exception& exception) {
    // A field of more than 64 KiB is thrown for.
    if (!impl_->head_checked && impl_->HeadIsOver(bytes, impl_->head_bytes)) {
      impl_->Fail(Explain(Error::header_limit, impl_->header_limit, impl_->body_limit));
      return 0;
    }
    impl_->Fail({400, std::string("not a valid HTTP request: ") + exception.what()});
  }
  return 0;
}

RequestParser::State RequestParser::state() const { return impl_->state; }
const ParseFailure& RequestParser::failure() const { return impl_->failure; }

bool RequestParser::WantsContinue() const {
  return impl_->state == State::kNeedsMore && impl_->expects_continue && !IsHttp10();
}
bool RequestParser::KeepAlive() const { return impl_->parser.get().keep_alive(); }
bool RequestParser::IsHttp10() const { return impl_->parser.get().version() < 11; }

Request RequestParser::Take() {
  CHECK(impl_->state == State::kComplete);
  auto& message = impl_->parser.get();
  Request request = std::move(impl_->request);
  request.method = View(message.method_string());
  for (const auto& field : message) {
    request.headers.push_back(
        {std::string(View(field.name_string())), std::string(View(field.value()))});
  }
  request.body = std::move(message.body());
  return request;
}

}  // namespace rouse::http
