// The terminal as a sheet of lines, with keys. The only place that knows curses; a build without it
// never opens a screen.
//
// Guarantee: from open() to close() (or the destructor) the terminal is in curses' hands, and as it
// was afterwards. Nothing wraps, whatever the width of characters.
// Thread-safety: none; the first thread's.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::cli {

enum class Key { kQuit, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kSort, kRefresh, kNone };

struct Line {
  std::string text;
  bool strong = false;
};

class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // false: this terminal, or this build, cannot.
  bool open();
  void close();
  // The terminal is the shell's until draw() is called again.
  void leave();

  std::size_t width() const;
  std::size_t height() const;
  void draw(const std::vector<Line>& lines);
  // The terminal has another size, or somebody else has written on it.
  void begin_anew();
  // nullopt: none is pressed. kNone: one without meaning.
  std::optional<Key> next_key();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::cli
