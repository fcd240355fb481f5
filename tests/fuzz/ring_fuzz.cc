// SPDX-License-Identifier: Apache-2.0
// A producer that writes arbitrary bytes into the memory that it shares, also
// while the daemon reads it.
//
// An input is a list of steps. Each step is a byte that selects the kind of
// step, followed by its arguments.
#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <thread>

#include "protos/chunk/chunk.h"
#include "protos/chunk/chunk_builder.h"
#include "protos/shm/ring_reader.h"
#include "tests/fuzz/chunk_use.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/golden/chunk/golden_chunks.h"

namespace msitd::shm {
namespace {

enum Step : uint8_t {
  kWriteTable,    // Offset (2 bytes), number (8).
  kWriteArena,    // Offset (2), size (1), bytes.
  kPublish,       // Page (1); publishes a valid chunk there.
  kPublishEntry,  // Sequence, offset, size (8 each).
  kTake,          // The daemon takes the next chunk.
  kTakeBeside,    // Same, with concurrent writes; offset (2), bits (1).
  kCommit,        // Count (8).
  kBegin,         // Piece, records, written records (1 each); a valid draft.
  kTakeDrafts,    // The daemon takes all drafts, as after the death of the
                  // producer.
  kStepCount,
};

// Inputs can write only to this part of the arena. It is cleared before the
// next input.
constexpr uint64_t kReachBytes = (1 << 16) + 256;
constexpr uint64_t kPageCount = 8;
constexpr uint64_t kPieceCount = kArenaBytesMin / chunk::kPieceBytes;
constexpr uint64_t kDraftReachBytes = uint64_t{64} << 10;
constexpr int kStepsMax = 4096;
constexpr uint64_t kCommitted = 7;

std::string GoodChunk() {
  for (const chunk::GoldenChunk& golden : chunk::MakeGoldenChunks()) {
    if (golden.name == "one_tensor.chunk") {
      return {reinterpret_cast<const char*>(golden.bytes.data()),
              golden.bytes.size()};
    }
  }
  return {};
}

class Ring {
 public:
  explicit Ring(const std::shared_ptr<RingArena>& arena)
      : arena_(arena->fd(), arena->bytes().size(), PROT_READ | PROT_WRITE) {
    auto reader = RingReader::Create(arena, /*stream_id=*/5, kCommitted);
    MSITD_CHECK(reader.ok() && arena_.valid());
    reader_ = *std::move(reader);
    table_ =
        MappedRegion(reader_->table_fd(), kTableBytes, PROT_READ | PROT_WRITE);
    MSITD_CHECK(table_.valid());
    std::memset(arena_.data(), 0, kReachBytes);
    for (uint64_t piece = 0; piece < kPieceCount; ++piece) {
      std::memset(arena_.data() + piece * chunk::kPieceBytes, 0,
                  chunk::kDraftTextOffset + kDraftReachBytes);
    }
  }

  // Returns false after the daemon has rejected the ring.
  bool Do(fuzz::Input& input) {
    switch (input.Get<uint8_t>() % kStepCount) {
      case kWriteTable: {
        const uint64_t at = input.Get<uint16_t>() % (kTableBytes - 7);
        Write(table_, at, fuzz::BytesOf(input.Get<uint64_t>()));
        return true;
      }
      case kWriteArena: {
        const uint64_t at = input.Get<uint16_t>();
        const uint64_t size = input.Get<uint8_t>();
        Write(arena_, at, input.Take(size));
        return true;
      }
      case kPublish: {
        static const std::string good = GoodChunk();
        const uint64_t at = input.Get<uint8_t>() % kPageCount * kChunkAlignment;
        Write(arena_, at, good);
        Publish(published_, at, good.size());
        return true;
      }
      case kPublishEntry: {
        const auto sequence = input.Get<uint64_t>();
        const auto offset = input.Get<uint64_t>();
        Publish(sequence, offset, input.Get<uint64_t>());
        return true;
      }
      case kTake:
        return Take();
      case kTakeBeside: {
        const uint64_t at = input.Get<uint16_t>();
        return TakeBeside(at, input.Get<uint8_t>());
      }
      case kBegin: {
        const uint8_t piece = input.Get<uint8_t>() % kPieceCount;
        const uint8_t count = input.Get<uint8_t>();
        Begin(piece, count, input.Get<uint8_t>());
        return true;
      }
      case kTakeDrafts:
        TakeDrafts();
        return true;
      default:
        reader_->Commit(input.Get<uint64_t>(), input.Get<uint64_t>());
        return true;
    }
  }

