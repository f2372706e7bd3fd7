#include "lab/history/text.h"

#include <array>
#include <bitset>
#include <charconv>
#include <istream>
#include <ostream>
#include <utility>
#include <vector>

namespace holdfast::lab {
namespace {

template <typename Int>
requires std::is_integral_v<Int>
bool parse(std::string_view text, Int& value, int base = 10) {
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value, base);
  return problem == std::errc{} && stop == end && !text.empty();
}

bool parse(std::string_view text, Id& id) {
  return text.size() == 32 && parse(text.substr(0, 16), id.high, 16) &&
         parse(text.substr(16), id.low, 16);
}

bool parse(std::string_view text, Token& token) {
  const std::size_t dot = text.find('.');
  return dot != std::string_view::npos && parse(text.substr(0, dot), token.epoch) &&
         parse(text.substr(dot + 1), token.counter);
}

template <typename Enum>
requires std::is_enum_v<Enum>
bool parse(std::string_view text, Enum& value) {
  const std::optional<Enum> found = named<Enum>(text);
  value = found.value_or(value);
  return found.has_value();
}

template <typename Int>
requires std::is_integral_v<Int> std::string print(Int value) { return std::to_string(value); }

std::string print(Id id) {
  std::string text(32, '0');
  for (std::size_t i = 0; i < 32; ++i) {
    const std::uint64_t half = i < 16 ? id.high : id.low;
    text[i] = "0123456789abcdef"[(half >> (60 - 4 * (i % 16))) & 15];
  }
  return text;
}

std::string print(Token token) {
  return std::to_string(token.epoch) + "." + std::to_string(token.counter);
}

template <typename Enum>
requires std::is_enum_v<Enum> std::string print(Enum value) { return std::string(name_of(value)); }

// The optional fields of a line, in their order.
struct Field {
  std::string_view key;
  bool (*read)(std::string_view, Event&);
  std::string (*write)(const Event&);  // Returns an empty text for the default.
};

template <auto Member>
constexpr Field field(std::string_view key) {
  return {key, [](std::string_view text, Event& event) { return parse(text, event.*Member); },
          [](const Event& event) {
            const bool is_default = event.*Member == Event{}.*Member;
            return is_default ? std::string() : print(event.*Member);
          }};
}

constexpr std::array kFields = {
    field<&Event::process>("p"),
    field<&Event::owner>("owner"),
    field<&Event::call>("call"),
    field<&Event::outcome>("outcome"),
    field<&Event::mode>("mode"),
    field<&Event::fault>("fault"),
    field<&Event::lock>("lock"),
    field<&Event::target>("target"),
    field<&Event::count>("count"),
    field<&Event::capacity>("capacity"),
    field<&Event::id>("id"),
    field<&Event::token>("token"),
    field<&Event::seen>("seen"),
    field<&Event::ttl_ns>("ttl"),
    field<&Event::wait_ns>("wait"),
    field<&Event::deadline_ns>("deadline"),
    field<&Event::sequence>("sequence"),
};

// Cuts the text before the next space off `rest`.
std::string_view next_word(std::string_view& rest) {
  const std::size_t space = rest.find(' ');
  const std::string_view word = rest.substr(0, space);
  rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
  return word;
}

// The error in the fields; empty if there is none.
std::string read_fields(std::string_view rest, Event& event) {
  std::bitset<kFields.size()> met;
  while (!rest.empty()) {
    const std::string_view word = next_word(rest);
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) return "'" + std::string(word) + "' is not key=value";
    std::size_t i = 0;
    while (i < kFields.size() && kFields[i].key != word.substr(0, equals)) ++i;
    if (i == kFields.size()) return "unknown field in '" + std::string(word) + "'";
    if (met.test(i)) return "field twice: '" + std::string(word) + "'";
    met.set(i);
    if (!kFields[i].read(word.substr(equals + 1), event)) {
      return "bad value in '" + std::string(word) + "'";
    }
  }
  return {};
}

}  // namespace

std::string to_line(const Event& event) {
  std::string line = std::to_string(event.at_ns);
  line.append(" ").append(name_of(event.kind)).append(" ").append(name_of(event.phase));
  for (const Field& field : kFields) {
    const std::string value = field.write(event);
    if (!value.empty()) line.append(" ").append(field.key).append("=").append(value);
  }
  return line;
}

void write(const History& history, std::ostream& out) {
  out << "holdfast-history " << kTextVersion << '\n';
  if (const auto& limits = history.limits) {
    out << "limits " << limits->wake_ns << ' ' << limits->grace_ns << ' '
        << (limits->busy ? "yes" : "no") << ' ' << limits->linger_ns
        << (limits->extends ? " extends" : "") << (limits->fenced ? "" : " unfenced") << '\n';
  }
  for (const std::string& name : history.locks) out << "lock " << name << '\n';
  for (const std::string& name : history.targets) out << "target " << name << '\n';
  for (const Event& event : history.events) out << to_line(event) << '\n';
  out << "end " << history.events.size() << '\n';
}

Error TextReader::malformed(const std::string& why) const {
  return {Errc::kInvalidArgument, "history, line " + std::to_string(line_) + ": " + why};
}

