// Files of earlier formats are brought up to date when they are opened.
#include "results/schema.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "results/sqlite.h"
#include "results/store.h"

namespace rouse::results {
namespace {

class SchemaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "rouse_schema_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }

 private:
  std::string directory_;
};

TEST_F(SchemaTest, BringsAFileOfEveryEarlierFormatUpToDateAndReadsIt) {
  // Files that called themselves version 3 may have the tables of version 4.
  for (const auto& [version, tables] : {std::pair<size_t, size_t>{1, 1}, {2, 2}, {3, 3}, {3, 4}}) {
    SCOPED_TRACE(std::to_string(version) + " with the tables of " + std::to_string(tables));
    const std::string path =
        PathOf(std::to_string(version) + "-" + std::to_string(tables) + ".sqlite");
    {
      auto database = Database::Open(path, true, false);
      ASSERT_TRUE(database.ok());
      for (size_t i = 0; i < tables; ++i) {
        ASSERT_TRUE((*database)->Execute(std::string(Migrations()[i])).ok());
      }
      const std::string later = tables == 1 ? "" : ", NULL";  // require_ttft_ns
      ASSERT_TRUE((*database)
                      ->Execute("INSERT INTO runs VALUES (1, 'old', 'measure', 'complete', '0', 0, "
                                "NULL, '7', '', '', 'builtin', 'm'" +
                                later + "); PRAGMA application_id = 0x726f7573; " +
                                "PRAGMA user_version = " + std::to_string(version) + ";")
                      .ok());
    }
    Result<Store> store = Store::Open(path, OpenMode::kReadOnly);
    ASSERT_TRUE(store.ok()) << store.error().message();
    const auto run = store->LoadRun(1);
    ASSERT_TRUE(run.ok()) << run.error().message();
    EXPECT_EQ(run->name, "old");
    EXPECT_FALSE(run->require_ttft_ns.has_value());
    EXPECT_FALSE(store->LoadProgress(1)->has_value());
    EXPECT_TRUE(run->verification.empty());
    EXPECT_TRUE(store->LoadAttempts(1)->empty());
  }
}

}  // namespace
}  // namespace rouse::results
