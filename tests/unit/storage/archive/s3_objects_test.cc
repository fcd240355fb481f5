// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/s3_objects.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <thread>

#include "protos/status/status.h"
#include "tests/unit/storage/archive/s3_test_server.h"

namespace msitd::storage {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Request = S3TestServer::Request;
using Reply = S3TestServer::Reply;
using Clock = std::chrono::steady_clock;

constexpr char kAccessKey[] = "AKIDTEST";
constexpr char kSecretKey[] = "hunter2hunter2";

std::string HmacOf(const std::string& key, const std::string& text) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), out,
       &size);
  return {reinterpret_cast<char*>(out), size};
}

std::string HexOf(const std::string& bytes) {
  std::string out;
  for (const unsigned char c : bytes) out += fmt::format("{:02x}", c);
  return out;
}

std::string HashHex(const std::string& text) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), out, &size, EVP_sha256(), nullptr);
  return HexOf({reinterpret_cast<char*>(out), size});
}

std::string Between(const std::string& text, const std::string& open,
                    const std::string& close) {
  const size_t begin = text.find(open);
  if (begin == std::string::npos) return "";
  const size_t from = begin + open.size();
  return text.substr(from, text.find(close, from) - from);
}

// Computes the signature of a request as a server does, implemented from the
// specification of AWS Signature Version 4.
std::string SignatureOf(const Request& request) {
  const std::string given = request.headers.at("authorization");
  const std::string names = Between(given, "SignedHeaders=", ",");
  std::string canonical =
      fmt::format("{}\n{}\n{}\n", request.method, request.path, request.query);
  for (size_t begin = 0; begin < names.size();) {
    const size_t end = std::min(names.find(';', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    canonical += fmt::format("{}:{}\n", name, request.headers.at(name));
    begin = end + 1;
  }
  canonical += fmt::format("\n{}\n{}", names,
                           request.headers.at("x-amz-content-sha256"));
  const std::string time = request.headers.at("x-amz-date");
  const std::string day = time.substr(0, 8);
  const std::string text =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}/us-east-1/s3/aws4_request\n{}",
                  time, day, HashHex(canonical));
  std::string key = std::string("AWS4") + kSecretKey;
  for (const std::string& part :
       {day, std::string("us-east-1"), std::string("s3"),
        std::string("aws4_request")}) {
    key = HmacOf(key, part);
  }
  return HexOf(HmacOf(key, text));
}

class S3ObjectsTest : public ::testing::Test {
 protected:
  void Serve(std::function<Reply(const Request&, size_t)> answer) {
    server_.emplace(std::move(answer));
    options_.endpoint = server_->endpoint();
    options_.credentials = {kAccessKey, kSecretKey};
    options_.first_wait = std::chrono::milliseconds(1);
    objects_ = *OpenS3Objects(options_, MakeS3Connections(), "bucket", "pre");
  }

  // Returns the replies one after the other, and then the last one repeatedly.
  void ServeAll(std::vector<Reply> replies) {
    Serve([replies](const Request&, size_t number) {
      return replies[std::min(number, replies.size() - 1)];
    });
  }

  size_t request_count() { return server_->requests().size(); }

