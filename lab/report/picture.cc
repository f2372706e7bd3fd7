#include "lab/report/picture.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "lab/checker/ledger.h"
#include "lab/checker/spans.h"
#include "lab/report/counts.h"

namespace holdfast::lab {
namespace {

using RowKey = std::pair<std::uint32_t, std::uint64_t>;  // Lock, owner.

struct Window {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool touches(std::int64_t from, std::int64_t to) const { return to >= begin && from <= end; }
};

std::string in_ms(const Picture& picture, std::int64_t at) {
  return at == kNever ? "never" : span_text(at - picture.zero);
}

class Painter {
 public:
  Painter(const History& history, const Verdict& verdict,
          const std::map<std::uint32_t, std::string>& names, const PictureLimits& limits)
      : history_(history),
        verdict_(verdict),
        names_(names),
        limits_(limits),
        ledger_(take_apart(history)) {
    picture_.locks = history.locks;
    if (history.events.empty()) return;
    picture_.zero = history.events.front().at_ns;
    whole_ = {picture_.zero, history.events.back().at_ns};
  }

  Picture paint() && {
    if (history_.events.empty()) {
      picture_.notes.emplace_back("nothing was recorded");
      return std::move(picture_);
    }
    for (std::uint32_t i = 0; i < ledger_.acquisitions.size(); ++i) add_hold(i);
    for (const Attempt& attempt : ledger_.attempts) add_attempt(attempt);
    add_marks();
    choose_window();
    choose_rows();
    add_bands();
    add_boxes();
    return std::move(picture_);
  }

 private:
  Row& row(std::uint32_t lock, std::uint64_t owner) {
    Row& found = rows_[{lock, owner}];
    if (found.label.empty()) {
      found.lock = lock;
      found.owner = owner;
      found.label = std::to_string(owner >> 32) + "/" + std::to_string(owner & 0xFFFFFFFFU);
      const auto name = names_.find(static_cast<std::uint32_t>(owner >> 32));
      if (name != names_.end() && !name->second.empty()) found.label += " " + name->second;
    }
    return found;
  }

  void add_hold(std::uint32_t index) {
    const Acquisition& one = ledger_.acquisitions[index];
    Row& into = row(one.lock, one.owner);
    add_wait(into, one.acquire, "granted");
    std::vector<Span> spans;
    append_beliefs(one, index, spans);
    for (const Span& span : spans) {
      const std::string token = one.token == Token{} ? "" : "token " + token_text(one.token);
      std::string title = "held from " + in_ms(picture_, span.start) + " to " +
                          in_ms(picture_, span.end) + (token.empty() ? "" : ", " + token);
      const std::int64_t end = std::min(span.end, whole_.end);
      into.bars.push_back(
          {static_cast<BarKind>(one.mode), span.start, end, token, std::move(title)});
    }
  }

  void add_wait(Row& into, const Call& call, const std::string& how) {
    into.bars.push_back({BarKind::kWaiting, call.invoked, std::min(call.returned, whole_.end), "",
                         "asked at " + in_ms(picture_, call.invoked) + ", " + how + " at " +
                             in_ms(picture_, call.returned)});
  }

  void add_attempt(const Attempt& attempt) {
    const Event& begun = ledger_.event(attempt.call.invoke);
    Row& into = row(attempt.lock, owner_of(begun));
    Call call = attempt.call;
    if (attempt.outcome == Outcome::kNone) call.returned = std::min(attempt.died, whole_.end);
    const bool pending = attempt.outcome == Outcome::kNone;
    const std::string how = pending ? "no answer" : std::string(name_of(attempt.outcome));
    add_wait(into, call, how);
    if (!pending) {
      into.marks.push_back(
          {MarkKind::kBusy, call.returned, how + " at " + in_ms(picture_, call.returned)});
    }
  }

