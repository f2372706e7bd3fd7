// Waking the one process whose ticket changed: a datagram socket per store, in FILE.wake/.
//
// A datagram carries an acquisition id and is a hint: the receiver looks at the ticket itself. A
// lost or forged one costs a look, never a wrong grant; the bounded poll covers the lost ones.
//
// Thread-safety: send() and drain() from one thread each, or under one lock.
// Ownership: the socket's file goes with the object; those of dead processes are swept by others.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/machine/types.h"

namespace holdfast::stores::sqlite {

class WakeSocket {
 public:
  // `database`: resolved path; the folder and the socket get its owner and mode, so that whoever
  // may write the one may send to the other. nullptr: it cannot be had; `why` says so, and waiters
  // poll.
  static std::unique_ptr<WakeSocket> open(const std::string& database, std::string& why);
  ~WakeSocket();
  WakeSocket(const WakeSocket&) = delete;
  WakeSocket& operator=(const WakeSocket&) = delete;

  const std::string& name() const { return name_; }  // What others send to.
  int descriptor() const { return socket_; }

  // Never blocks; false when nobody took it.
  bool send(std::string_view name, machine::AcquisitionId id) const;
  // All that has arrived.
  std::vector<machine::AcquisitionId> drain() const;

  // In a forked child: closes, and leaves the file.
  void abandon() noexcept;

  static std::string folder_of(const std::string& database) { return database + ".wake"; }

 private:
  WakeSocket() = default;
  void sweep() const;

  int folder_ = -1;
  int socket_ = -1;
  std::string name_;
};

}  // namespace holdfast::stores::sqlite
