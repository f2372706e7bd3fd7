// One request to the engine: what the machine is to do, and who is told the answer.
//
// Thread-safety: made on any thread, then the loop only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/base/clock.h"
#include "src/machine/command.h"
#include "src/machine/image.h"
#include "src/machine/types.h"
#include "src/stores/memcached/document.h"

namespace holdfast::stores::memcached {

// The machine's answer to one command.
struct Applied {
  machine::Reply reply;
  machine::Instant at;
  std::optional<machine::LockImage> after;  // Where the answer may need it.
  const Document* before = nullptr;
};

class Command {
 public:
  static constexpr std::size_t kEnded = SIZE_MAX;

  Command() = default;
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // It may point into the command. nullopt: the document is only read.
  virtual std::optional<machine::Action> action() const = 0;
  virtual void answer(const Applied& applied) = 0;
  virtual void fail(const Error& why) = 0;

  std::string name;
  machine::AcquisitionId id{};
  base::BootInstant deadline{};
  std::size_t place = kEnded;  // Among the engine's commands that have not ended.
  bool acquires = false;       // Makes a ticket: one of an ended id is refused.
  bool ends = false;           // A release or cancel.
  bool renews = false;         // Goes over the connection for renewals.
  bool waits = false;          // Its ticket is told to the listener when it stops waiting.
  bool looks = false;          // `Applied::after` is needed.
  bool refuses = false;        // Nothing but the mark that keeps the document.
  bool queued = false;         // It waits for the step before it.
  bool written = false;        // A request was sent whose fate is not known.
};
using CommandPtr = std::shared_ptr<Command>;

// A command of the engine's own, to which the machine's answer does not matter.
class OwnCommand final : public Command {
 public:
  std::optional<machine::Action> action() const override {
    if (!act) return std::nullopt;
    return act();
  }
  void answer(const Applied&) override {}
  void fail(const Error& why) override {
    if (failed) failed(why);
  }

  std::function<machine::Action()> act;
  std::function<void(const Error&)> failed;
};

}  // namespace holdfast::stores::memcached
