// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/shm/local_endpoint.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "protos/os/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace msitd::libmsit {
namespace {

class LocalEndpointTest : public ::testing::Test {
 protected:
  void MakeSocket(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = directory_ / name;
    std::memcpy(address.sun_path, path.data(), path.size());
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                     sizeof(address)),
              0);
  }

  std::string IngestSocketOf(const std::string& endpoint) {
    const auto local = ParseLocalEndpoint(endpoint);
    EXPECT_TRUE(local.has_value()) << endpoint;
    return local ? local->ingest_socket : "";
  }
  std::string GrpcTargetOf(const std::string& endpoint) {
    const auto local = ParseLocalEndpoint(endpoint);
    EXPECT_TRUE(local.has_value()) << endpoint;
    return local ? local->grpc_target : "";
  }

  testing::TempDir directory_;
  const std::string path_ = directory_.path();
  const std::string ingest_ = path_ + "/ingest.sock";
};

TEST_F(LocalEndpointTest, FolderOfADaemonThatSharesMemory) {
  MakeSocket("ingest.sock");
  MakeSocket("msitd.sock");
  for (const std::string& endpoint :
       {path_, path_ + "/", "unix:" + path_, "unix://" + path_}) {
    EXPECT_EQ(IngestSocketOf(endpoint), ingest_) << endpoint;
  }
}

TEST_F(LocalEndpointTest, EitherSocketOfADaemonThatSharesMemory) {
  MakeSocket("ingest.sock");
  MakeSocket("msitd.sock");
  EXPECT_EQ(IngestSocketOf("unix:" + path_ + "/msitd.sock"), ingest_);
  EXPECT_EQ(IngestSocketOf("unix:" + ingest_), ingest_);
  EXPECT_EQ(IngestSocketOf(ingest_), ingest_);
}

TEST_F(LocalEndpointTest, DaemonThatSharesNoMemory) {
  MakeSocket("msitd.sock");
  const std::string target = "unix:" + path_ + "/msitd.sock";
  for (const std::string& endpoint : {path_, target}) {
    EXPECT_EQ(IngestSocketOf(endpoint), "") << endpoint;
    EXPECT_EQ(GrpcTargetOf(endpoint), target) << endpoint;
  }
}

TEST_F(LocalEndpointTest, DaemonThatIsNotUpYet) {
  EXPECT_EQ(IngestSocketOf(path_), ingest_);
  EXPECT_EQ(IngestSocketOf(path_ + "/no/such"), path_ + "/no/such/ingest.sock");
  EXPECT_EQ(IngestSocketOf(ingest_), ingest_);
  EXPECT_EQ(IngestSocketOf("unix:" + path_ + "/msitd.sock"), "");
}

TEST_F(LocalEndpointTest, SocketOfAnotherNameIsForGrpc) {
  MakeSocket("ingest.sock");
  const std::string other = "unix:" + path_ + "/other.sock";
  EXPECT_EQ(IngestSocketOf(other), "");
  EXPECT_EQ(GrpcTargetOf(other), other);
}

TEST_F(LocalEndpointTest, EverythingElseIsNotLocal) {
  for (const char* endpoint :
       {"127.0.0.1:7741", "dns:///name:1", "name:1", "", "unix:", "file"}) {
    EXPECT_FALSE(ParseLocalEndpoint(endpoint).has_value()) << endpoint;
  }
}

}  // namespace
}  // namespace msitd::libmsit
