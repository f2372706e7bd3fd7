#include "src/cli/look/top_screen.h"

#ifdef HOLDFAST_HAVE_CURSES

#define NCURSES_NOMACROS
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cwchar>

namespace holdfast::cli {
namespace {

// A terminal may call itself as large as it likes; a line longer than this is not drawn.
constexpr int kMostCells = 2'000;

bool shows_utf8() { return std::string(::nl_langinfo(CODESET)) == "UTF-8"; }

std::string ascii(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) out += c;
    if (byte >= 0xc0) out += '?';
  }
  return out;
}

// Takes as much of the text as has room in so many cells. Characters that the terminal cannot show
// become question marks.
std::wstring cells(const std::string& text, int width) {
  std::wstring out;
  std::mbstate_t state{};
  int used = 0;
  for (std::size_t at = 0; at < text.size();) {
    wchar_t c = L'?';
    const std::size_t length = std::mbrtowc(&c, text.data() + at, text.size() - at, &state);
    const bool whole = length != static_cast<std::size_t>(-1) && length != 0 &&
                       length != static_cast<std::size_t>(-2);
    if (!whole) state = {};
    at += whole ? length : 1;
    const int wide = ::wcwidth(c);
    if (!whole || wide < 0) c = L'?';
    used += wide < 0 ? 1 : wide;
    if (used > width) break;
    out += c;
  }
  return out;
}

Key key_of(int code) {
  switch (code) {
    case 'q':
    case 'Q': return Key::kQuit;
    case 'k':
    case KEY_UP: return Key::kUp;
    case 'j':
    case KEY_DOWN: return Key::kDown;
    case KEY_PPAGE: return Key::kPageUp;
    case KEY_NPAGE: return Key::kPageDown;
    case KEY_HOME: return Key::kHome;
    case KEY_END: return Key::kEnd;
    case 's': return Key::kSort;
    case ' ':
    case 'r': return Key::kRefresh;
    default: return Key::kNone;
  }
}

}  // namespace

struct Screen::Impl {
  SCREEN* screen = nullptr;
  bool utf8 = false;
};

Screen::Screen() : impl_(std::make_unique<Impl>()) {}

Screen::~Screen() { close(); }

bool Screen::open() {
  std::setlocale(LC_CTYPE, "");
  impl_->utf8 = shows_utf8();
  impl_->screen = ::newterm(nullptr, stdout, stdin);
  if (impl_->screen == nullptr) return false;
  ::cbreak();
  ::noecho();
  ::nonl();
  ::curs_set(0);
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::set_escdelay(100);
  return true;
}

void Screen::close() {
  if (impl_->screen == nullptr) return;
  ::endwin();
  ::delscreen(impl_->screen);
  impl_->screen = nullptr;
}

void Screen::leave() { ::endwin(); }

std::size_t Screen::width() const {
  return static_cast<std::size_t>(std::clamp(getmaxx(stdscr), 1, kMostCells));
}

std::size_t Screen::height() const {
  return static_cast<std::size_t>(std::clamp(getmaxy(stdscr), 1, kMostCells));
}

void Screen::draw(const std::vector<Line>& lines) {
  ::werase(stdscr);
  const std::size_t rows = std::min(lines.size(), height());
  for (std::size_t y = 0; y < rows; ++y) {
    const std::string text = impl_->utf8 ? lines[y].text : ascii(lines[y].text);
    if (lines[y].strong) ::wattron(stdscr, A_BOLD);
    const std::wstring wide = cells(text, static_cast<int>(width()));
    ::mvwaddnwstr(stdscr, static_cast<int>(y), 0, wide.c_str(), static_cast<int>(wide.size()));
    if (lines[y].strong) ::wattroff(stdscr, A_BOLD);
  }
  ::wrefresh(stdscr);
}

void Screen::begin_anew() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
    ::resizeterm(std::min<int>(size.ws_row, kMostCells), std::min<int>(size.ws_col, kMostCells));
  }
  ::clearok(stdscr, TRUE);
}

std::optional<Key> Screen::next_key() {
  const int code = ::wgetch(stdscr);
  if (code == ERR) return std::nullopt;
  return key_of(code);
}

}  // namespace holdfast::cli

#else

namespace holdfast::cli {

struct Screen::Impl {};

Screen::Screen() = default;
Screen::~Screen() = default;
bool Screen::open() { return false; }
void Screen::close() {}
void Screen::leave() {}
std::size_t Screen::width() const { return 0; }
std::size_t Screen::height() const { return 0; }
void Screen::draw(const std::vector<Line>&) {}
void Screen::begin_anew() {}
std::optional<Key> Screen::next_key() { return std::nullopt; }

}  // namespace holdfast::cli

#endif
