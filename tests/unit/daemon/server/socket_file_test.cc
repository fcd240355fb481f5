// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/socket_file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "protos/os/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace msitd::server {
namespace {

UniqueFd Bind(const std::string& path, bool listen) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  EXPECT_EQ(
      ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  if (listen) {
    EXPECT_EQ(::listen(fd.get(), 1), 0);
  }
  return fd;
}

TEST(SocketFileTest, DirectoryIsMade) {
  testing::TempDir directory;
  EXPECT_TRUE(PrepareSocketFile(directory / "run/s.sock", SOCK_STREAM).ok());
  EXPECT_TRUE(std::filesystem::is_directory(directory / "run"));
  EXPECT_FALSE(
      PrepareSocketFile(directory / "no/such/s.sock", SOCK_STREAM).ok());
}

TEST(SocketFileTest, StaleSocketIsRemoved) {
  testing::TempDir directory;
  const std::string path = directory / "s.sock";
  Bind(path, /*listen=*/true).reset();
  ASSERT_TRUE(std::filesystem::exists(path));
  EXPECT_TRUE(PrepareSocketFile(path, SOCK_STREAM).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SocketFileTest, SocketInUseIsKept) {
  testing::TempDir directory;
  const std::string path = directory / "s.sock";
  const UniqueFd listener = Bind(path, /*listen=*/true);
  EXPECT_EQ(PrepareSocketFile(path, SOCK_STREAM).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(SocketFileTest, OtherFilesAreKept) {
  testing::TempDir directory;
  const std::string path = directory / "s.sock";
  std::ofstream(path) << "precious";
  EXPECT_EQ(PrepareSocketFile(path, SOCK_STREAM).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(SocketFileTest, FileIsReplacedWhole) {
  testing::TempDir directory;
  const std::string path = directory / "endpoint";
  ASSERT_TRUE(ReplaceFile(path, "a longer text\n").ok());
  ASSERT_TRUE(ReplaceFile(path, "short\n").ok());
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, "short\n");
}

TEST(SocketFileTest, LinksAreReplacedAndNotFollowed) {
  testing::TempDir directory;
  const std::string path = directory / "endpoint";
  const std::string victim = directory / "victim";
  std::ofstream(victim) << "precious";
  std::filesystem::create_symlink(victim, path + ".next");
  std::filesystem::create_symlink(victim, path);
  ASSERT_TRUE(ReplaceFile(path, "mine\n").ok());
  EXPECT_TRUE(
      std::filesystem::is_regular_file(std::filesystem::symlink_status(path)));
  EXPECT_EQ(std::filesystem::file_size(path), 5u);
  EXPECT_EQ(std::filesystem::file_size(victim), 8u);
}

TEST(SocketFileTest, PipeInTheWayOfAFileHoldsNothingUp) {
  testing::TempDir directory;
  const std::string path = directory / "endpoint";
  ASSERT_EQ(::mkfifo((path + ".next").c_str(), 0600), 0);
  ASSERT_TRUE(ReplaceFile(path, "mine\n").ok());
  EXPECT_EQ(std::filesystem::file_size(path), 5u);
}

}  // namespace
}  // namespace msitd::server
