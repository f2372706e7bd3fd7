// The operations of a pipeline are themselves the links of its lists, so queueing allocates
// nothing.
//
// Thread-safety: Inbox::push() from any thread; the rest on one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "src/base/clock.h"
#include "src/port/store.h"
#include "src/stores/redis/transport/pipeline.h"

namespace holdfast::stores::redis {

struct Operation {
  Operation* next = nullptr;
  Command command;
  base::BootInstant deadline{};
  port::Done<Reply> done;       // Null: its caller was told, and its place awaits the answer.
  base::BootInstant written{};  // When it was last given to the link.
  std::uint64_t end = 0;        // Position of its last byte in the connection's output.
  std::size_t joined = 1;       // In the first operation of a batch: its size.
  std::size_t ahead = 0;        // In the first operation of a request: how many wait for answers.
  bool alone = false;           // It must not join a batch again.
  bool prefix_due = false;      // The answer to the request before it has not come.
  bool confirms = false;        // Asks the replicas, about what its connection has written.

  std::size_t cost() const noexcept { return command.wire.size() + sizeof(Operation); }
};

// First in, first out. Owns its operations.
class OperationList {
 public:
  OperationList() = default;
  ~OperationList() {
    while (pop() != nullptr) {
    }
  }
  OperationList(const OperationList&) = delete;
  OperationList& operator=(const OperationList&) = delete;

  bool empty() const noexcept { return first_ == nullptr; }
  std::size_t size() const noexcept { return size_; }
  const Operation* front() const noexcept { return first_; }
  Operation* front() noexcept { return first_; }

  void push(std::unique_ptr<Operation> operation) noexcept {
    Operation* const added = operation.release();
    added->next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = added;
    last_ = added;
    ++size_;
  }

  std::unique_ptr<Operation> pop() noexcept {
    if (first_ == nullptr) return nullptr;
    std::unique_ptr<Operation> taken(first_);
    first_ = taken->next;
    if (first_ == nullptr) last_ = nullptr;
    --size_;
    return taken;
  }

  // Appends all operations of `other`.
  void append(OperationList& other) noexcept {
    if (other.empty()) return;
    (last_ == nullptr ? first_ : last_->next) = other.first_;
    last_ = other.last_;
    size_ += std::exchange(other.size_, 0);
    other.first_ = other.last_ = nullptr;
  }

 private:
  Operation* first_ = nullptr;
  Operation* last_ = nullptr;
  std::size_t size_ = 0;
};

// Many threads push, one takes everything.
class Inbox {
 public:
  enum class Pushed : std::uint8_t { kFirst, kBehindOthers, kClosed };

  ~Inbox() { close(); }

  // A closed inbox leaves `operation` with the caller. kFirst: the caller must wake the taker.
  Pushed push(std::unique_ptr<Operation>& operation) noexcept {
    Operation* head = head_.load(std::memory_order_relaxed);
    do {
      if (head == closed_mark()) return Pushed::kClosed;
      operation->next = head;
    } while (!head_.compare_exchange_weak(head, operation.get(), std::memory_order_release,
                                          std::memory_order_relaxed));
    (void)operation.release();
    return head == nullptr ? Pushed::kFirst : Pushed::kBehindOthers;
  }

  // In the order in which they were pushed.
  void take_all(OperationList& into) noexcept { reverse(head_.exchange(nullptr), into); }

  // Admits nothing more; returns what was left.
  OperationList& close() noexcept {
    reverse(head_.exchange(closed_mark()), last_);
    return last_;
  }

 private:
  // An address that no operation can have.
  Operation* closed_mark() noexcept { return reinterpret_cast<Operation*>(this); }

  void reverse(Operation* newest, OperationList& into) noexcept {
    if (newest == closed_mark()) return;
    Operation* oldest = nullptr;
    while (newest != nullptr) {
      Operation* const older = newest->next;
      newest->next = oldest;
      oldest = newest;
      newest = older;
    }
    while (oldest != nullptr) {
      Operation* const newer = oldest->next;
      into.push(std::unique_ptr<Operation>(oldest));
      oldest = newer;
    }
  }

  std::atomic<Operation*> head_{nullptr};
  OperationList last_;
};

}  // namespace holdfast::stores::redis
