// `top`: who holds and who waits, again and again; on a terminal a screen of its own.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "src/cli/commands.h"
#include "src/cli/exit_codes.h"
#include "src/cli/look/outcomes.h"
#include "src/cli/look/top_screen.h"
#include "src/cli/look/top_table.h"
#include "src/cli/options/duration.h"
#include "src/cli/options/settings.h"
#include "src/cli/process/signals.h"
#include "src/cli/process/tty.h"
#include "src/cli/run/lock_attempt.h"
#include "src/cli/text/json.h"
#include "src/cli/text/output.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

constexpr std::size_t kMostShown = 10'000;

struct Snapshot {
  Result<std::vector<LockInfo>> locks;
  std::chrono::system_clock::time_point at;
};

// The part of the store on the screen.
class Sight {
 public:
  Sight(const Client& client, const TopOptions& options)
      : client_(client), outcomes_(client), prefix_(options.prefix) {}

  Snapshot look() {
    auto locks = client_.list(prefix_, kMostShown);
    if (locks) outcomes_.take_from(*locks);  // Nobody works under them.
    return {std::move(locks), std::chrono::system_clock::now()};
  }

 private:
  const Client client_;
  Outcomes outcomes_;
  const std::string prefix_;
};

// Asks the store on a thread of its own, so that keys, a resize and Ctrl-C work while the store is
// away.
class Watcher {
 public:
  Watcher(const Client& client, const TopOptions& options)
      : thread_([this, sight = Sight(client, options), pause = options.interval]() mutable {
          run(sight, pause);
        }) {}
  ~Watcher() {
    {
      const std::lock_guard guard(mutex_);
      over_ = true;
      wake_.notify_all();
    }
    thread_.join();
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  int fd() const { return bell_.fd(); }
  std::optional<Snapshot> take() {
    const std::lock_guard guard(mutex_);
    bell_.quiet();
    return std::exchange(news_, std::nullopt);
  }
  void look_now() {
    const std::lock_guard guard(mutex_);
    now_ = true;
    wake_.notify_all();
  }

 private:
  void run(Sight& sight, Duration pause) {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, pause, [&] { return over_ || now_; });
        if (over_) return;
        now_ = false;
      }
      Snapshot seen = sight.look();
      const std::lock_guard guard(mutex_);
      news_ = std::move(seen);
      bell_.ring();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  bool now_ = false;
  std::optional<Snapshot> news_;
  Bell bell_;
  std::thread thread_;
};

// The library's reports on the store while a screen covers the terminal.
class LastAlarm {
 public:
  void hear(const std::string& sentence) {
    const std::lock_guard guard(mutex_);
    sentence_ = sentence;
  }
  std::string take() {
    const std::lock_guard guard(mutex_);
    return std::exchange(sentence_, {});
  }

 private:
  std::mutex mutex_;
  std::string sentence_;
};

std::string title(const std::vector<LockInfo>& locks, const Snapshot& seen,
                  const Settings& settings, TopSort sort) {
  const TopSummary sum = summary_of(locks);
  return local_time(seen.at) + "  locks " + std::to_string(sum.locks) +
         (sum.locks == kMostShown ? "+" : "") + ", holders " + std::to_string(sum.holders) +
         ", waiters " + std::to_string(sum.waiters) + ", by " + sort_word(sort) + "  " +
         printable(shortened(settings.shown_store, 60));
}

std::string snapshot_text(const Snapshot& seen, const Settings& settings, TopSort sort,
                          std::size_t width) {
  std::string out = title(*seen.locks, seen, settings, sort) + "\n";
  for (const auto& line : top_lines(top_rows(*seen.locks, sort, seen.at), width)) {
    out += line + "\n";
  }
  return out;
}

std::string snapshot_json(const Snapshot& seen, const Settings& settings) {
  Json out;
  out["time"] = utc_text(seen.at);
  out["store"] = settings.shown_store;
  out["locks"] = Json::array();
  for (const LockInfo& lock : *seen.locks) out["locks"].push_back(to_json(lock));
  return to_line(out);
}

int print_snapshots(const Client& client, const TopOptions& options, const Settings& settings,
                    const Signals& signals, Snapshot seen) {
  std::optional<Watcher> watcher;
  for (bool first = true;; first = false) {
    if (!seen.locks) {
      complain(explain(seen.locks.error(), settings.shown_store));
    } else if (options.common.json) {
      print(snapshot_json(seen, settings));
    } else {
      print((first ? "" : "\n") + snapshot_text(seen, settings, options.sort, terminal_width()));
    }
    if (!flush_output()) return kExitError;
    if (options.once) return 0;
    if (!watcher) watcher.emplace(client, options);
    std::optional<Snapshot> next;
    while (!next) {
      std::array<pollfd, 3> watched{
          {{signals.fd(), POLLIN, 0}, {watcher->fd(), POLLIN, 0}, {STDOUT_FILENO, 0, 0}}};
      ::poll(watched.data(), watched.size(), -1);
      if ((watched[2].revents & (POLLERR | POLLHUP)) != 0) return 0;  // The reader has gone.
      if (signals.next_ending()) return 0;
      next = watcher->take();
    }
    seen = *std::move(next);
  }
}

// The drawn state: the newest snapshot, and the position in it.
class View {
 public:
  View(const Settings& settings, TopSort sort, Snapshot first)
      : settings_(settings), sort_(sort), shown_(std::move(first)) {}

