// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/acl/dump_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "client/foreign/fill/tensor_record.h"
#include "client/foreign/formats/tensor_file.h"
#include "client/foreign/trees/json/numbers.h"
#include "client/foreign/trees/tree_base.h"
#include "client/foreign/trees/tree_folder.h"
#include "client/libmsit/capi/transport_library.h"
#include "client/libmsit/core/signals_blocked.h"
#include "protos/status/status.h"

namespace msitd::acl {
namespace {

// How long the daemon may accept nothing before records are dropped. Callbacks
// do not wait for it, because the table holds their data.
constexpr std::chrono::seconds kDaemonPatience{60};

// How long to wait for the daemon when a stream is opened. Dumps wait in the
// table.
constexpr std::chrono::microseconds kOpenTime = std::chrono::seconds(2);
constexpr std::chrono::microseconds kNoTime{0};

// For threads that end later than they should.
constexpr std::chrono::seconds kGraceTime{2};

constexpr uint64_t kNever = 0;

// The time that the dump contains; 0 if there is none.
int64_t TimeOf(const std::shared_ptr<const formats::ByteSource>& bytes) {
  const auto file = formats::OpenTensorBytes(bytes, "", {});
  if (!file.ok()) return 0;
  const auto time = (*file)->attributes().find("dump_time");
  if (time == (*file)->attributes().end()) return 0;
  return trees::ParseNumber(time->second).value_or(0);
}

// CANN replaces a long file name by a number. The op is then read from the
// dump.
std::optional<trees::GeFileName> NameOf(const std::string& name,
                                        const DumpFile& file) {
  if (!trees::ParseLongNameNumber(name).has_value()) {
    return trees::ParseGeFileName(name);
  }
  trees::GeFileName out;
  out.op_name = name;
  out.time = TimeOf(file.bytes);
  return out;
}

std::chrono::microseconds Until(DumpWriter::Clock::time_point deadline) {
  return std::max(std::chrono::microseconds(0),
                  std::chrono::duration_cast<std::chrono::microseconds>(
                      deadline - DumpWriter::Clock::now()));
}

void AddPart(uint64_t count, std::string_view one, std::string_view many,
             std::string& text) {
  if (count == kNever) return;
  text += text.empty() ? "" : ", ";
  text += fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace

DumpWriter::DumpWriter(Settings settings, SliceTable& table, Reporter& reporter)
    : settings_(std::move(settings)), table_(table), reporter_(reporter) {
  const libmsit::SignalsBlocked blocked;
  thread_ = std::thread(&DumpWriter::Run, this);
}

DumpWriter::~DumpWriter() {
  if (thread_.joinable()) thread_.detach();
}

void DumpWriter::Flush() {
  const MutexLock lock(mu_);
  if (is_stopping_) return;
  const uint64_t wanted = ++wanted_flush_;
  table_.Wake();
  const auto deadline = Clock::now() + kFlushTime;
  while (done_flush_ < wanted && !is_over_) {
    if (!flushed_.WaitUntil(mu_, deadline)) {
      is_hopeless_ = true;
      return;
    }
  }
}

void DumpWriter::Stop() {
  {
    const MutexLock lock(mu_);
    is_stopping_ = true;
    deadline_ = Clock::now() + (is_hopeless_ ? kHopelessTime : kFlushTime);
    table_.Wake();
    while (!is_over_) {
      if (!flushed_.WaitUntil(mu_, deadline_ + kGraceTime)) return;
    }
  }
  thread_.join();
}

void DumpWriter::Run() noexcept {
  while (!Try([this] { RunUntilStopped(); })) {
  }
  End();
  const MutexLock lock(mu_);
  is_over_ = true;
  flushed_.NotifyAll();
}

template <typename Step>
bool DumpWriter::Try(Step step) {
  try {
    step();
    return true;
  } catch (const std::exception& error) {
    ++counts_.bad_file_count;
    reporter_.Say(error.what(), "");
    return false;
  }
}

template <typename Step>
void DumpWriter::Insist(Step step) {
  for (int i = 0; i < kTriesMax && !Try(step); ++i) {
  }
}

void DumpWriter::RunUntilStopped() {
  for (;;) {
    uint64_t wanted_flush = 0;
    {
      const MutexLock lock(mu_);
      if (is_stopping_) return;
      wanted_flush = wanted_flush_ == done_flush_ ? kNever : wanted_flush_;
    }
    if (wanted_flush != kNever) {
      while (auto file = table_.Take(Clock::now())) Settle(*std::move(file));
      const bool has_arrived = Deliver(Clock::now() + kFlushTime);
      const MutexLock lock(mu_);
      is_hopeless_ = !has_arrived;
      done_flush_ = wanted_flush;
      flushed_.NotifyAll();
      continue;
    }
    const auto next = settling_.empty() ? Clock::now() + kFlushTime
                                        : settling_.begin()->second.settled_at;
    if (auto file = table_.Take(next)) Settle(*std::move(file));
    ReleaseSettled(/*all=*/false);
  }
}

void DumpWriter::Settle(DumpFile file) {
  // A file that is moved away keeps its number.
  const uint64_t charged_bytes = file.charged_bytes;
  if (!Try([&] { TrySettle(file); })) table_.Release(charged_bytes);
}

void DumpWriter::TrySettle(DumpFile& file) {
  std::vector<std::string> names = trees::SplitPath(file.path);
  std::string last;
  if (!names.empty()) {
    last = std::move(names.back());
    names.pop_back();
  }
  auto name = NameOf(last, file);
  if (!name.has_value()) {
    // The dumps contain the long names too.
    if (last != trees::kLongNamesFile) {
      ++counts_.bad_file_count;
      reporter_.Say("its name is not that of a dump", file.path);
    }
    table_.Release(file.charged_bytes);
    return;
  }
  trees::GePlace place = trees::GePlaceOf(names);
  if (place.world_size == 0) place.rank = settings_.rank;
  AddGraph(place, file.path);
  settling_.emplace(*name, Settling{std::move(file), std::move(place), *name,
                                    Clock::now() + kSettleTime});
}

void DumpWriter::AddGraph(const trees::GePlace& place,
                          const std::string& path) {
  if (graph_count_ == kGraphsMax) return;
  auto& graphs = graphs_[{place.rank, place.device}];
  if (!graphs.emplace(place.model, place.model_id).second) return;
  ++graph_count_;
  if (graphs.size() != 2 || settings_.names_graphs) return;
  reporter_.Say(
      "this is a second graph: the names of its ops begin with the name of the "
      "graph, unlike those already sent from the first one. To name all ops by "
      "graph, set MSITD_ACL_GRAPHS=1",
      path);
}

bool DumpWriter::NamesGraphs(const trees::GePlace& place) const {
  const auto graphs = graphs_.find({place.rank, place.device});
  return settings_.names_graphs ||
         (graphs != graphs_.end() && graphs->second.size() > 1);
}

trees::GeCalls& DumpWriter::CallsOf(int32_t rank, int64_t token) {
  const std::pair<int32_t, int64_t> of_token = {rank, token};
  size_t count = 0;
  for (const auto& [key, calls] : calls_) count += calls.size();
  while (!calls_.empty() &&
         (count >= kCallsMax ||
          (calls_.size() >= kTokensMax && !calls_.contains(of_token)))) {
    count -= calls_.begin()->second.size();
    calls_.erase(calls_.begin());
  }
  return calls_[of_token];
}

void DumpWriter::ReleaseSettled(bool all) {
  while (!settling_.empty()) {
    const auto first = settling_.begin();
    if (!all && first->second.settled_at > Clock::now() &&
        !table_.is_short_of_memory()) {
      break;
    }
    Send(settling_.extract(first).mapped());
  }
  if (!clients_.empty()) CountLost();
}

bool DumpWriter::Deliver(Clock::time_point deadline) {
  ReleaseSettled(/*all=*/true);
  bool has_arrived = true;
  for (const auto& [rank, client] : clients_) {
    if (client == nullptr) continue;
    has_arrived = client->Flush(Until(deadline)).ok() && has_arrived;
  }
  return has_arrived;
}

void DumpWriter::Send(const Settling& item) {
  try {
    ++counts_.file_count;
    if (!item.file.is_whole) {
      ++counts_.incomplete_count;
      reporter_.Say("its last slices have not arrived", item.file.path);
    }
    const absl::Status sent = SendFile(item);
    if (!sent.ok()) reporter_.Say(Message(sent), item.file.path);
  } catch (const std::exception& error) {
    ++counts_.bad_file_count;
    reporter_.Say(error.what(), item.file.path);
  }
  feed_.Close();
  table_.Release(item.file.charged_bytes);
}

absl::Status DumpWriter::SendFile(const Settling& item) {
  const auto opened = ClientOf(item.place);
  if (!opened.ok()) {
    ++counts_.unsent_file_count;
    return opened.status();
  }
  libmsit::Client* const client = *opened;
  absl::Status problem = feed_.Open(item.file.bytes);
  if (problem.ok()) {
    const trees::TreeEntry entry = EntryOf(item);
    problem = trees::CheckTensorKey(entry.key);
    if (problem.ok()) return SendTensors(entry, *client);
  }
  if (item.file.is_whole) ++counts_.bad_file_count;
  client->CountDrop();
  return problem;
}

trees::TreeEntry DumpWriter::EntryOf(const Settling& item) {
  const auto& attributes = feed_.attributes();
  const auto in_container = attributes.find("op_name");
  const std::string op = trees::GeOpOf(
      in_container == attributes.end() ? "" : in_container->second,
      item.name.op_name);
  trees::TreeEntry entry;
  TensorKey& key = entry.key;
  key.rank = item.place.rank;
  key.device = item.place.device;
  key.token = item.place.token;
  key.op = trees::GeOpInRun(item.place, op, NamesGraphs(item.place));
  trees::GeCalls& calls = CallsOf(key.rank, key.token);
  if (const auto reserved = reserved_calls_.extract(item.file.path)) {
    key.call = reserved.mapped();
    return entry;
  }
  ReserveCalls(item, key, calls);
  if (calls.IsLate(key.device, key.op, item.name)) {
    ++counts_.late_count;
    reporter_.Say("it arrived after a later call of its op", item.file.path);
  }
  key.call = calls.Next(key.device, key.op, item.name, 0);
  return entry;
}

void DumpWriter::ReserveCalls(const Settling& item, const TensorKey& key,
                              trees::GeCalls& calls) {
  const std::string& path = item.file.path;
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  std::multimap<trees::GeFileName, std::string, Earlier> earlier;
  for (std::string& open : table_.OpenFiles(folder + item.name.op_type + "." +
                                            item.name.op_name + ".")) {
    auto name =
        trees::ParseGeFileName(std::string_view(open).substr(folder.size()));
    if (!name || !Earlier()(*name, item.name) ||
        reserved_calls_.contains(open)) {
      continue;
    }
    earlier.emplace(*std::move(name), std::move(open));
  }
  for (auto& [name, open] : earlier) {
    if (reserved_calls_.size() == SliceTable::kOpenFilesMax) return;
    reserved_calls_[open] = calls.Next(key.device, key.op, name, 0);
  }
}

absl::Status DumpWriter::SendTensors(const trees::TreeEntry& entry,
                                     libmsit::Client& client) {
  absl::Status problem;
  fill::RecordsOfFile records;
  while (const formats::ForeignTensor* tensor = feed_.Next(entry)) {
    absl::Status why = records.Add(entry, *tensor);
    bool is_counted = false;
    if (why.ok()) {
      const fill::TensorRecord record(entry, *tensor, feed_.source());
      why = record.problem();
      if (why.ok()) {
        const libmsit::Status sent = client.Record(record.view());
        if (sent.ok()) {
          // An op may have inputs without bytes, which are not a loss.
          ++(tensor->is_absent ? counts_.absent_tensor_count
                               : counts_.tensor_count);
          continue;
        }
        is_counted = feed_.source_status().ok();
        why = is_counted ? absl::UnavailableError(sent.message)
                         : feed_.source_status();
      }
    }
    ++counts_.bad_tensor_count;
    if (!is_counted) client.CountDrop();
    if (problem.ok()) problem = why;
  }
  return problem;
}

libmsit::Status DumpWriter::Open(const trees::GePlace& place,
                                 std::unique_ptr<libmsit::Client>& client) {
  libmsit::ClientOptions options;
  options.run = settings_.run;
  options.endpoint = settings_.endpoint;
  options.rank = place.rank;
  options.world_size =
      place.world_size > 0 ? place.world_size : settings_.world_size;
  options.if_exists = settings_.if_exists;
  options.max_block = kDaemonPatience;
  options.user_agent = "libmsit_acl";
  options.interrupt = {[](void* writer) -> int32_t {
                         auto& self = *static_cast<DumpWriter*>(writer);
                         const MutexLock lock(self.mu_);
                         return Clock::now() > self.deadline_ ? 1 : 0;
                       },
                       this};
  libmsit::Status status;
  // The first attempt waits for the daemon, in order to get the properties of
  // the run, such as its capture policy. Later attempts do not wait: the client
  // keeps the records until the daemon answers.
  for (const std::chrono::microseconds timeout : {kOpenTime, kNoTime}) {
    options.open_timeout = timeout;
    std::unique_ptr<libmsit::Transport, libmsit::TransportDestroyer> transport;
    status = libmsit::MakeTransport(settings_.endpoint, &transport);
    if (!status.ok()) return status;
    status = libmsit::Client::Open(options, std::move(transport), &client);
    const bool may_come = status.code == MSIT_ERROR_UNAVAILABLE &&
                          settings_.if_exists != IfExists::kNew;
    if (!may_come) break;
  }
  return status;
}

absl::StatusOr<libmsit::Client*> DumpWriter::ClientOf(
    const trees::GePlace& place) {
  const auto known = clients_.find(place.rank);
  if (known == clients_.end() && clients_.size() >= kRanksMax) {
    return absl::ResourceExhaustedError("there are too many ranks");
  }
  if (known == clients_.end()) {
    // A rank that cannot be opened is not tried again.
    const libmsit::Status status = Open(place, clients_[place.rank]);
    if (!status.ok()) reporter_.Say(status.message, "");
  }
  libmsit::Client* const client = clients_[place.rank].get();
  if (client == nullptr) {
    return MakeStatus(absl::StatusCode::kUnavailable,
                      "rank {} has no stream to run {}", place.rank,
                      settings_.run);
  }
  return client;
}

void DumpWriter::CountLost() {
  const uint64_t lost_count = table_.counts().lost_count();
  libmsit::Client* client = nullptr;
  for (const auto& [rank, open] : clients_) {
    if (open != nullptr) client = open.get();
  }
  if (client == nullptr) return;
  for (; reported_lost_count_ < lost_count; ++reported_lost_count_) {
    client->CountDrop();
  }
}

void DumpWriter::End() {
  Clock::time_point deadline;
  {
    const MutexLock lock(mu_);
    deadline = deadline_;
  }
  // Each step is done even if the previous one failed.
  Insist([this] {
    while (auto file = table_.Take(Clock::now())) Settle(*std::move(file));
    while (auto file = table_.TakeOpen()) Settle(*std::move(file));
  });
  Insist([&] { Deliver(deadline); });
  Insist([this] {
    if (table_.counts().lost_count() <= reported_lost_count_) return;
    trees::GePlace place;
    place.rank = settings_.rank;
    (void)ClientOf(place);
    CountLost();
  });
  for (const auto& [rank, client] : clients_) {
    if (client == nullptr) continue;
    Insist([&] { (void)client->Close(Until(deadline)); });
  }
  if (table_.counts().slice_count > 0) Insist([this] { SayResult(); });
}

void DumpWriter::SayResult() {
  libmsit::ClientCounters sum;
  std::string run = settings_.run;
  std::string why;
  for (const auto& [rank, client] : clients_) {
    if (client == nullptr) continue;
    const libmsit::ClientCounters counters = client->counters();
    sum.recorded_count += counters.recorded_count;
    sum.acknowledged_count += counters.acknowledged_count;
    sum.filtered_count += counters.filtered_count;
    sum.conflict_count += counters.conflict_count;
    if (why.empty()) why = client->stream_error();
    // The daemon may have given the run another name.
    if (!client->run().empty()) run = client->run();
  }
  const uint64_t unacknowledged_count =
      sum.recorded_count - std::min(sum.recorded_count, sum.acknowledged_count);
  std::string lost;
  AddPart(counts_.incomplete_count, "file is incomplete",
          "files are incomplete", lost);
  AddPart(table_.counts().lost_file_count, "file was lost", "files were lost",
          lost);
  AddPart(table_.counts().nameless_slice_count, "slice belongs to no file",
          "slices belong to no file", lost);
  AddPart(counts_.bad_file_count, "file could not be parsed",
          "files could not be parsed", lost);
  AddPart(counts_.unsent_file_count, "file was not sent", "files were not sent",
          lost);
  AddPart(counts_.bad_tensor_count, "tensor was not sent",
          "tensors were not sent", lost);
  AddPart(unacknowledged_count, "record was not acknowledged",
          "records were not acknowledged", lost);
  AddPart(sum.conflict_count, "record exists with different bytes",
          "records exist with different bytes", lost);
  AddPart(counts_.late_count, "file arrived out of order",
          "files arrived out of order", lost);
  std::string text = fmt::format("run {}: {} tensors from {} files", run,
                                 counts_.tensor_count, counts_.file_count);
  if (counts_.absent_tensor_count > 0) {
    text += fmt::format(", {} more have no bytes", counts_.absent_tensor_count);
  }
  if (sum.filtered_count > 0) {
    text += fmt::format(", {} of them not selected by the capture policy",
                        sum.filtered_count);
  }
  if (!lost.empty()) text += "; " + lost;
  if (unacknowledged_count > 0 && !why.empty()) text += ": " + why;
  reporter_.Say(text, "");
}

}  // namespace msitd::acl
