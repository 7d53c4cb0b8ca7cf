#include "server/api_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace rouse::server {
namespace {

using ::testing::HasSubstr;

class ApiKeyFileTest : public ::testing::Test {
 protected:
  void Write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_) << text;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
  }
  void TearDown() override { ::unlink(path_.c_str()); }
  const std::string path_ = ::testing::TempDir() + "api_key_" + std::to_string(::getpid());
};

TEST_F(ApiKeyFileTest, HoldsTheKeyInItsFirstLine) {
  Write("  secret \r\nmore\n");
  EXPECT_EQ(*ReadApiKeyFile(path_), "secret");
}

TEST_F(ApiKeyFileTest, IsRefusedWhenEmptyMissingOrReadableByOthers) {
  Write("\n");
  EXPECT_EQ(ReadApiKeyFile(path_).error().code(), ErrorCode::kUsage);
  Write("secret", 0644);
  const auto readable = ReadApiKeyFile(path_);
  ASSERT_FALSE(readable.ok());
  EXPECT_THAT(readable.error().message(), HasSubstr("chmod 600"));
  ::unlink(path_.c_str());
  EXPECT_EQ(ReadApiKeyFile(path_).error().code(), ErrorCode::kNotFound);
}

bool Carries(const std::string& name, const std::string& value) {
  http::Request request;
  request.headers = {{name, value}};
  return CarriesKey(request, "secret");
}

TEST(CarriesKey, TakesABearerTokenOrAKeyHeader) {
  EXPECT_TRUE(Carries("Authorization", "Bearer secret"));
  EXPECT_TRUE(Carries("authorization", "bearer  secret"));
  EXPECT_TRUE(Carries("x-api-key", "secret"));
}

TEST(CarriesKey, TakesNothingElse) {
  for (const std::string wrong :
       {"", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Bearer Secret",
        "Bearer secretsecret", "Basic secret", "secret"}) {
    EXPECT_FALSE(Carries("Authorization", wrong)) << wrong;
  }
  EXPECT_FALSE(CarriesKey({}, "secret"));
}

}  // namespace
}  // namespace rouse::server
