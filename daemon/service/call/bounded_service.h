// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/descriptor.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <string>
#include <utility>

#include "daemon/access/method_rules.h"
#include "daemon/service/call/admission.h"
#include "daemon/service/call/first_reads.h"
#include "daemon/service/call/request_call.h"
#include "protos/base/check.h"
#include "protos/base/daemon_id.h"

// By default gRPC has a single size limit for the messages of all methods,
// which must be the size of a chunk. It reads as many requests at a time as
// there are calls, and parses each one as soon as it arrives. With the class
// below each method has its own limit, few requests are read at a time, and
// each request is parsed when its call runs. The wire format does not change.
namespace msitd::service {

// Base class of a service of `Api`, such as v1::RunService. Its constructor
// must call Bound() for each of its methods. A call proceeds only as far as its
// rule allows; see access/method_rules.h.
template <typename Api>
class BoundedService : public Api::CallbackService {
 protected:
  explicit BoundedService(const Admission& admission) : admission_(admission) {}

  // `method` returns a UnaryCall. The request and the response are empty until
  // that call runs.
  template <typename Self, typename Request, typename Response>
  void Bound(const std::string& name,
             grpc::ServerUnaryReactor* (Self::*method)(
                 grpc::CallbackServerContext*, const Request*, Response*),
             size_t request_bytes_max = kRequestBytesMax) {
    const auto make = [self = static_cast<Self*>(this), method](
                          grpc::CallbackServerContext* context,
                          const Request* request, Response* response) {
      return (self->*method)(context, request, response);
    };
    Handle(name, [this, make, request_bytes_max](
                     grpc::CallbackServerContext* context, CallPass pass) {
      return new UnaryRequestCall<Request, Response, decltype(make)>(
          admission_.reads, *context, std::move(pass), request_bytes_max, make);
    });
  }

  // `method` returns an UploadCall, which reads its messages itself.
  template <typename Self>
  void Bound(const std::string& name,
             grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* (
                 Self::*method)(grpc::CallbackServerContext&, FirstReads&,
                                CallPass)) {
    Handle(name, [this, self = static_cast<Self*>(this), method](
                     grpc::CallbackServerContext* context, CallPass pass) {
      return (self->*method)(*context, admission_.reads, std::move(pass));
    });
  }

  // `method` must copy everything that it needs from the request.
  template <typename Self, typename Request, typename Response>
  void Bound(const std::string& name,
             grpc::ServerWriteReactor<Response>* (Self::*method)(
                 grpc::CallbackServerContext*, const Request*)) {
    const auto make = [self = static_cast<Self*>(this), method](
                          grpc::CallbackServerContext* context,
                          const Request* request) {
      return (self->*method)(context, request);
    };
    Handle(name,
           [this, make](grpc::CallbackServerContext* context, CallPass pass) {
             return new StreamRequestCall<Request, Response, decltype(make)>(
                 admission_.reads, *context, std::move(pass), make);
           });
  }

 private:
  using Handler =
      grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>;

  template <typename Make>
  void Handle(const std::string& name, Make make) {
    const auto* method =
        google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
            std::string(Api::service_full_name()) + "." + name);
    MSITD_CHECK(method != nullptr);
    const access::MethodRule& rule =
        access::RuleOf(method->service()->name(), name);
    const auto enter = [this, make, &rule](grpc::CallbackServerContext* context)
        -> grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* {
      CallPass pass(admission_.gatekeeper, rule, *context);
      if (const absl::Status status = pass.Enter(); !status.ok()) {
        return new RefusedCall(status);
      }
      context->AddInitialMetadata(kDaemonIdKey, admission_.daemon_id);
      return make(context, std::move(pass));
    };
    // For a method marked as streamed, gRPC reads no message by itself.
    this->MarkMethodStreamed(method->index(), nullptr);
    this->MarkMethodRawCallback(method->index(), new Handler(enter));
  }

  const Admission admission_;
};

}  // namespace msitd::service
