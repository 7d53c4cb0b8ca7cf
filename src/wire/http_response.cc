#include "wire/http_response.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <optional>

#include "base/strings.h"

namespace rouse::wire {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using BeastView = boost::beast::string_view;

constexpr std::string_view kHttpPrefix = "HTTP/";
constexpr int kSwitchingProtocols = 101;

std::string_view View(BeastView text) { return {text.data(), text.size()}; }

// One message. Collects the head; hands body bytes to whoever is set as `sink`.
class BeastParser final : public http::basic_parser<false> {
 public:
  BeastParser() {
    eager(true);
    body_limit(boost::none);  // the exchange has a limit of its own
  }

  HttpHead head;
  HttpSink* sink = nullptr;
  bool chunk_seen = false;

 private:
  void on_request_impl(http::verb /*method*/, BeastView /*method_text*/, BeastView /*target*/,
                       int /*version*/, error_code& /*error*/) override {}
  void on_response_impl(int code, BeastView /*reason*/, int /*version*/,
                        error_code& /*error*/) override {
    head.status = code;
  }
  void on_field_impl(http::field /*name*/, BeastView name_text, BeastView value,
                     error_code& /*error*/) override {
    // Trailers come after the head is done, and are of no interest.
    if (!is_header_done()) head.fields.push_back({std::string(name_text), std::string(value)});
  }
  void on_header_impl(error_code& /*error*/) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>& /*length*/,
                         error_code& /*error*/) override {}
  std::size_t on_body_impl(BeastView body, error_code& /*error*/) override {
    if (!body.empty()) sink->OnBody(View(body));
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t /*size*/, BeastView /*extensions*/,
                            error_code& /*error*/) override {
    chunk_seen = true;
  }
  std::size_t on_chunk_body_impl(std::uint64_t /*remaining*/, BeastView body,
                                 error_code& /*error*/) override {
    if (!body.empty()) sink->OnBody(View(body));
    return body.size();
  }
  void on_finish_impl(error_code& /*error*/) override {}
};

// Position after the blank line that ends a head, searching from `from`, or npos.
size_t FindHeadEnd(std::string_view text, size_t from) {
  for (size_t at = text.find('\n', from); at != std::string_view::npos;
       at = text.find('\n', at + 1)) {
    if (text.substr(at + 1, 1) == "\n") return at + 2;
    if (text.substr(at + 1, 2) == "\r\n") return at + 3;
  }
  return std::string_view::npos;
}

// "HTTP/1.1 200": a status line may lack the blank before an empty reason (some servers do), which
// Beast insists on.
bool LacksReasonBlank(std::string_view line) {
  constexpr size_t kLength = std::string_view("HTTP/1.1 200").size();
  return line.size() == kLength && line[8] == ' ' &&
         std::ranges::all_of(line.substr(9), [](char c) { return c >= '0' && c <= '9'; });
}

std::string Excerpt(std::string_view text) {
  std::string shown;
  for (const char letter : text.substr(0, 40)) {
    const bool printable = letter >= 0x20 && letter < 0x7F;
    shown += printable ? letter : '.';
  }
  return shown;
}

}  // namespace

std::string_view HttpHead::Field(std::string_view name) const {
  for (const Header& field : fields) {
    if (LowerAscii(field.name) == LowerAscii(name)) return field.value;
  }
  return {};
}

struct HttpResponseParser::Impl {
  explicit Impl(int64_t limit_bytes) : header_limit(static_cast<size_t>(limit_bytes)) {}

  State Fail(std::string message) {
    error = std::move(message);
    return state = State::kFailed;
  }
  State FailHeaderLimit(std::string_view what) {
    return Fail("header_limit: " + std::string(what) + " is longer than " +
                std::to_string(header_limit) + " bytes");
  }

  // Appends to the head until it is whole; returns the bytes behind it, or nullopt when more is
  // needed or the head is at fault.
  std::optional<std::string_view> TakeHead(std::string_view bytes);
  // The whole head, its line ends made CRLF, to Beast.
  void ParseHead();
  void ParseBody(std::string_view bytes, HttpSink& sink);
  // Gives Beast what it takes of `bytes`; returns how many. Sets the state on failure or the end.
  size_t Put(std::string_view bytes);

  size_t header_limit;
  State state = State::kHead;
  std::string error;
  std::optional<BeastParser> parser;
  std::string head;     // the bytes of an unfinished head
  std::string pending;  // an unfinished chunk header or trailer
  bool extra_bytes = false;
  bool bare_line_feed = false;
  bool by_close = false;
  int64_t informational_heads = 0;
};