  void add_marks() {
    for (const Event& event : history_.events) {
      if (event.kind == Kind::kWrite && event.phase == Phase::kReturn) {
        const bool accepted = event.outcome == Outcome::kAccepted;
        if (!accepted && event.outcome != Outcome::kRefused) continue;
        row(event.lock, owner_of(event))
            .marks.push_back({accepted ? MarkKind::kAccepted : MarkKind::kRefused, event.at_ns,
                              "write with token " + token_text(event.token) + " " +
                                  std::string(name_of(event.outcome))});
      } else if (event.kind == Kind::kLost) {
        row(event.lock, owner_of(event))
            .marks.push_back({MarkKind::kLost, event.at_ns, "told that it is lost"});
      } else if (event.kind == Kind::kDeath) {
        deaths_.emplace_back(event.process, event.at_ns);
      }
    }
    for (const auto& [process, at] : deaths_) {
      for (auto& [key, of_row] : rows_) {
        if (key.second >> 32 != process) continue;
        of_row.marks.push_back({MarkKind::kDeath, at, "died at " + in_ms(picture_, at)});
      }
    }
  }

  std::size_t bars_in(const Window& window) const {
    std::size_t count = 0;
    for (const auto& [key, of_row] : rows_) {
      for (const Bar& bar : of_row.bars) count += window.touches(bar.begin, bar.end) ? 1 : 0;
    }
    return count;
  }

  // The time of a violation: both its events, and its interval.
  Window extent(const Violation& violation) const {
    const std::int64_t first = ledger_.event(violation.first).at_ns;
    const std::int64_t second = ledger_.event(violation.second).at_ns;
    return {std::min({first, second, violation.begin_ns}),
            std::min(std::max({first, second, violation.end_ns}), whole_.end)};
  }

  // The window is the whole run if it fits. Otherwise it surrounds the first violation, or the
  // first fault, or shows the beginning.
  void choose_window() {
    Window window = whole_;
    const std::size_t all = bars_in(window);
    if (all > limits_.bars) {
      const std::string of_all = std::to_string(all) + " spans";
      const std::string lasted = seconds_text(whole_.end - whole_.begin);
      if (const auto what = first_of_interest()) {
        window = around(what->second);
        picture_.notes.push_back("a part: around the first " + what->first + "; the run has " +
                                 of_all + ", over " + lasted);
      } else {
        window.end = end_of_beginning();
        picture_.notes.push_back("a part: the first " + std::to_string(limits_.bars) + " of " +
                                 of_all + "; the run lasted " + lasted);
      }
    }
    const std::int64_t room = std::max<std::int64_t>((window.end - window.begin) / 50, 1000);
    picture_.begin = window.begin;
    picture_.end = window.end + room;
    shown_ = {picture_.begin, picture_.end};
  }

  // Its name, and its time.
  std::optional<std::pair<std::string, Window>> first_of_interest() const {
    const auto& violations = verdict_.violations;
    if (!violations.empty()) {
      const auto earlier = [](const Violation& a, const Violation& b) {
        return a.begin_ns < b.begin_ns;
      };
      return {
          {"violation", extent(*std::min_element(violations.begin(), violations.end(), earlier))}};
    }
    // The scenario did not cause a standstill of the host, so it is left out.
    const auto done = [&](const Call& fault) {
      return ledger_.event(fault.invoke).fault != FaultKind::kStall;
    };
    const auto first = std::find_if(ledger_.faults.begin(), ledger_.faults.end(), done);
    if (first == ledger_.faults.end()) return std::nullopt;
    const Window whole{first->invoked, std::min(first->returned, whole_.end)};
    // If the whole fault has too many bars, shows its beginning.
    if (bars_in(whole) > limits_.bars) return {{"fault", {whole.begin, whole.begin}}};
    return {{"fault", whole}};
  }

  // The instant until which all bars fit.
  std::int64_t end_of_beginning() const {
    std::vector<std::int64_t> begins;
    for (const auto& [key, of_row] : rows_) {
      for (const Bar& bar : of_row.bars) begins.push_back(bar.begin);
    }
    const auto last = begins.begin() + static_cast<std::ptrdiff_t>(limits_.bars);
    std::nth_element(begins.begin(), last, begins.end());
    return std::max(*last, whole_.begin + 1);
  }

  Window around(const Window& core) const {
    std::int64_t margin = whole_.end - whole_.begin;
    Window window = whole_;
    while (margin > 1 && bars_in(window) > limits_.bars) {
      margin /= 2;
      window = {std::max(core.begin - margin, whole_.begin),
                std::min(core.end + margin, whole_.end)};
    }
    return window;
  }

