#include "lab/report/timeline.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ostream>
#include <string_view>
#include <utility>

#include "lab/report/utf8.h"

namespace holdfast::lab {
namespace {

constexpr double kWidth = 1200;
constexpr double kLeft = 210;
constexpr double kRight = 1180;
constexpr double kRowHeight = 32;
constexpr double kLockHeight = 28;
constexpr double kLaneHeight = 18;
constexpr double kTextHeight = 19;
constexpr std::size_t kLanes = 3;
constexpr std::size_t kWordsOf = 8;    // Violations described below the picture.
constexpr std::size_t kColumns = 165;  // Width of a line of words.
constexpr double kLetter = 7;          // Its approximate width.

constexpr std::string_view kStyle = R"(<style>
  text { font: 13px sans-serif; fill: #222; }
  .heading { font: bold 18px sans-serif; }
  .lock { font: bold 14px sans-serif; }
  .note { fill: #555; }
  .inside { font: 12px sans-serif; fill: #fff; }
  .tick { font: 12px sans-serif; fill: #555; text-anchor: middle; }
  .grid { stroke: #e4e4e4; }
  .line { stroke: #999; }
  .exclusive { fill: #2f6fb5; }
  .shared { fill: #23877a; }
  .permits { fill: #7d5ba6; }
  .waiting { fill: #e6e6e6; stroke: #8a8a8a; stroke-dasharray: 3 2; }
  .fault { fill: #f2a93b; fill-opacity: 0.25; }
  .fault-edge { stroke: #c9801a; stroke-dasharray: 4 3; }
  .fault-name { fill: #8a5200; }
  .incarnation { fill: #7d3c98; fill-opacity: 0.2; }
  .incarnation-edge { stroke: #7d3c98; stroke-width: 2; }
  .incarnation-name { fill: #5f2c75; }
  .death { stroke: #000; stroke-width: 3; fill: none; }
  .lost { fill: #fff; stroke: #b8860b; stroke-width: 2; }
  .busy { fill: #fff; stroke: #777; stroke-width: 1.5; }
  .accepted { fill: #1e8449; }
  .refused { fill: #fff; stroke: #1e8449; stroke-width: 1.5; }
  .violation rect { fill: #d1242f; fill-opacity: 0.14; stroke: #d1242f; stroke-width: 2.5; }
  .violation line { stroke: #d1242f; stroke-width: 1.5; stroke-dasharray: 2 3; }
  .violation circle { fill: #d1242f; }
  .violation text { font: bold 12px sans-serif; fill: #fff; text-anchor: middle; }
  .words { fill: #a40e26; }
</style>
)";

std::string number(double value, int decimals = 1) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::fixed, decimals);
  return {text.data(), end.ptr};
}

std::string_view class_of(BarKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"exclusive", "shared", "permits", "waiting"};
  return kNames[static_cast<std::size_t>(kind)];
}

// The distance of ticks: 1, 2 or 5 times a power of ten, with about ten ticks in `span`.
double tick_step(double span) {
  const double raw = span / 10;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

class Drawing {
 public:
  Drawing(const Picture& picture, std::ostream& out) : picture_(picture), out_(out) {}

  void draw(const std::string& heading) {
    lay_out();
    out_ << R"(<svg xmlns="http://www.w3.org/2000/svg" width=")" << number(kWidth, 0)
         << "\" height=\"" << number(height_, 0) << R"(" viewBox="0 0 )" << number(kWidth, 0) << " "
         << number(height_, 0) << "\">\n"
         << kStyle << R"(<rect width="100%" height="100%" fill="#fff"/>)"
         << "\n";
    text(12, 28, "heading", shortened(heading, 110));
    text(12, 50, "note", subtitle());
    legend(76);
    axis();
    for (const auto& [band, lane] : lanes_) draw_band(*band, lane);
    draw_locks();
    for (std::size_t i = 0; i < picture_.rows.size(); ++i) draw_row(i);
    for (const Box& box : picture_.boxes) draw_box(box);
    draw_marks();
    words();
    out_ << "</svg>\n";
  }

 private:
  double x(std::int64_t at) const {
    const double share =
        static_cast<double>(at - picture_.begin) /
        static_cast<double>(std::max<std::int64_t>(picture_.end - picture_.begin, 1));
    return kLeft + std::clamp(share, 0.0, 1.0) * (kRight - kLeft);
  }

  void lay_out() {
    assign_lanes();
    top_ = 94 + kLaneHeight * static_cast<double>(lane_ends_.size());
    double y = top_;
    for (std::size_t i = 0; i < picture_.rows.size(); ++i) {
      if (i == 0 || picture_.rows[i].lock != picture_.rows[i - 1].lock) y += kLockHeight;
      row_y_.push_back(y);
      y += kRowHeight;
    }
    bottom_ = std::max(y, top_ + kRowHeight) + 4;
    std::size_t lines = 0;
    for (std::size_t i = 0; i < std::min(kWordsOf, picture_.boxes.size()); ++i) {
      const Box& box = picture_.boxes[i];
      told_.push_back(wrapped(std::to_string(box.number) + "  " + box.title, kColumns));
      lines += told_.back().size();
    }
    height_ = bottom_ + 34 + kTextHeight * static_cast<double>(lines) + 12;
  }

  // Places the bands' names on up to three lines so that they do not collide. A band without room
  // gets no name.
  void assign_lanes() {
    for (const Band& band : picture_.bands) {
      const double begin = x(band.begin);
      const double end = begin + kLetter * static_cast<double>(band.label.size()) + 10;
      std::size_t lane = 0;
      while (lane < lane_ends_.size() && lane_ends_[lane] > begin) ++lane;
      if (lane < kLanes) {
        if (lane == lane_ends_.size()) lane_ends_.push_back(0);
        lane_ends_[lane] = end;
      }
      lanes_.emplace_back(&band, lane);
    }
  }

  std::string subtitle() const {
    std::string text = "seconds since the first event";
    for (const std::string& note : picture_.notes) text += "; " + note;
    return shortened(text, 170);
  }

  void text(double at_x, double at_y, std::string_view kind, const std::string& what) {
    out_ << "<text x=\"" << number(at_x) << "\" y=\"" << number(at_y) << "\" class=\"" << kind
         << "\">" << xml_text(what) << "</text>\n";
  }
  void line(double x1, double y1, double x2, double y2, std::string_view kind) {
    out_ << "<line x1=\"" << number(x1) << "\" y1=\"" << number(y1) << "\" x2=\"" << number(x2)
         << "\" y2=\"" << number(y2) << "\" class=\"" << kind << "\"/>\n";
  }
  // `inside`: elements, already escaped.
  void rect(double at_x, double at_y, double width, double height, std::string_view kind,
            const std::string& inside = "") {
    out_ << "<rect x=\"" << number(at_x) << "\" y=\"" << number(at_y) << "\" width=\""
         << number(width) << "\" height=\"" << number(height) << "\"";
    if (!kind.empty()) out_ << " class=\"" << kind << "\"";
    out_ << (inside.empty() ? "/>" : ">" + inside + "</rect>") << "\n";
  }
  static std::string title(const std::string& what) {
    return "<title>" + xml_text(what) + "</title>";
  }

  void legend(double y) {
    double at = 12;
    const auto item = [&](double width, const std::string& what) {
      text(at + width + 6, y, "", what);
      at += width + 6 + kLetter * static_cast<double>(what.size()) + 16;
    };
    for (const auto& [kind, what] :
         {std::pair(BarKind::kExclusive, "held"), std::pair(BarKind::kShared, "shared"),
          std::pair(BarKind::kPermits, "permits")}) {
      rect(at, y - 13, 22, 16, class_of(kind));
      item(22, what);
    }
    rect(at, y - 9, 22, 8, "waiting");
    item(22, "waiting");
    rect(at, y - 13, 22, 16, "fault");
    item(22, "fault");
    for (const auto& [kind, what] :
         {std::pair(MarkKind::kDeath, "death"), std::pair(MarkKind::kLost, "told lost"),
          std::pair(MarkKind::kBusy, "not granted"),
          std::pair(MarkKind::kAccepted, "write accepted"),
          std::pair(MarkKind::kRefused, "write refused")}) {
      draw_mark({kind, 0, ""}, at + 7, kind >= MarkKind::kAccepted ? y - 12 : y - 5);
      item(14, what);
    }
    out_ << "<g class=\"violation\" data-legend=\"1\">";
    rect(at, y - 13, 22, 16, "");
    out_ << "</g>\n";
    item(22, "violation");
  }

  void axis() {
    const double span = static_cast<double>(picture_.end - picture_.begin) / 1e9;
    const double step = tick_step(std::max(span, 1e-9));
    const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
    const double from = static_cast<double>(picture_.begin - picture_.zero) / 1e9;
    for (double at = std::ceil(from / step - 1e-6) * step; at <= from + span; at += step) {
      const double tick = x(picture_.zero + static_cast<std::int64_t>(std::llround(at * 1e9)));
      line(tick, top_, tick, bottom_, "grid");
      text(tick, bottom_ + 18, "tick", number(std::abs(at) < step / 2 ? 0 : at, decimals) + " s");
    }
    line(kLeft, bottom_, kRight, bottom_, "line");
  }

  void draw_band(const Band& band, std::size_t lane) {
    const std::string kind = band.incarnation ? "incarnation" : "fault";
    const double begin = x(band.begin);
    rect(begin, top_, std::max(x(band.end) - begin, 1.0), bottom_ - top_, kind, title(band.label));
    line(begin, top_, begin, bottom_, kind + "-edge");
    if (lane >= kLanes) return;
    // A name that would leave the picture is shifted to end at its edge.
    const double room = (kRight - begin) / kLetter;
    const double shift = std::max(0.0, (static_cast<double>(band.label.size()) - room) * kLetter);
    text(begin + 2 - shift, top_ - 5 - kLaneHeight * static_cast<double>(lane), kind + "-name",
         band.label);
  }

  void draw_locks() {
    for (std::size_t i = 0; i < picture_.rows.size(); ++i) {
      const std::uint32_t lock = picture_.rows[i].lock;
      if (i > 0 && lock == picture_.rows[i - 1].lock) continue;
      const double y = row_y_[i] - kLockHeight;
      line(12, y, kRight, y, "line");
      const std::string name = lock < picture_.locks.size() ? picture_.locks[lock] : "?";
      text(12, y + 19, "lock", "lock " + shortened(name, 100));
    }
  }

  void draw_row(std::size_t index) {
    const Row& row = picture_.rows[index];
    const double middle = row_y_[index] + kRowHeight / 2;
    line(kLeft, middle, kRight, middle, "grid");
    text(24, middle + 4, "", shortened(row.label, 25));
    for (const Bar& bar : row.bars) {
      if (bar.kind == BarKind::kWaiting) draw_bar(bar, middle);
    }
    for (const Bar& bar : row.bars) {
      if (bar.kind != BarKind::kWaiting) draw_bar(bar, middle);
    }
  }

  // Drawn over the boxes.
  void draw_marks() {
    for (std::size_t i = 0; i < picture_.rows.size(); ++i) {
      for (const Mark& mark : picture_.rows[i].marks) {
        draw_mark(mark, x(mark.at), row_y_[i] + kRowHeight / 2);
      }
    }
  }

  void draw_bar(const Bar& bar, double middle) {
    const double begin = x(bar.begin);
    const double width = std::max(x(bar.end) - begin, 1.5);
    const double height = bar.kind == BarKind::kWaiting ? 8 : 18;
    rect(begin, middle - height / 2, width, height, class_of(bar.kind), title(bar.title));
    if (kLetter * static_cast<double>(bar.label.size()) + 8 > width || bar.label.empty()) return;
    text(begin + 5, middle + 4, "inside", bar.label);
  }

  void draw_mark(const Mark& mark, double at, double middle) {
    const auto begin = [&](std::string_view element, std::string_view kind) {
      out_ << "<" << element << " class=\"" << kind << "\" ";
    };
    const auto shift = [&](double dx, double dy) {
      return number(at + dx) + " " + number(middle + dy) + " ";
    };
    switch (mark.kind) {
      case MarkKind::kDeath:
        begin("path", "death");
        out_ << "d=\"M" << shift(-6, -6) << "L" << shift(6, 6) << "M" << shift(-6, 6) << "L"
             << shift(6, -6) << "\">" << title(mark.title) << "</path>\n";
        return;
      case MarkKind::kLost:
        begin("path", "lost");
        out_ << "d=\"M" << shift(0, -7) << "L" << shift(6, 0) << "L" << shift(0, 7) << "L"
             << shift(-6, 0) << "Z\">" << title(mark.title) << "</path>\n";
        return;
      case MarkKind::kBusy:
        begin("circle", "busy");
        out_ << "cx=\"" << number(at) << "\" cy=\"" << number(middle) << "\" r=\"4.5\">"
             << title(mark.title) << "</circle>\n";
        return;
      case MarkKind::kAccepted:
      case MarkKind::kRefused:
        begin("path", mark.kind == MarkKind::kAccepted ? "accepted" : "refused");
        out_ << "d=\"M" << shift(0, 3) << "L" << shift(6, 13) << "L" << shift(-6, 13) << "Z\">"
             << title(mark.title) << "</path>\n";
        return;
    }
  }

  void draw_box(const Box& box) {
    const double left = x(box.begin) - 2;
    const double width = std::max(x(box.end) - left + 2, 8.0);
    out_ << "<g class=\"violation\" data-number=\"" << box.number << "\">" << title(box.title)
         << "\n";
    double badge_y = top_ + 10;
    if (box.rows.empty()) {
      rect(left, top_, width, bottom_ - top_, "");
    } else {
      badge_y = row_y_[box.rows.front()] + 3;
      for (const std::size_t row : box.rows) rect(left, row_y_[row] + 3, width, kRowHeight - 6, "");
      const double middle = left + width / 2;
      line(middle, row_y_[box.rows.front()] + kRowHeight - 3, middle, row_y_[box.rows.back()] + 3,
           "");
    }
    const double badge_x = free_place(left + 2, badge_y);
    out_ << "<circle cx=\"" << number(badge_x) << "\" cy=\"" << number(badge_y) << "\" r=\"9\"/>";
    text(badge_x, badge_y + 4.5, "", std::to_string(box.number));
    out_ << "</g>\n";
  }

  // Moves a badge aside if another one has its place.
  double free_place(double at, double y) {
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& [other_x, other_y] : badges_) {
        if (std::abs(other_y - y) > 1 || std::abs(other_x - at) > 18) continue;
        at = other_x + 19;
        moved = true;
      }
    }
    badges_.emplace_back(at, y);
    return at;
  }

  void words() {
    double y = bottom_ + 48;
    for (const std::vector<std::string>& lines : told_) {
      for (const std::string& words_of_line : lines) {
        text(12, y, "words", words_of_line);
        y += kTextHeight;
      }
    }
  }

  const Picture& picture_;
  std::ostream& out_;
  double top_ = 0;
  double bottom_ = 0;
  double height_ = 0;
  std::vector<double> row_y_;
  std::vector<double> lane_ends_;
  std::vector<std::pair<const Band*, std::size_t>> lanes_;
  std::vector<std::vector<std::string>> told_;
  std::vector<std::pair<double, double>> badges_;
};

}  // namespace

std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char c : valid_utf8(text)) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&apos;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

void draw(const Picture& picture, const std::string& heading, std::ostream& out) {
  Drawing(picture, out).draw(heading);
}

}  // namespace holdfast::lab