  void see(Snapshot seen) {
    if (seen.locks) {
      trouble_.clear();
      shown_ = std::move(seen);
    } else {
      trouble_ = explain(seen.locks.error(), settings_.shown_store);
    }
  }
  void hear(std::string alarm) {
    if (!alarm.empty()) alarm_ = std::move(alarm);
  }

  // false: that is all.
  bool press(Key key, std::size_t page) {
    const std::size_t end = rows_;
    switch (key) {
      case Key::kQuit: return false;
      case Key::kUp: top_ -= std::min<std::size_t>(top_, 1); break;
      case Key::kDown: top_ += 1; break;
      case Key::kPageUp: top_ -= std::min(top_, page); break;
      case Key::kPageDown: top_ += page; break;
      case Key::kHome: top_ = 0; break;
      case Key::kEnd: top_ = end; break;
      case Key::kSort: sort_ = next_sort(sort_); break;
      case Key::kRefresh:
      case Key::kNone: break;
    }
    return true;
  }

  std::vector<Line> lines(std::size_t width, std::size_t height) {
    auto table = top_lines(top_rows(*shown_.locks, sort_, shown_.at), width);
    rows_ = table.size() - 1;
    std::vector<Line> out{{title(*shown_.locks, shown_, settings_, sort_), false}};
    const std::string& trouble = trouble_.empty() ? alarm_ : trouble_;
    if (!trouble.empty()) out.push_back({"! " + trouble, true});
    out.push_back({table.front(), true});
    // Small terminals have no room for the keys.
    const bool keys = height >= out.size() + 4;
    const std::size_t taken = out.size() + (keys ? 1 : 0);
    const std::size_t room = height > taken ? height - taken : 0;
    top_ = std::min(top_, rows_ > room ? rows_ - room : 0);
    for (std::size_t i = 0; i < room && top_ + i < rows_; ++i) {
      out.push_back({table[top_ + i + 1], false});
    }
    if (!keys) return out;
    while (out.size() + 1 < height) out.push_back({});
    out.push_back({keys_text(room), false});
    return out;
  }

 private:
  std::string keys_text(std::size_t room) const {
    std::string out = "q quit  s sort  r look now  arrows, PgUp, PgDn, Home, End scroll";
    if (rows_ > room) {
      out = std::to_string(top_ + 1) + "-" + std::to_string(std::min(top_ + room, rows_)) + " of " +
            std::to_string(rows_) + "  " + out;
    }
    return out;
  }

  const Settings& settings_;
  TopSort sort_;
  Snapshot shown_;
  std::string trouble_;  // Why there is nothing newer.
  std::string alarm_;
  std::size_t top_ = 0;
  std::size_t rows_ = 0;
};

// A program that wants a screen in the background stops, until it is put in front.
void await_front() {
  for (;;) {
    const pid_t front = ::tcgetpgrp(STDIN_FILENO);
    if (front == -1 || front == ::getpgrp() || own_group_is_orphaned()) return;
    stop_self();
  }
}

// Draws until it is over.
void show(Screen& screen, Watcher& watcher, View& view, LastAlarm& alarm, const Signals& signals) {
  for (;;) {
    view.hear(alarm.take());
    screen.draw(view.lines(screen.width(), screen.height()));
    std::array<pollfd, 3> watched{
        {{signals.fd(), POLLIN, 0}, {watcher.fd(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
    ::poll(watched.data(), watched.size(), -1);
    if ((watched[2].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return;  // It is gone.
    if (auto seen = watcher.take()) view.see(*std::move(seen));
    while (const auto key = screen.next_key()) {
      if (!view.press(*key, std::max<std::size_t>(screen.height(), 5) - 4)) return;
      if (*key == Key::kRefresh) watcher.look_now();
    }
    while (const auto signal = signals.next()) {
      if (default_of(*signal) == SignalDefault::kEnds) return;
      if (default_of(*signal) == SignalDefault::kStops) {
        screen.leave();
        stop_self();
        await_front();
      }
      screen.begin_anew();  // Another size, or back from the shell.
    }
  }
}

// A terminal on both sides, which says what it can do.
bool wants_screen(const TopOptions& options) {
  const char* const term = std::getenv("TERM");
  return !options.once && !options.plain && !options.common.json && term != nullptr &&
         *term != '\0' && std::strcmp(term, "dumb") != 0 && ::isatty(STDIN_FILENO) != 0 &&
         ::isatty(STDOUT_FILENO) != 0;
}

}  // namespace

int top_command(const TopOptions& options) {
  const Signals signals;
  const auto alarm = std::make_shared<LastAlarm>();
  const bool screen_wanted = wants_screen(options);
  const Alarms alarms = screen_wanted
                            ? Alarms([alarm](const LogEvent& event) { alarm->hear(event.text); })
                            : alarms_for(options.common);
  return with_client(options.common, alarms, [&](Client& client, const Settings& settings) {
    // Before the screen covers it: what is wrong with the store.
    Snapshot first = Sight(client, options).look();
    if (!first.locks) return fail(first.locks.error(), settings.shown_store);
    Screen screen;
    if (screen_wanted) await_front();
    if (!screen_wanted || !screen.open()) {
      return print_snapshots(client, options, settings, signals, std::move(first));
    }
    Watcher watcher(client, options);
    View view(settings, options.sort, std::move(first));
    show(screen, watcher, view, *alarm, signals);
    screen.close();
    return 0;
  });
}

}  // namespace holdfast::cli
