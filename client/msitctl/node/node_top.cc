// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/node/node_top.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/ask/print/table.h"
#include "client/ask/query/paging.h"
#include "client/ask/text/text.h"
#include "client/msitctl/node/node_top_text.h"

namespace msitd::msitctl {
namespace {

// Streams that are requested. The busiest ones are shown.
constexpr int64_t kFetchedStreamsMax = 10'000;
// Rows if the number of lines of the terminal is not known.
constexpr size_t kRowsShown = 40;
// Lines above the rows.
constexpr size_t kHeadLines = 4;

struct Look {
  std::chrono::steady_clock::time_point time;
  v1::NodeStatus status;
  std::vector<v1::Stream> streams;
};

ask::Outcome TakeLook(Invocation& invocation, Look& look) {
  using Stub = v1::NodeService::Stub;
  look.streams.clear();
  look.time = std::chrono::steady_clock::now();
  MSITCTL_RETURN_IF_FAILED(invocation.Ask(
      &Stub::GetNodeStatus, v1::GetNodeStatusRequest(), look.status));
  v1::ListStreamsResponse page;
  return ask::ForEachRow(
      invocation, &Stub::ListStreams, v1::ListStreamsRequest(), "streams",
      kFetchedStreamsMax,
      [&](const auto& row) {
        look.streams.push_back(static_cast<const v1::Stream&>(row));
      },
      page);
}

double SecondsOf(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) +
         static_cast<double>(duration.nanos()) / 1e9;
}

// Returns the share of the rank's time that recording took.
std::string OverheadOf(const v1::Stream& stream) {
  const double open = SecondsOf(stream.open_duration());
  if (open <= 0) return "-";
  return fmt::format("{:.2g}%",
                     100 * SecondsOf(stream.recording_duration()) / open);
}

struct Row {
  const v1::Stream* stream;
  double bytes;  // Per second, like the others.
  double records;
  double lost;
};

int64_t LostOf(const v1::Stream& stream) {
  return stream.dropped_count() + stream.truncated_count();
}

std::vector<Row> RowsOf(const Look& before, const Look& after, double seconds) {
  std::map<std::pair<std::string_view, int32_t>, const v1::Stream*> old;
  for (const v1::Stream& stream : before.streams) {
    old[{stream.run(), stream.rank()}] = &stream;
  }
  static const v1::Stream& none = *new v1::Stream;
  std::vector<Row> rows;
  for (const v1::Stream& stream : after.streams) {
    const auto found = old.find({stream.run(), stream.rank()});
    const bool is_same =
        found != old.end() && ToMs(found->second->age()) <= ToMs(stream.age());
    const v1::Stream& was = is_same ? *found->second : none;
    // Totals of a stream that is new since the last poll also cover earlier
    // connections.
    const double lost =
        is_same ? Rate(LostOf(was), LostOf(stream), seconds) : 0;
    rows.push_back({&stream,
                    Rate(was.committed_size_bytes(),
                         stream.committed_size_bytes(), seconds),
                    Rate(was.committed_record_count(),
                         stream.committed_record_count(), seconds),
                    lost});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.bytes > b.bytes;
  });
  return rows;
}