  std::set<RowKey> rows_of(const Violation& violation) const {
    std::set<RowKey> found;
    for (const std::size_t index : {violation.first, violation.second}) {
      const Event& event = ledger_.event(index);
      const RowKey key{event.lock, owner_of(event)};
      if (event.kind <= Kind::kLost && rows_.count(key) != 0) found.insert(key);
    }
    return found;
  }

  void choose_rows() {
    std::vector<RowKey> chosen;
    std::set<RowKey> needed;
    for (const Violation& violation : verdict_.violations) {
      const Window window = extent(violation);
      if (!shown_.touches(window.begin, window.end)) continue;
      needed.merge(rows_of(violation));
    }
    std::size_t others = limits_.rows - std::min(limits_.rows, needed.size());
    std::size_t left_out = 0;
    for (auto& [key, of_row] : rows_) {
      std::erase_if(of_row.bars, [&](const Bar& b) { return !shown_.touches(b.begin, b.end); });
      std::erase_if(of_row.marks, [&](const Mark& m) { return !shown_.touches(m.at, m.at); });
      const bool empty = of_row.bars.empty() && of_row.marks.empty();
      if (needed.count(key) == 0) {
        if (empty) continue;
        if (others == 0) {
          ++left_out;
          continue;
        }
        --others;
      }
      row_number_[key] = picture_.rows.size();
      picture_.rows.push_back(std::move(of_row));
    }
    if (left_out > 0) {
      picture_.notes.push_back(std::to_string(left_out) + " more owners are not drawn");
    }
  }

  void add_bands() {
    for (const std::vector<Call>* calls : {&ledger_.faults, &ledger_.incarnations}) {
      for (const Call& call : *calls) {
        if (!shown_.touches(call.invoked, call.returned)) continue;
        const Event& event = ledger_.event(call.invoke);
        Band band{call.invoked, std::min(call.returned, shown_.end), false, ""};
        band.incarnation = event.kind == Kind::kIncarnation;
        const std::string target =
            event.target < history_.targets.size() ? " " + history_.targets[event.target] : "";
        band.label = band.incarnation ? "memory lost" : std::string(name_of(event.fault));
        band.label += target;
        picture_.bands.push_back(std::move(band));
      }
    }
  }

  void add_boxes() {
    std::size_t elsewhere = 0;
    for (std::size_t i = 0; i < verdict_.violations.size(); ++i) {
      const Violation& violation = verdict_.violations[i];
      Window window = extent(violation);
      if (!shown_.touches(window.begin, window.end)) {
        ++elsewhere;
        continue;
      }
      if (violation.end_ns > violation.begin_ns) {
        window = {violation.begin_ns, std::min(violation.end_ns, whole_.end)};
      }
      Box box{i + 1,
              window.begin,
              window.end,
              {},
              std::string(name_of(violation.kind)) + " " + violation.message};
      for (const RowKey& key : rows_of(violation)) box.rows.push_back(row_number_.at(key));
      picture_.boxes.push_back(std::move(box));
    }
    std::size_t counted = 0;
    for (const std::size_t count : verdict_.counts) counted += count;
    elsewhere += counted - std::min(counted, verdict_.violations.size());
    if (elsewhere > 0) {
      picture_.notes.push_back(std::to_string(elsewhere) + " more violations are not drawn");
    }
  }

  const History& history_;
  const Verdict& verdict_;
  const std::map<std::uint32_t, std::string>& names_;
  const PictureLimits& limits_;
  Ledger ledger_;
  Picture picture_;
  Window whole_;
  Window shown_;
  std::map<RowKey, Row> rows_;
  std::map<RowKey, std::size_t> row_number_;
  std::vector<std::pair<std::uint32_t, std::int64_t>> deaths_;
};

}  // namespace

Picture make_picture(const History& history, const Verdict& verdict,
                     const std::map<std::uint32_t, std::string>& names,
                     const PictureLimits& limits) {
  return Painter(history, verdict, names, limits).paint();
}

}  // namespace holdfast::lab
