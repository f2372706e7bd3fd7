// Stamps the events of one process and writes them where they outlive it.
//
// Guarantee: an event whose record() has returned true is found by the collector, also when the
// process was killed with SIGKILL at the next instruction; the events of one thread are found in
// their order.
// Not guaranteed: survival of a crash of the machine; space beyond the capacity (record() says
// false then, and the collector refuses the run: a history with a hole proves nothing).
//
// Thread-safety: record() may be called by any number of threads; it never blocks or allocates.
// Ownership: the mapping; the file stays. One process each: after fork() the child makes its own.
// Time: base::host_boot_now().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "holdfast/result.h"

#include "lab/recorder/region.h"

namespace holdfast::lab {

class Recorder {
 public:
  // Makes `folder`/`process`.events with room for `capacity` events, all of it reserved on the
  // disk. kInvalidArgument: it exists; kUnavailable: the system refused.
  static Result<Recorder> create(const std::string& folder, std::uint32_t process,
                                 std::uint64_t capacity);

  Recorder(Recorder&& other) noexcept;
  Recorder& operator=(Recorder&& other) noexcept;
  ~Recorder();

  // Puts stamp and process on the event.
  bool record(Event event) noexcept;
  // The same with the event's own stamp (the death of a process, seen later).
  bool record_as_stamped(Event event) noexcept;

  // How many events it was given so far.
  std::uint64_t recorded() const noexcept;

  // A call number that this process has not used.
  std::uint64_t next_call() noexcept;

 private:
  Recorder(void* memory, std::size_t size) : memory_(memory), size_(size) {}
  RegionHeader& header() const;
  RegionSlot* slots() const;

  void* memory_;
  std::size_t size_;
  std::atomic<std::uint64_t> calls_{0};
};

// Gives back what a process that is dead has reserved and not used. How many events it had
// recorded; 0 where there is nothing of it.
std::uint64_t trim_region(const std::string& folder, std::uint32_t process);

}  // namespace holdfast::lab
