// The bytes of a journal: one record is a batch of changes or a chunk of a snapshot.
//
//   "HFJ" version kind  number  index  item...  end instant  checksum
//
// The version is 1, or 2 when a kept text is among the items: a server of before then says that it
// is too old.
//
// An item is a kind byte and its fields. Numbers are varints of 7 bits a byte, least significant
// first, but for ids (16 bytes) and the checksum (FNV-1a, 8 bytes); a text follows its length. A
// chunk tells a lock by a kLock item and the effects that would have made it, so that one reader
// serves both kinds.
//
// Guarantee: reading what was written calls the visitor with the same values in the same order.
// Any other bytes are an error, never an abort; no length is trusted before it was checked.
// Not guaranteed: that the items make sense together. Fold (fold.h) and the machine see to that.
// Thread-safety: none. Errors: kCorruptState, kVersionMismatch (a later version's record).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/result.h"
#include "src/machine/effect.h"
#include "src/server/requests.h"

namespace holdfast::server {

enum class RecordKind : std::uint8_t { kBatch = 1, kChunk = 2 };

struct RecordHead {
  RecordKind kind{};
  std::uint64_t number = 0;  // The batch's; of a chunk: the last batch that it stands for.
  std::uint32_t index = 0;   // The chunk's place in its snapshot.

  friend bool operator==(const RecordHead&, const RecordHead&) = default;
};

// The part of a lock that effects do not tell.
struct LockHead {
  std::string name;
  machine::ModeKind kind{};
  std::uint32_t capacity = 1;
  machine::Token last_token{};
  std::uint64_t next_order = 1;
};

class RecordWriter {
 public:
  explicit RecordWriter(const RecordHead& head);

  void add_effect(const machine::Effect& effect);
  void add_floor(machine::Token floor);  // Every token is above it.
  void add_mark(std::string_view client, std::string_view lock, std::uint64_t issue);
  void add_client_floor(std::string_view client, std::uint64_t issue);
  void add_lock(const LockHead& lock);
  void add_trace(std::string_view lock, const BreakTrace& trace);
  void add_kept(std::string_view key, const KeptText& text);

  void add_closing();  // The term ends here, and every lease ends as its effects say.

  bool empty() const { return items_ == 0; }
  std::size_t size() const { return bytes_.size(); }
  // The whole record; the writer is of no more use.
  std::string finish(machine::Instant at);
  // The same without its checksum, which add_checksum() appends.
  std::string finish_unsummed(machine::Instant at);

 private:
  std::string bytes_;
  std::string owner_;  // Keeps its memory.
  std::size_t items_ = 0;
};

// It reads all bytes, so a thread that has time does it.
void add_checksum(std::string& record);

// Called for each item in its order. False: the item makes no sense, which ends the reading. Parts
// of an effect or a lock may be moved out of it.
class RecordVisitor {
 public:
  virtual ~RecordVisitor() = default;
  virtual void on_head(const RecordHead&) {}  // Comes first.
  virtual bool on_effect(machine::Effect& effect) = 0;
  virtual bool on_floor(machine::Token floor) = 0;
  virtual bool on_mark(std::string client, std::string lock, std::uint64_t issue) = 0;
  virtual bool on_client_floor(std::string client, std::uint64_t issue) = 0;
  virtual bool on_lock(LockHead& lock) = 0;
  virtual bool on_trace(std::string lock, BreakTrace trace) = 0;
  virtual bool on_kept(std::string key, KeptText text) = 0;
  virtual bool on_closing() = 0;
  virtual bool on_end(machine::Instant at) = 0;
};

// Whether somebody has looked at a record's checksum already: each look reads all bytes.
enum class Checksum : std::uint8_t { kUnseen, kRight };

// The checksum is looked at before the first call of the visitor.
Result<RecordHead> read_record(std::string_view bytes, RecordVisitor& visitor,
                               Checksum checksum = Checksum::kUnseen);
// The same for a record that has to belong to that place, which an error names.
Result<void> read_record_at(const RecordHead& place, std::string_view bytes, RecordVisitor& visitor,
                            Checksum checksum = Checksum::kUnseen);

// Looks at a chunk's checksum and goes on with that of its snapshot, at once: together they cost
// what one of them does. nullopt: the chunk is damaged.
std::optional<std::uint64_t> check_chunk(std::string_view bytes, std::uint64_t sum_before);

}  // namespace holdfast::server
