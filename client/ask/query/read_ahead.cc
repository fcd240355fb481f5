// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/read_ahead.h"

#include <utility>

#include "client/ask/query/connection.h"
#include "protos/status/status.h"

namespace msitd::ask {

// One call of ReadTensors, for a range of the expected tensors.
class ReadAhead::Stream {
 public:
  // Requests the tensors from `begin` on. Borrows all arguments.
  Stream(Connection& connection, const std::vector<WantedBytes>& expected,
         size_t begin)
      : begin_(begin), hold_(connection.interrupts(), &context_) {
    size_t bytes = 0;
    for (size_t i = begin; i < expected.size(); ++i) {
      const std::string& name = expected[i].name;
      bytes += name.size();
      if (i > begin &&
          (i - begin == kStreamNamesMax || bytes > kStreamNameBytesMax)) {
        break;
      }
      request_.add_names(name);
    }
    next_ = begin;
    end_ = begin + static_cast<size_t>(request_.names_size());
    context_.set_deadline(connection.StreamDeadline());
    reader_ = connection.stub<v1::TensorService::Stub>().ReadTensors(&context_,
                                                                     request_);
  }

  ~Stream() {
    if (reader_ != nullptr) End();
  }

  // The stream may still deliver the expected tensors from next() to end().
  size_t next() const { return next_; }
  size_t end() const { return end_; }

  // Returns the bytes of a tensor; null if the stream skips it or fails.
  const std::string* Find(size_t index) {
    next_ = index + 1;
    while (true) {
      for (; place_ < response_.tensors_size(); ++place_) {
        const auto& tensor = response_.tensors(place_);
        const size_t found = begin_ + static_cast<size_t>(tensor.position());
        if (found > index) return nullptr;
        if (found == index) return &tensor.data();
      }
      response_.Clear();
      place_ = 0;
      if (reader_ == nullptr) return nullptr;
      if (!reader_->Read(&response_)) {
        status_ = std::exchange(reader_, nullptr)->Finish();
        // Tensors after a failure belong to another stream.
        if (!status_.ok()) end_ = index + 1;
        return nullptr;
      }
    }
  }

  const grpc::Status& status() const { return status_; }

 private:
  void End() {
    context_.TryCancel();
    reader_->Finish();
  }

  const size_t begin_;
  size_t next_ = 0;
  size_t end_ = 0;
  v1::ReadTensorsRequest request_;
  v1::ReadTensorsResponse response_;
  int place_ = 0;  // In response_.
  grpc::ClientContext context_;
  const Interrupts::Hold hold_;
  std::unique_ptr<grpc::ClientReader<v1::ReadTensorsResponse>> reader_;
  grpc::Status status_;
};

ReadAhead::ReadAhead(Connection& connection) : connection_(connection) {}

ReadAhead::~ReadAhead() = default;

void ReadAhead::Expect(std::vector<WantedBytes> tensors) {
  stream_.reset();
  by_name_.clear();
  std::erase_if(tensors, [](const WantedBytes& wanted) {
    return wanted.is_sample || wanted.size_bytes > kSmallBytesMax;
  });
  expected_ = std::move(tensors);
  for (size_t i = 0; i < expected_.size(); ++i) {
    by_name_.emplace(expected_[i].name, i);
  }
}

const std::string* ReadAhead::Find(size_t index) {
  if (has_no_streams_ || !connection_.Connect().ok()) return nullptr;
  if (stream_ != nullptr && index < stream_->next()) return nullptr;
  if (stream_ == nullptr || index >= stream_->end()) {
    // One stream at a time.
    stream_.reset();
    stream_ = std::make_unique<Stream>(connection_, expected_, index);
  }
  const std::string* data = stream_->Find(index);
  has_no_streams_ =
      stream_->status().error_code() == grpc::StatusCode::UNIMPLEMENTED;
  return data;
}

Outcome ReadAhead::Read(const WantedBytes& wanted, const ByteSink& sink) {
  const auto found = by_name_.find(wanted.name);
  if (!wanted.is_sample && found != by_name_.end()) {
    const std::string* data = Find(found->second);
    if (data != nullptr &&
        data->size() == static_cast<size_t>(wanted.size_bytes)) {
      const absl::Status taken = sink(*data);
      return taken.ok() ? Outcome() : LocalError(Message(taken));
    }
  }
  return ReadTensorBytes(connection_, wanted, sink);
}

}  // namespace msitd::ask