 private:
  static void Write(MappedRegion& memory, uint64_t at, std::string_view bytes) {
    std::memcpy(memory.data() + at, bytes.data(), bytes.size());
  }

  void Publish(uint64_t sequence, uint64_t offset, uint64_t bytes) {
    auto* header = reinterpret_cast<RingHeader*>(table_.data());
    auto* entries =
        reinterpret_cast<RingEntry*>(table_.data() + sizeof(RingHeader));
    RingEntry& entry = entries[published_ % kRingEntryCount];
    entry.chunk_sequence.store(sequence, std::memory_order_relaxed);
    entry.chunk_offset.store(offset, std::memory_order_relaxed);
    entry.chunk_bytes.store(bytes, std::memory_order_relaxed);
    // Pairs with the load in RingReader::Next.
    header->published_count.store(++published_, std::memory_order_release);
  }

  bool Take() {
    const auto found = reader_->Next();
    if (!found.ok()) return false;
    if (!found->has_value()) return true;
    const std::span<const std::byte> bytes = **found;
    const std::span<const std::byte> arena = reader_->arena()->bytes();
    MSITD_CHECK(bytes.data() >= arena.data());
    MSITD_CHECK(bytes.data() + bytes.size() <= arena.data() + arena.size());
    const absl::StatusOr<chunk::Chunk> chunk =
        chunk::Chunk::FromProducer(bytes);
    if (!chunk.ok()) return true;
    fuzz::UseHead(*chunk);
    fuzz::UsePayload(*chunk);
    return true;
  }

  void Begin(uint64_t piece, uint8_t count, uint8_t written_count) {
    const std::span<std::byte> memory(
        arena_.data() + piece * chunk::kPieceBytes, chunk::kPieceBytes);
    chunk::ChunkBuilder builder(memory);
    builder.Start("run", 1, 5, 0);
    builder.StartDraft(++draft_count_, 1);
    for (uint8_t i = 0; i < count; ++i) {
      const int64_t dims[] = {i};
      const std::string op(1 + i % 64, 'o');
      const auto place = builder.Add({.sequence = i,
                                      .device = "cpu:0",
                                      .op = op,
                                      .io = Io::kOutput,
                                      .index = "0",
                                      .dtype = DType::kUint8,
                                      .dims = dims,
                                      .tensor_bytes = i,
                                      .part_bytes = i});
      MSITD_CHECK(place.data() != nullptr);
      if (i < written_count) chunk::Draft(memory).SetWritten(i);
    }
    auto* header = reinterpret_cast<RingHeader*>(table_.data());
    header->draft_state.store(kDraftsKept, std::memory_order_relaxed);
  }

  void TakeDrafts() {
    const std::span<const std::byte> arena = reader_->arena()->bytes();
    const auto drafts = reader_->Drafts();
    MSITD_CHECK(drafts.size() <= arena.size() / chunk::kPieceBytes);
    for (const std::span<const std::byte> piece : drafts) {
      MSITD_CHECK(piece.data() >= arena.data());
      MSITD_CHECK(piece.data() + chunk::kPieceBytes <=
                  arena.data() + arena.size());
      const auto chunk = chunk::Chunk::FromDraft(
          piece, {.run = "run", .rank = 1, .stream_id = 5});
      if (!chunk.ok() || !chunk->has_value()) continue;
      fuzz::UseHead(**chunk);
      fuzz::UsePayload(**chunk);
    }
  }

