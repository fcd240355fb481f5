// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/caller_stamp.h"

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"

namespace msitd::service {
namespace {

using SharedIdentify = std::shared_ptr<const CallerStamp::Identify>;

// The stamps that exist. A process has one for each listener.
class Stamps {
 public:
  // Never destroyed, because gRPC may destroy stamps at the end of the process.
  static Stamps& OfProcess() {
    static auto* const stamps = new Stamps();
    return *stamps;
  }

  std::string Add(CallerStamp::Identify identify) {
    auto shared =
        std::make_shared<const CallerStamp::Identify>(std::move(identify));
    MutexLock lock(mu_);
    std::string id = std::to_string(++last_id_);
    stamps_.emplace(id, std::move(shared));
    return id;
  }

  void Remove(const std::string& id) {
    MutexLock lock(mu_);
    stamps_.erase(id);
  }

  // Returns null if there is no such stamp.
  SharedIdentify Find(std::string_view id) {
    MutexLock lock(mu_);
    const auto it = stamps_.find(id);
    return it == stamps_.end() ? nullptr : it->second;
  }

 private:
  Mutex mu_;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, SharedIdentify, std::less<>> stamps_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace

CallerStamp::CallerStamp(Identify identify)
    : id_(Stamps::OfProcess().Add(std::move(identify))) {}

CallerStamp::~CallerStamp() { Stamps::OfProcess().Remove(id_); }

grpc::Status CallerStamp::Process(const InputMetadata& /*metadata*/,
                                  grpc::AuthContext* connection,
                                  OutputMetadata* /*consumed*/,
                                  OutputMetadata* /*response*/) {
  MutexLock lock(mu_);
  if (connection->FindPropertyValues(kStampProperty).empty()) {
    connection->AddProperty(kStampProperty, id_);
  }
  return grpc::Status::OK;
}

access::Caller CallerOf(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> connection =
      context.auth_context();
  if (connection == nullptr) return {};
  const std::vector<grpc::string_ref> found =
      connection->FindPropertyValues(kStampProperty);
  if (found.size() != 1) return {};
  const SharedIdentify identify =
      Stamps::OfProcess().Find({found.front().data(), found.front().size()});
  return identify == nullptr ? access::Caller() : (*identify)(*connection);
}

}  // namespace msitd::service
