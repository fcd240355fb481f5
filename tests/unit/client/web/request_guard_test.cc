// SPDX-License-Identifier: Apache-2.0
#include "client/web/request_guard.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace msitd::web {
namespace {

constexpr char kToken[] = "00112233445566778899aabbccddeeff";

RequestGuard MakeGuard() { return RequestGuard(kToken, {"Jupyter.Example"}); }

HttpRequest PageRequest(const std::string& host) {
  HttpRequest request;
  request.method = "GET";
  request.target = "/";
  request.host = host;
  return request;
}

HttpRequest ApiRequest() {
  HttpRequest request;
  request.method = "POST";
  request.target = "/api/v1/RunService.ListRuns";
  request.host = "127.0.0.1:7742";
  request.authorization = std::string("Bearer ") + kToken;
  request.content_type = "application/json";
  return request;
}

int StatusOf(const std::optional<Refusal>& refusal) {
  return refusal.has_value() ? refusal->status : 0;
}

TEST(RequestGuardTest, AdmitsItsHostsWithAnyPort) {
  const RequestGuard guard = MakeGuard();
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:80", "localhost:7742", "LocalHost", "[::1]",
        "[::1]:7742", "jupyter.example", "jupyter.example:443"}) {
    EXPECT_EQ(StatusOf(guard.CheckPage(PageRequest(host))), 0) << host;
  }
}

TEST(RequestGuardTest, RefusesNamesThatResolveToThisMachine) {
  const RequestGuard guard = MakeGuard();
  for (const char* host :
       {"", "evil.example", "evil.example:7742", "localhost.evil.example",
        "127.0.0.1.evil.example", "127.0.0.2", "::1", "[::1].evil.example",
        "evil.example:127.0.0.1", "localhost:80:evil", "localhost@evil",
        " localhost", "[::1]x:1"}) {
    EXPECT_EQ(StatusOf(guard.CheckPage(PageRequest(host))), 421) << host;
    HttpRequest call = ApiRequest();
    call.host = host;
    EXPECT_EQ(StatusOf(guard.CheckCall(call)), 421) << host;
  }
}

TEST(RequestGuardTest, AdmitsCallsOfItsPageAndOfPrograms) {
  const RequestGuard guard = MakeGuard();
  HttpRequest call = ApiRequest();
  EXPECT_EQ(StatusOf(guard.CheckCall(call)), 0);
  call.origin = "http://127.0.0.1:7742";
  call.fetch_site = "same-origin";
  EXPECT_EQ(StatusOf(guard.CheckCall(call)), 0);
  call.host = "jupyter.example";
  call.origin = "https://jupyter.example";
  EXPECT_EQ(StatusOf(guard.CheckCall(call)), 0);
}

TEST(RequestGuardTest, RefusesCallsOfOtherPages) {
  const RequestGuard guard = MakeGuard();
  for (const char* origin :
       {"http://evil.example", "null", "http://127.0.0.1:8000",
        "http://localhost:7742", "ftp://127.0.0.1:7742", "127.0.0.1:7742",
        "http://127.0.0.1:7742.evil.example"}) {
    HttpRequest call = ApiRequest();
    call.origin = origin;
    EXPECT_EQ(StatusOf(guard.CheckCall(call)), 403) << origin;
  }
  for (const char* site : {"cross-site", "same-site", "none", "?"}) {
    HttpRequest call = ApiRequest();
    call.fetch_site = site;
    EXPECT_EQ(StatusOf(guard.CheckCall(call)), 403) << site;
  }
}

TEST(RequestGuardTest, RefusesWrongTokens) {
  const RequestGuard guard = MakeGuard();
  for (const std::string& authorization :
       {std::string(), std::string("Bearer "), std::string(kToken),
        std::string("bearer ") + kToken, std::string("Bearer ") + kToken + "0",
        std::string("Bearer 00112233445566778899aabbccddeefe"),
        std::string("Basic ") + kToken}) {
    HttpRequest call = ApiRequest();
    call.authorization = authorization;
    EXPECT_EQ(StatusOf(guard.CheckCall(call)), 401) << authorization;
  }
}

TEST(RequestGuardTest, RefusesOtherMethodsAndTypes) {
  const RequestGuard guard = MakeGuard();
  for (const char* method : {"GET", "HEAD", "PUT", "OPTIONS", "post", ""}) {
    HttpRequest call = ApiRequest();
    call.method = method;
    EXPECT_EQ(StatusOf(guard.CheckCall(call)), 405) << method;
  }
  HttpRequest page = PageRequest("localhost");
  page.method = "POST";
  EXPECT_EQ(StatusOf(guard.CheckPage(page)), 405);
  // A form of another page can send these without asking first.
  for (const char* type :
       {"", "text/plain", "application/x-www-form-urlencoded",
        "multipart/form-data", "text/plain; application/json"}) {
    HttpRequest call = ApiRequest();
    call.content_type = type;
    EXPECT_EQ(StatusOf(guard.CheckCall(call)), 415) << type;
  }
}

TEST(RequestGuardTest, TokensAreRandomHexadecimalDigits) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) tokens.insert(NewToken());
  EXPECT_EQ(tokens.size(), 100u);
  for (const std::string& token : tokens) {
    EXPECT_EQ(token.size(), 32u);
    EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos);
  }
}

}  // namespace
}  // namespace msitd::web