  bool TakeBeside(uint64_t at, uint8_t bits) {
    std::atomic<bool> is_done = false;
    auto* byte = reinterpret_cast<std::atomic<uint8_t>*>(arena_.data() + at);
    std::thread other([&is_done, byte, bits] {
      do {
        byte->fetch_xor(bits, std::memory_order_relaxed);
      } while (!is_done.load(std::memory_order_relaxed));
    });
    const bool is_good = Take();
    is_done.store(true, std::memory_order_relaxed);
    other.join();
    return is_good;
  }

  MappedRegion arena_;
  MappedRegion table_;
  std::unique_ptr<RingReader> reader_;
  uint64_t published_ = kCommitted;
  uint64_t draft_count_ = 0;
};

std::string StepBytes(Step step) { return std::string(1, step); }

std::string EntryBytes(uint64_t offset, uint64_t bytes) {
  return StepBytes(kPublishEntry) + fuzz::BytesOf(kCommitted) +
         fuzz::BytesOf(offset) + fuzz::BytesOf(bytes);
}

std::vector<std::string> SeedList() {
  using std::string_literals::operator""s;
  const std::string publish = StepBytes(kPublish) + '\2';
  const std::string take = StepBytes(kTake);
  const std::string entry = EntryBytes(8192, 8192);
  // A chunk that ends at the end of the arena, and one that begins a page after
  // it.
  const uint64_t last_page = kArenaBytesMin - kChunkAlignment;
  const std::string last = EntryBytes(last_page, kChunkAlignment);
  const std::string over = EntryBytes(last_page, 2 * kChunkAlignment);
  const std::string beside =
      StepBytes(kTakeBeside) + fuzz::BytesOf(uint16_t{8192 + 16}) + '\1';
  const std::string write = StepBytes(kWriteArena) +
                            fuzz::BytesOf(uint16_t{8192 + 128}) + '\4' + "abcd";
  const std::string number = StepBytes(kWriteTable) +
                             fuzz::BytesOf(uint16_t{64}) +
                             fuzz::BytesOf(uint64_t{9});
  const std::string commit = StepBytes(kCommit) + fuzz::BytesOf(kCommitted + 1);
  const std::string begin = StepBytes(kBegin) + "\1\7\5"s;
  const std::string drafts = StepBytes(kTakeDrafts);
  // Modifies the draft in the first piece: its text, its count, and a
  // descriptor.
  const auto lie = [](uint16_t at) {
    return StepBytes(kWriteArena) + fuzz::BytesOf(at) + '\4' + "\xff\1\0\0"s;
  };
  const std::string first = StepBytes(kBegin) + "\0\7\7"s;
  return {publish + take + commit,
          publish + publish + take + take,
          entry + take,
          last + take,
          over + take,
          publish + write + take,
          publish + beside,
          publish + number + take,
          begin + drafts,
          begin + begin + drafts + publish + take,
          first + lie(20) + drafts,
          first + lie(16) + drafts,
          first + lie(64 + 16) + drafts,
          first + lie(64 + 56) + drafts};
}

void Play(fuzz::Input input) {
  static const std::shared_ptr<RingArena> arena =
      *RingArena::Create(AlignUp(kArenaBytesMin, kChunkAlignment));
  Ring ring(arena);
  for (int i = 0; i < kStepsMax && !input.empty(); ++i) {
    if (!ring.Do(input)) return;
  }
}

}  // namespace
}  // namespace msitd::shm

namespace msitd::fuzz {

std::vector<std::string> Seeds() { return shm::SeedList(); }

}  // namespace msitd::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  msitd::shm::Play(msitd::fuzz::Input(data, size));
  return 0;
}
