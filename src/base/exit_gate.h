// Delays the end of the program while a thread of the library still uses objects of the program.
//
// A program may return from main() once a thread of ours has delivered its last result. This thread
// may still be inside the delivering call. The objects that it uses there, such as Asio's thread
// pool, are destroyed with the program's static objects. So that destruction waits here.
#pragma once

namespace holdfast::base {

// From the first call on, the program's end waits for the passages under way, a second at most, and
// lets none begin after it. Objects that were made before that call are destroyed after the wait. A
// forked child waits for none of its parent's.
void arm_exit_gate();

// Something that the program's end must not overtake. Short: it must not wait for the program.
class ExitPassage {
 public:
  ExitPassage() noexcept;
  ~ExitPassage();
  ExitPassage(const ExitPassage&) = delete;
  ExitPassage& operator=(const ExitPassage&) = delete;

  // False when the program has begun to end.
  explicit operator bool() const noexcept { return open_; }

 private:
  bool open_;
};

}  // namespace holdfast::base
