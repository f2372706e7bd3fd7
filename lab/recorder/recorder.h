// Stamps the events of one process, and writes them to a file that outlives it.
//
// Guarantee: the collector finds an event whose record() has returned true, even if SIGKILL hits
// the process at the next instruction; it finds the events of one thread in their order.
// Not guaranteed: survival of a crash of the machine; space beyond the capacity. record() then
// returns false, and the collector refuses the run, because a history with a hole proves nothing.
//
// Thread-safety: record() may be called by any number of threads; it never blocks or allocates.
// Ownership: the mapping; the file stays. Belongs to one process: after fork() the child makes its
// own.
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

  // The number of events so far.
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

// Frees the unused space of a dead process. Returns the number of its events, or 0 without a
// region.
std::uint64_t trim_region(const std::string& folder, std::uint32_t process);

}  // namespace holdfast::lab
