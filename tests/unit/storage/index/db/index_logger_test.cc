// SPDX-License-Identifier: Apache-2.0
#include "storage/index/db/index_logger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

#include "storage/index/db/index_db.h"
#include "tests/support/temp_dir.h"

namespace msitd::storage {
namespace {

using ::msitd::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;

// Captures the output of the logger "storage".
class IndexLoggerTest : public ::testing::Test {
 protected:
  IndexLoggerTest() {
    auto logger = std::make_shared<spdlog::logger>(
        "storage", std::make_shared<spdlog::sinks::ostream_sink_st>(lines_));
    logger->set_level(spdlog::level::debug);
    spdlog::register_logger(std::move(logger));
  }
  ~IndexLoggerTest() override { spdlog::drop("storage"); }

  std::ostringstream lines_;
};

TEST_F(IndexLoggerTest, WarningsAndErrorsGoToTheLogOfTheStorage) {
  const std::shared_ptr<rocksdb::Logger> logger = MakeIndexLogger();
  rocksdb::Header(logger, "all %d options", 300);
  rocksdb::Info(logger, "compacted");
  rocksdb::Warn(logger, "background\nerror %s\n", "no space");
  rocksdb::Error(logger, "%s", std::string(100'000, 'x').c_str());
  EXPECT_THAT(lines_.str(), HasSubstr("[debug] index: background error no "
                                      "space"));
  EXPECT_THAT(lines_.str(), HasSubstr("[error] index: xxx"));
  EXPECT_THAT(lines_.str(), Not(HasSubstr("options")));
  EXPECT_THAT(lines_.str(), Not(HasSubstr("compacted")));
  EXPECT_LT(lines_.str().size(), 2'000u);
}

TEST_F(IndexLoggerTest, DatabaseKeepsNoLogOfItsOwn) {
  const TempDir dir;
  const std::string directory = dir / "index";
  for (const bool read_only : {false, false, true}) {
    const auto db =
        IndexDb::Open({.directory = directory, .read_only = read_only});
    ASSERT_TRUE(db.ok()) << db.status();
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      EXPECT_FALSE(entry.path().filename().string().starts_with("LOG"))
          << entry.path();
    }
  }
}

}  // namespace
}  // namespace msitd::storage
