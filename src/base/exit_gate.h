// Keeps the end of the program from overtaking what a thread of the library does to objects of the
// program.
//
// A program may return from main() in the moment that a thread of ours has made its last result
// known, while that thread is still inside of the call that did so. What it touches there, such as
// Asio's pool of threads, is destroyed with the program's static objects: that waits here.
#pragma once

namespace holdfast::base {

// From the first call on, the program's end waits for the passages under way, a second at most, and
// lets none begin after it. Objects that were made before that call are destroyed after the wait.
// A forked child waits for none of its parent's.
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