Result<void> TextReader::take_limits(std::string_view line) {
  next_word(line);
  Limits limits;
  const bool read = parse(next_word(line), limits.wake_ns) && limits.wake_ns >= 0 &&
                    parse(next_word(line), limits.grace_ns) && limits.grace_ns >= 0;
  const std::string_view busy = next_word(line);
  // Histories of earlier versions have no more.
  const bool earlier = line.empty();
  const bool lingers =
      earlier || (parse(next_word(line), limits.linger_ns) && limits.linger_ns >= 0);
  const auto take = [&line](std::string_view word) {
    std::string_view rest = line;
    if (next_word(rest) != word) return false;
    line = rest;
    return true;
  };
  limits.extends = take("extends");
  limits.fenced = !take("unfenced");
  if (!read || !lingers || !line.empty() || (busy != "yes" && busy != "no")) {
    return malformed("not 'limits WAKE GRACE yes|no LINGERS [extends] [unfenced]'");
  }
  if (history_.limits) return malformed("limits twice");
  if (!history_.events.empty()) return malformed("limits after the first event");
  limits.busy = busy == "yes";
  history_.limits = limits;
  return {};
}

Result<void> TextReader::take_name(std::string_view line) {
  const bool is_lock = line.substr(0, 5) == "lock ";
  const std::string_view name = line.substr(is_lock ? 5 : 7);
  if (name.empty()) return malformed("a name without a name");
  if (!history_.events.empty()) return malformed("a name after the first event");
  (is_lock ? history_.locks : history_.targets).emplace_back(name);
  return {};
}

Result<void> TextReader::take_event(std::string_view line) {
  Event event;
  if (!parse(next_word(line), event.at_ns)) return malformed("does not begin with a stamp");
  if (!parse(next_word(line), event.kind)) return malformed("unknown kind of event");
  if (!parse(next_word(line), event.phase)) return malformed("unknown phase");
  const std::string why = read_fields(line, event);
  if (!why.empty()) return malformed(why);
  const bool of_target = event.kind == Kind::kFault || event.kind == Kind::kIncarnation;
  if (!of_target && event.kind != Kind::kDeath && event.lock >= history_.locks.size()) {
    return malformed("lock " + std::to_string(event.lock) + " has no name");
  }
  if (of_target && event.target >= history_.targets.size()) {
    return malformed("target " + std::to_string(event.target) + " has no name");
  }
  const bool marks = event.kind == Kind::kLost || event.kind == Kind::kDeath;
  if (marks != (event.phase == Phase::kMark)) return malformed("a phase this kind does not have");
  if (is_call(event.kind) && event.call == 0) return malformed("a call without a number");
  if (!history_.events.empty() && event.at_ns < history_.events.back().at_ns) {
    return malformed("earlier than the line before");
  }
  history_.events.push_back(event);
  return {};
}

// A history without its tail could look clean, so the end line is required.
Result<void> TextReader::take_end(std::string_view line) {
  std::size_t events = 0;
  if (!parse(line.substr(4), events)) return malformed("'end' without a number of events");
  if (events != history_.events.size()) {
    return malformed("'end' counts " + std::to_string(events) + " events, but the file has " +
                     std::to_string(history_.events.size()));
  }
  ended_ = true;
  return {};
}

Result<void> TextReader::take(std::string_view line) {
  ++line_;
  if (line.empty() || line.front() == '#') return {};
  if (!headed_) {
    if (line.substr(0, 17) != "holdfast-history ") return malformed("not a history of the lab");
    if (line.substr(17) != std::to_string(kTextVersion)) {
      return Error(Errc::kVersionMismatch, "history: version " + std::string(line.substr(17)) +
                                               ", this program reads version " +
                                               std::to_string(kTextVersion));
    }
    headed_ = true;
    return {};
  }
  if (ended_) return malformed("more after the end");
  if (line.substr(0, 4) == "end ") return take_end(line);
  if (line.substr(0, 7) == "limits ") return take_limits(line);
  if (line.substr(0, 5) == "lock " || line.substr(0, 7) == "target ") return take_name(line);
  return take_event(line);
}

Result<History> TextReader::finish() && {
  if (!headed_) return malformed("ends before its first line");
  if (!ended_) return malformed("cut off behind this line: there is no 'end'");
  return std::move(history_);
}

Result<History> read(std::istream& in) {
  TextReader reader;
  std::vector<char> line(kLongestLine + 1);
  std::uint64_t size = 0;
  while (in.getline(line.data(), static_cast<std::streamsize>(line.size()))) {
    const auto taken = static_cast<std::size_t>(in.gcount());
    size += taken;
    if (size > kLongestText) {
      return Error(Errc::kInvalidArgument, "longer than a history can be (2 GiB)");
    }
    // The end of the line counts, if there is one.
    const std::string_view text(line.data(), taken - (in.eof() ? 0 : 1));
    if (Result<void> read = reader.take(text); !read) return read.error();
  }
  if (!in.eof()) {
    return Error(Errc::kInvalidArgument, "not a history of the lab: a line of more than 64 KiB");
  }
  return std::move(reader).finish();
}

}  // namespace holdfast::lab