  std::optional<S3TestServer> server_;
  S3Options options_;
  std::unique_ptr<ObjectStore> objects_;
};

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST_F(S3ObjectsTest, SignsWhatAServerWouldSign) {
  Serve([](const Request& request, size_t) {
    if (request.method == "GET" && !request.query.empty()) {
      const bool is_second = request.query.starts_with("continuation");
      return S3TestServer::Answer(
          200, is_second
                   ? "<ListBucketResult></ListBucketResult>"
                   : "<ListBucketResult><IsTruncated>true</IsTruncated>"
                     "<NextContinuationToken>a+b/c=&amp; "
                     "\xc3\xa9</NextContinuationToken></ListBucketResult>");
    }
    return S3TestServer::Answer(200, "body");
  });
  ASSERT_TRUE(objects_->List("run_x20name").ok());
  ASSERT_TRUE(objects_->Get("run/manifest", 100).ok());
  ASSERT_TRUE(objects_->Put("run/pack-1", BytesOf("bytes")).ok());
  ASSERT_TRUE(objects_->PutIfAbsent("run/manifest", BytesOf("m")).ok());
  ASSERT_TRUE(objects_->Stat("run/pack-1").ok());
  ASSERT_TRUE(objects_->Delete("run/pack-1").ok());
  const std::vector<Request> requests = server_->requests();
  ASSERT_EQ(requests.size(), 7u);
  for (const Request& request : requests) {
    EXPECT_THAT(request.path, StartsWith("/bucket"));
    EXPECT_EQ(request.headers.at("x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
    const std::string given = request.headers.at("authorization");
    EXPECT_THAT(given, AllOf(HasSubstr("AWS4-HMAC-SHA256"),
                             HasSubstr(kAccessKey), Not(HasSubstr(kSecretKey)),
                             HasSubstr("x-amz-content-sha256")));
    EXPECT_EQ(given.substr(given.find("Signature=") + 10), SignatureOf(request))
        << request.method << " " << request.path << "?" << request.query;
  }
  EXPECT_EQ(requests[0].query,
            "delimiter=%2F&list-type=2&prefix=pre%2Frun_x20name%2F");
  // The parameters are sorted and escaped as specified.
  EXPECT_EQ(requests[1].query,
            "continuation-token=a%2Bb%2Fc%3D%26%20%C3%A9&delimiter=%2F&"
            "list-type=2&prefix=pre%2Frun_x20name%2F");
  EXPECT_EQ(requests[3].body, "bytes");
  EXPECT_FALSE(requests[3].headers.contains("if-none-match"));
  EXPECT_EQ(requests[4].headers.at("if-none-match"), "*");
}

TEST_F(S3ObjectsTest, WithoutAKeyNothingIsSigned) {
  Serve([](const Request&, size_t) { return S3TestServer::Answer(200, "x"); });
  options_.credentials = {};
  objects_ = *OpenS3Objects(options_, MakeS3Connections(), "bucket", "");
  EXPECT_EQ(*objects_->Get("key", 10), "x");
  EXPECT_EQ(server_->requests()[0].path, "/bucket/key");
  EXPECT_FALSE(server_->requests()[0].headers.contains("authorization"));
}

TEST_F(S3ObjectsTest, ReadsARange) {
  Serve(
      [](const Request&, size_t) { return S3TestServer::Answer(206, "cde"); });
  std::string out(3, ' ');
  ASSERT_TRUE(
      objects_->Read("key", 2, std::as_writable_bytes(std::span(out))).ok());
  EXPECT_EQ(out, "cde");
  EXPECT_EQ(server_->requests()[0].headers.at("range"), "bytes=2-4");
}

TEST_F(S3ObjectsTest, WhatMayPassIsTriedAgain) {
  Reply cut{.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
            .closes = true};
  Reply garbage{.bytes = "no HTTP at all\r\n\r\n", .closes = true};
  ServeAll({S3TestServer::Answer(500), S3TestServer::Answer(503), cut, garbage,
            S3TestServer::Answer(429), S3TestServer::Answer(200, "whole")});
  const auto got = objects_->Get("key", 100);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(*got, "whole");
  EXPECT_EQ(request_count(), 6u);
}

TEST_F(S3ObjectsTest, ACutRangeIsReadAnew) {
  ServeAll({{.bytes = "HTTP/1.1 206 OK\r\nContent-Length: 4\r\n\r\nxx",
             .closes = true},
            S3TestServer::Answer(206, "abcd")});
  std::string out(4, ' ');
  ASSERT_TRUE(
      objects_->Read("key", 0, std::as_writable_bytes(std::span(out))).ok());
  EXPECT_EQ(out, "abcd");
}

TEST_F(S3ObjectsTest, TheBodyOfAPutIsSentAgain) {
  ServeAll({S3TestServer::Answer(503), S3TestServer::Answer(200)});
  const std::string bytes(3 << 20, 'x');
  ASSERT_TRUE(objects_->Put("key", BytesOf(bytes)).ok());
  for (const Request& request : server_->requests()) {
    EXPECT_EQ(request.body, bytes);
  }
}

TEST_F(S3ObjectsTest, WhatOnlyFailsIsGivenUp) {
  ServeAll({S3TestServer::Answer(503)});
  const auto got = objects_->Get("key", 100);
  EXPECT_EQ(got.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(got.status().message()),
              AllOf(HasSubstr("after 6 attempts"), HasSubstr("503"),
                    HasSubstr("s3://bucket/pre/key")));
  EXPECT_EQ(request_count(), 6u);
}

struct CodeCase {
  int code;
  std::string body;
  absl::StatusCode expected;
  std::string said;
};

TEST_F(S3ObjectsTest, WhatStaysIsSaidAtOnce) {
  const std::vector<CodeCase> cases = {
      {404, "", absl::StatusCode::kNotFound, "404"},
      {404, "<Error><Code>NoSuchBucket</Code></Error>",
       absl::StatusCode::kNotFound, "no bucket 'bucket'"},
      {403, "<Error><Code>SignatureDoesNotMatch</Code></Error>",
       absl::StatusCode::kPermissionDenied, "bucket 'bucket'"},
      {412, "", absl::StatusCode::kAlreadyExists, "412"},
      {416, "", absl::StatusCode::kDataLoss, "too short"},
      {501, "", absl::StatusCode::kUnimplemented, "lacks"},
      {507, "", absl::StatusCode::kResourceExhausted, "full"},
      {400, "", absl::StatusCode::kUnavailable, "400"},
  };
  for (const CodeCase& one : cases) {
    ServeAll({S3TestServer::Answer(one.code, one.body)});
    const auto got = objects_->Get("key", 100);
    EXPECT_EQ(got.status().code(), one.expected) << one.code;
    EXPECT_THAT(std::string(got.status().message()), HasSubstr(one.said));
    EXPECT_THAT(std::string(got.status().message()),
                AllOf(Not(HasSubstr(kAccessKey)), Not(HasSubstr(kSecretKey))));
    EXPECT_EQ(request_count(), 1u) << one.code;
  }
}

TEST_F(S3ObjectsTest, NobodyIsFollowedElsewhere) {
  S3TestServer other(
      [](const Request&, size_t) { return S3TestServer::Answer(200, "x"); });
  for (const int code : {301, 302, 307, 308}) {
    ServeAll({S3TestServer::Answer(
        code, "",
        fmt::format("Location: {}/bucket/pre/key\r\n", other.endpoint()))});
    const auto got = objects_->Get("key", 100);
    EXPECT_EQ(got.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(got.status().message()),
                AllOf(HasSubstr(fmt::format("{}", code)), HasSubstr("region")));
  }
  EXPECT_TRUE(other.requests().empty());
}

TEST_F(S3ObjectsTest, AnswersThatAreTooLongAreNotTaken) {
  ServeAll({S3TestServer::Answer(200, std::string(101, 'x'))});
  EXPECT_EQ(objects_->Get("key", 100).status().code(),
            absl::StatusCode::kDataLoss);
  std::string out(3, ' ');
  const auto bytes = std::as_writable_bytes(std::span(out));
  // A server that ignores ranges, and one that returns too many bytes.
  EXPECT_EQ(objects_->Read("key", 0, bytes).code(),
            absl::StatusCode::kDataLoss);
  ServeAll({S3TestServer::Answer(206, "abcd")});
  EXPECT_EQ(objects_->Read("key", 0, bytes).code(),
            absl::StatusCode::kDataLoss);
  // Responses that are too short are rejected, too.
  ServeAll({S3TestServer::Answer(206, "ab")});
  EXPECT_EQ(objects_->Read("key", 0, bytes).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(S3ObjectsTest, ASlowAnswerIsWaitedFor) {
  Reply slow = S3TestServer::Answer(200, "slow but whole");
  slow.pause = std::chrono::milliseconds(2);
  ServeAll({slow});
  EXPECT_EQ(*objects_->Get("key", 100), "slow but whole");
}

TEST_F(S3ObjectsTest, NoProgressIsNoConnection) {
  options_.stall_timeout = std::chrono::seconds(1);
  options_.attempts_max = 2;
  Reply trickle = S3TestServer::Answer(200, std::string(10'000, 'x'));
  trickle.pause = std::chrono::milliseconds(100);
  for (const Reply& reply : {Reply{.hangs = true}, trickle}) {
    ServeAll({reply});
    const auto begin = Clock::now();
    const auto got = objects_->Get("key", 1 << 20);
    EXPECT_EQ(got.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(got.status().message()),
                HasSubstr("after 2 attempts"));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(12));
  }
}

TEST_F(S3ObjectsTest, WhoIsGoneWaitsNoLonger) {
  std::atomic<bool> is_gone = false;
  options_.wait = [&]() -> absl::Status {
    return is_gone ? absl::CancelledError("the caller is gone")
                   : absl::OkStatus();
  };
  Reply trickle = S3TestServer::Answer(200, std::string(10'000, 'x'));
  trickle.pause = std::chrono::milliseconds(100);
  const Reply refusal = S3TestServer::Answer(503);
  for (const Reply& reply : {Reply{.hangs = true}, trickle, refusal}) {
    is_gone = false;
    options_.first_wait = std::chrono::milliseconds(5000);
    ServeAll({reply});
    options_.first_wait = std::chrono::milliseconds(5000);
    objects_ = *OpenS3Objects(options_, MakeS3Connections(), "bucket", "pre");
    std::thread leaver([&] {
      while (request_count() == 0) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      is_gone = true;
    });
    const auto begin = Clock::now();
    const auto got = objects_->Get("key", 1 << 20);
    leaver.join();
    EXPECT_EQ(got.status().code(), absl::StatusCode::kCancelled);
    EXPECT_THAT(std::string(got.status().message()),
                HasSubstr("s3://bucket/pre/key"));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(3));
  }
}

TEST_F(S3ObjectsTest, AStopEndsWhatWaits) {
  std::atomic<bool> stops = false;
  options_.stops = &stops;
  ServeAll({Reply{.hangs = true}});
  std::thread stopper([&] {
    while (request_count() == 0) std::this_thread::yield();
    stops = true;
  });
  const auto begin = Clock::now();
  EXPECT_EQ(objects_->Put("key", BytesOf("x")).code(),
            absl::StatusCode::kCancelled);
  stopper.join();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(3));
}

}  // namespace
}  // namespace msitd::storage
