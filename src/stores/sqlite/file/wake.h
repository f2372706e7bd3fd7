// Waking the one process whose ticket changed: a datagram socket per store, in FILE.wake/. Beside
// it stands a mark, an empty file, for each value that the store watches. Whoever sets that value
// finds there whom to wake.
//
// A datagram carries an acquisition id and is a hint: the receiver looks at the ticket itself. A
// lost or forged one costs a look, never a wrong grant; the bounded poll covers the lost ones.
//
// Thread-safety: send() and drain() from one thread each, or under one lock.
// (listen(), forget() and tell() from any thread.)
// Ownership: the socket's file goes with the object; those of dead processes are swept by others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/machine/types.h"

namespace holdfast::stores::sqlite {

class WakeSocket {
 public:
  // `database`: resolved path. The folder and the socket get its owner and mode, so that users who
  // may write the database may send to the socket. nullptr: there is no socket; `why` says so, and
  // waiters poll.
  static std::unique_ptr<WakeSocket> open(const std::string& database, std::string& why);
  ~WakeSocket();
  WakeSocket(const WakeSocket&) = delete;
  WakeSocket& operator=(const WakeSocket&) = delete;

  const std::string& name() const { return name_; }  // Others send to this name.
  int descriptor() const { return socket_; }

  // Never blocks; false when nobody took it.
  bool send(std::string_view name, machine::AcquisitionId id) const;
  // All that has arrived.
  std::vector<machine::AcquisitionId> drain() const;

  // Hints about values, by a hash of the name of the lock that they are beside.
  static std::uint64_t hash_of(std::string_view name);
  // The form of a hint about that value, in place of an acquisition id.
  static machine::AcquisitionId hint_of(std::uint64_t value) { return {kValueHint, value}; }
  static std::optional<std::uint64_t> value_of(machine::AcquisitionId hint);
  void listen(std::uint64_t value) const;
  void forget(std::uint64_t value) const;
  // All others that listen. Reads the folder.
  void tell(std::uint64_t value) const;

  // In a forked child: closes, and leaves the file.
  void abandon() noexcept;

  static std::string folder_of(const std::string& database) { return database + ".wake"; }

 private:
  static constexpr std::uint64_t kValueHint = 0x76616C7565'3A'0000;  // No chance makes it an id.

  WakeSocket() = default;
  void sweep() const;
  std::string mark_of(std::uint64_t value) const;

  int folder_ = -1;
  int socket_ = -1;
  std::string name_;
};

}  // namespace holdfast::stores::sqlite