std::string Head(const Look& before, const Look& after, double seconds) {
  const v1::NodeStatus& was = before.status;
  const v1::NodeStatus& is = after.status;
  const double uptime_s = static_cast<double>(ToMs(is.uptime())) / 1000;
  const auto rate = [&](auto get) {
    return Rate((was.*get)(), (is.*get)(), seconds);
  };
  std::string out = fmt::format(
      "msitd {} up {}, storage {}, {} runs, {} pinned, {} comparisons\n",
      ask::Printable(is.version()), ask::HumanDuration(uptime_s),
      v1::NodeStatus::StorageState_Name(is.storage_state()), is.run_count(),
      is.pinned_run_count(), is.active_comparison_count());
  out += fmt::format("store {}, index {}, {} free{}{}\n",
                     ask::HumanSize(is.segment_size_bytes()),
                     ask::HumanSize(is.index_size_bytes()),
                     ask::HumanSize(is.disk_free_bytes()),
                     is.is_making_room() ? ", making room" : "",
                     is.verification().finding_count() == 0
                         ? ""
                         : fmt::format(", {} damaged places",
                                       is.verification().finding_count()));
  out += fmt::format(
      "{} streams: {}, {:.0f} records/s; ring {} of {}; lost {} ({:.0f}/s), "
      "degraded {}\n",
      is.open_stream_count(), SizeRate(rate(&v1::NodeStatus::committed_bytes)),
      rate(&v1::NodeStatus::committed_record_count),
      Percent(is.ring_used_bytes(), is.ring_size_bytes()),
      ask::HumanSize(is.ring_size_bytes()),
      is.dropped_count() + is.truncated_count(),
      rate(&v1::NodeStatus::dropped_count) +
          rate(&v1::NodeStatus::truncated_count),
      is.degraded_count());
  return out;
}

std::string Rows(const std::vector<Row>& rows, size_t shown,
                 const ask::Table::Style& style) {
  using Need = ask::ColumnNeed;
  ask::Table table({{"run"},
                    {"rank", true},
                    {"rate", true},
                    {"records/s", true},
                    {"in flight", true},
                    {"ring", true},
                    {"of", true, Need::kIfRoom},
                    {"lost", true},
                    {"lost/s", true, Need::kIfRoom},
                    {"degraded", true, Need::kIfRoom},
                    {"filtered", true, Need::kIfRoom},
                    {"overhead", true, Need::kIfRoom}},
                   style);
  for (size_t i = 0; i < std::min(rows.size(), shown); ++i) {
    const v1::Stream& stream = *rows[i].stream;
    table.Add({stream.run(), fmt::format("{}", stream.rank()),
               SizeRate(rows[i].bytes), fmt::format("{:.0f}", rows[i].records),
               ask::HumanSize(stream.in_flight_size_bytes()),
               Percent(stream.ring_used_bytes(), stream.ring_size_bytes()),
               stream.shares_memory() ? ask::HumanSize(stream.ring_size_bytes())
                                      : "gRPC",
               fmt::format("{}", LostOf(stream)),
               fmt::format("{:.0f}", rows[i].lost),
               fmt::format("{}", stream.degraded_count()),
               fmt::format("{}", stream.filtered_count()), OverheadOf(stream)});
  }
  std::string out = table.Flush();
  if (rows.size() > shown) {
    out += fmt::format("and {} more\n", rows.size() - shown);
  }
  return out;
}

// Returns the number of lines of the terminal; 0 if it is not known.
size_t TerminalLines() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

}  // namespace

ask::Outcome ShowTop(Invocation& invocation, const TopFlags& flags) {
  const bool in_place =
      !flags.once && invocation.options().terminal.stdout_is_terminal;
  Look before;
  MSITCTL_RETURN_IF_FAILED(TakeLook(invocation, before));
  for (bool is_first = true;; is_first = false) {
    if (invocation.interrupts().WaitFor(flags.interval))
      return ask::Interrupted();
    Look after;
    MSITCTL_RETURN_IF_FAILED(TakeLook(invocation, after));
    const double seconds =
        std::chrono::duration<double>(after.time - before.time).count();
    const size_t lines = in_place ? TerminalLines() : 0;
    const size_t shown =
        lines > kHeadLines + 2 ? lines - kHeadLines - 2 : kRowsShown;
    std::string text = Head(before, after, seconds) + "\n" +
                       Rows(RowsOf(before, after, seconds), shown,
                            invocation.print_options().table);
    if (in_place) {
      text = InPlace(text);
    } else if (!is_first) {
      text = "\n" + text;
    }
    invocation.out().Write(text);
    if (flags.once) return {};
    invocation.out().Flush();
    before = std::move(after);
  }
}

}  // namespace msitd::msitctl