std::optional<std::string_view> HttpResponseParser::Impl::TakeHead(std::string_view bytes) {
  const size_t known = head.size();
  const size_t wanted = std::min(bytes.size(), header_limit + 1 - known);
  head.append(bytes.substr(0, wanted));
  const size_t compared = std::min(head.size(), kHttpPrefix.size());
  if (head.compare(0, compared, kHttpPrefix.substr(0, compared)) != 0) {
    Fail("not HTTP: the answer begins with \"" + Excerpt(head) + "\"");
    return std::nullopt;
  }
  const size_t end = FindHeadEnd(head, known < 3 ? 0 : known - 3);
  if (end > header_limit && head.size() > header_limit) {
    FailHeaderLimit("the header block");
    return std::nullopt;
  }
  if (end == std::string::npos) return std::nullopt;
  head.resize(end);
  return bytes.substr(end - known);
}

void HttpResponseParser::Impl::ParseHead() {
  std::string normal;
  normal.reserve(head.size() + 8);
  std::string_view rest = head;
  bool first = true;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    } else {
      bare_line_feed = true;
    }
    normal.append(line);
    if (first && LacksReasonBlank(line)) normal += ' ';
    normal += "\r\n";
    first = false;
  }
  head.clear();
  parser.emplace();
  parser->header_limit(static_cast<std::uint32_t>(normal.size() + 1));
  Put(normal);
}

size_t HttpResponseParser::Impl::Put(std::string_view bytes) {
  error_code code;
  const size_t taken = parser->put(boost::asio::const_buffer(bytes.data(), bytes.size()), code);
  if (code && code != http::error::need_more) {
    Fail("bad HTTP: " + code.message());
  } else if (parser->is_done()) {
    state = State::kComplete;
  }
  return taken;
}

void HttpResponseParser::Impl::ParseBody(std::string_view bytes, HttpSink& sink) {
  parser->sink = &sink;
  if (!pending.empty()) {
    pending.append(bytes);
    bytes = pending;
  }
  while (!bytes.empty() && state == State::kBody) {
    // An assertion in Beast wants all of "0\r\n\r\n" at once when it is the first chunk (a later
    // one begins with the line end of the chunk before it).
    const bool may_end_here = parser->chunked() && !parser->chunk_seen && bytes[0] == '0';
    if (may_end_here && bytes.size() < 5) break;
    const size_t taken = Put(bytes);
    bytes.remove_prefix(taken);
    if (taken == 0) break;
  }
  if (state == State::kComplete) {
    extra_bytes = extra_bytes || !bytes.empty();
    pending.clear();
  } else if (bytes.size() > header_limit) {
    FailHeaderLimit("a chunk header or trailer");
  } else {
    pending = std::string(bytes);
  }
}

HttpResponseParser::HttpResponseParser(int64_t header_limit_bytes)
    : impl_(std::make_unique<Impl>(header_limit_bytes)) {}
HttpResponseParser::~HttpResponseParser() = default;

HttpResponseParser::State HttpResponseParser::Feed(std::string_view bytes, HttpSink& sink) {
  Impl& self = *impl_;
  while (self.state == State::kHead && !bytes.empty()) {
    const std::optional<std::string_view> rest = self.TakeHead(bytes);
    if (!rest) return self.state;
    self.ParseHead();
    if (self.state == State::kFailed) return self.state;
    bytes = *rest;
    const int status = self.parser->head.status;
    if (status / 100 == 1) {
      if (status == kSwitchingProtocols) return self.Fail("the server switches protocols (101)");
      ++self.informational_heads;
      self.state = State::kHead;
      continue;
    }
    if (!self.parser->is_header_done()) return self.Fail("bad HTTP: an unfinished header block");
    if (self.state != State::kComplete) self.state = State::kBody;
    sink.OnHead(self.parser->head);
  }
  if (bytes.empty()) return self.state;
  if (self.state == State::kBody) {
    self.ParseBody(bytes, sink);
  } else if (self.state == State::kComplete) {
    self.extra_bytes = true;
  }
  return self.state;
}

HttpResponseParser::State HttpResponseParser::FeedEof(HttpSink& sink) {
  Impl& self = *impl_;
  if (self.state == State::kBody && until_close()) {
    self.parser->sink = &sink;
    error_code code;
    self.parser->put_eof(code);
    if (!code) {
      self.state = State::kComplete;
      self.by_close = true;
    }
  }
  return self.state;
}

HttpResponseParser::State HttpResponseParser::state() const { return impl_->state; }
const std::string& HttpResponseParser::error() const { return impl_->error; }
bool HttpResponseParser::keep_alive() const {
  return impl_->state == State::kComplete && impl_->parser->keep_alive();
}
bool HttpResponseParser::has_extra_bytes() const { return impl_->extra_bytes; }
bool HttpResponseParser::until_close() const {
  return impl_->state == State::kBody && impl_->parser->need_eof();
}
bool HttpResponseParser::ended_by_close() const { return impl_->by_close; }
int64_t HttpResponseParser::informational_heads() const { return impl_->informational_heads; }
bool HttpResponseParser::saw_bare_line_feed() const { return impl_->bare_line_feed; }

}  // namespace rouse::wire
