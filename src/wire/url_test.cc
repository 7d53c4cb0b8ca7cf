#include "wire/url.h"

#include <gtest/gtest.h>

namespace rouse::wire {
namespace {

Url Parse(std::string_view text) {
  const Result<Url> url = ParseUrl(text);
  EXPECT_TRUE(url.ok()) << text << ": " << (url.ok() ? "" : url.error().message());
  return url.ok() ? *url : Url();
}

TEST(ParseUrl, TakesHostPortPathAndQueryApart) {
  const Url url = Parse("http://Example:8080/v1/x?key=a/b");
  EXPECT_EQ(url.host, "Example");
  EXPECT_EQ(url.port, 8080);
  EXPECT_EQ(url.path, "/v1/x");
  EXPECT_EQ(url.query, "key=a/b");
  EXPECT_FALSE(url.tls);
}

TEST(ParseUrl, KnowsTheDefaultPorts) {
  EXPECT_EQ(Parse("http://h").port, 80);
  EXPECT_EQ(Parse("https://h/").port, 443);
  EXPECT_EQ(Parse("HTTPS://h:/").port, 443);
  EXPECT_EQ(Parse("http://h").Authority(), "h");
  EXPECT_EQ(Parse("https://h:8443").Authority(), "h:8443");
}

TEST(ParseUrl, KeepsAQueryOffTheShownForm) {
  EXPECT_EQ(Parse("http://h:1/p?key=secret").Display(), "http://h:1/p");
  EXPECT_EQ(Parse("http://h?key=secret").Display(), "http://h");
}

TEST(ParseUrl, WantsBracketsAroundIpv6) {
  const Url url = Parse("http://[::1]:8080/v1");
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.Authority(), "[::1]:8080");
  EXPECT_FALSE(ParseUrl("http://::1/").ok());
  EXPECT_FALSE(ParseUrl("http://[::1").ok());
  EXPECT_FALSE(ParseUrl("http://[::1]x").ok());
}

TEST(ParseUrl, TakesUnixSocketsInBothForms) {
  EXPECT_EQ(Parse("unix:/run/s.sock").unix_path, "/run/s.sock");
  EXPECT_EQ(Parse("unix:/run/s.sock").path, "");
  const Url with_path = Parse("unix:/run/s.sock:/v1/chat/completions");
  EXPECT_EQ(with_path.unix_path, "/run/s.sock");
  EXPECT_EQ(with_path.path, "/v1/chat/completions");
  const Url encoded = Parse("http+unix://%2Frun%2Fs%20a.sock/v1?x=1");
  EXPECT_EQ(encoded.unix_path, "/run/s a.sock");
  EXPECT_EQ(encoded.path, "/v1");
  EXPECT_EQ(encoded.query, "x=1");
  EXPECT_EQ(encoded.Authority(), "localhost");
}

TEST(ParseUrl, RefusesWhatCannotBeSent) {
  for (const std::string_view text :
       {"", "127.0.0.1:8080", "ftp://h/", "http://", "http://:80", "http://h:0", "http://h:65536",
        "http://h:x", "http://h:+1", "http://h/a b", "http://h/\r\nX: y", "http://h#f",
        "unix:relative", "unix:", "http+unix://%2", "http+unix://%00", "http://a b/"}) {
    EXPECT_FALSE(ParseUrl(text).ok()) << text;
  }
}

TEST(ParseUrl, RefusesCredentialsWithoutRepeatingThem) {
  const Result<Url> url = ParseUrl("http://me:hunter2@h/");
  ASSERT_FALSE(url.ok());
  EXPECT_EQ(url.error().code(), ErrorCode::kUsage);
  EXPECT_EQ(url.error().message().find("hunter2"), std::string::npos);
}

TEST(ParseUrl, RefusesASocketPathThatTheKernelWouldCut) {
  EXPECT_TRUE(ParseUrl("unix:/" + std::string(106, 'x')).ok());
  EXPECT_FALSE(ParseUrl("unix:/" + std::string(107, 'x')).ok());
}

}  // namespace
}  // namespace rouse::wire
