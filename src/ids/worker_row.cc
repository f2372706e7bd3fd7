#include "src/ids/worker_row.h"

#include <utility>
#include <vector>

#include "holdfast/detail/number.h"
#include "src/base/fnv.h"
#include "src/base/random.h"

namespace holdfast::ids {
namespace {

constexpr std::string_view kFileHead = "holdfast-ids ";
constexpr std::string_view kVersion = "1";
constexpr std::string_view kWorkerHead = "holdfast-id-worker 1";

// Lines of "name value", a line with the sum of those before, and zeros up to the row's end.
class Writer {
 public:
  explicit Writer(std::string head) : text_(std::move(head) + "\n") {}

  Writer& add(std::string_view name, const std::string& value) {
    text_.append(name).append(" ").append(value).append("\n");
    return *this;
  }
  template <typename Number>
  Writer& add_number(std::string_view name, Number value) {
    return add(name, std::to_string(value));
  }
  std::string row() {
    text_ += "sum " + base::to_hex(0, base::fnv1a(text_)) + "\n";
    text_.resize(kRowBytes, '\0');
    return std::move(text_);
  }

 private:
  std::string text_;
};

// Reads the lines back, in their order; everything must be there.
class Reader {
 public:
  explicit Reader(std::string_view bytes) {
    const std::size_t sum = bytes.find("sum ");
    if (bytes.size() != kRowBytes || sum == bytes.npos) return;
    const std::string expected = "sum " + base::to_hex(0, base::fnv1a(bytes.substr(0, sum))) + "\n";
    good_ = bytes.substr(sum, expected.size()) == expected;
    left_ = bytes.substr(0, sum);
  }

  bool good() const { return good_; }
  bool has_more() const { return !left_.empty(); }
  std::string_view line() {
    const std::size_t end = left_.find('\n');
    if (end == left_.npos) {
      good_ = false;
      return {};
    }
    const std::string_view found = left_.substr(0, end);
    left_.remove_prefix(end + 1);
    return found;
  }
  std::string value(std::string_view name) {
    const std::string_view found = line();
    const std::string head = std::string(name) + " ";
    if (!found.starts_with(head)) good_ = false;
    return good_ ? std::string(found.substr(head.size())) : std::string();
  }
  template <typename Number>
  Number number(std::string_view name) {
    return parsed<Number>(value(name));
  }
  template <typename Number>
  Number parsed(std::string_view text) {
    const auto number = detail::parse_number<Number>(text);
    if (!number) good_ = false;
    return number.value_or(Number{});
  }

 private:
  bool good_ = false;
  std::string_view left_;
};

}  // namespace

std::string FileRow::text() const {
  Writer writer(std::string(kFileHead) + std::string(kVersion));
  writer.add("incarnation", incarnation)
      .add("layout", layout)
      .add("policy", policy)
      .add_number("first", first)
      .add_number("last", last)
      .add("host", host)
      .add_number("inode", inode);
  if (born_ns != 0) writer.add_number("born", born_ns);
  return writer.row();
}

std::optional<FileRow> parse_file_row(std::string_view bytes, bool* later) {
  Reader reader(bytes);
  *later = false;
  if (!reader.good()) return std::nullopt;
  const std::string_view head = reader.line();
  if (!head.starts_with(kFileHead)) return std::nullopt;
  *later = head.substr(kFileHead.size()) != kVersion;
  if (*later) return std::nullopt;
  FileRow row;
  row.incarnation = reader.value("incarnation");
  row.layout = reader.value("layout");
  row.policy = reader.value("policy");
  row.first = reader.number<std::uint64_t>("first");
  row.last = reader.number<std::uint64_t>("last");
  row.host = reader.value("host");
  row.inode = reader.number<std::uint64_t>("inode");
  if (reader.has_more()) row.born_ns = reader.number<std::int64_t>("born");
  if (!reader.good() || row.text() != bytes) return std::nullopt;
  return row;
}

std::string WorkerRow::text() const {
  Writer writer{std::string(kWorkerHead)};
  writer.add("incarnation", incarnation)
      .add_number("worker", worker)
      .add_number("reserved_until", reserved_until)
      .add_number("pid", pid)
      .add_number("since", since_ms)
      .add_number("round", rounds.current)
      .add_number("rounds", rounds.used_up_to.size());
  for (const std::int64_t mark : rounds.used_up_to) writer.add_number("mark", mark);
  return writer.row();
}

std::optional<WorkerRow> parse_worker_row(std::string_view bytes) {
  Reader reader(bytes);
  if (!reader.good() || reader.line() != kWorkerHead) return std::nullopt;
  WorkerRow row;
  row.incarnation = reader.value("incarnation");
  row.worker = reader.number<std::uint64_t>("worker");
  row.reserved_until = reader.number<std::int64_t>("reserved_until");
  row.pid = reader.number<std::int64_t>("pid");
  row.since_ms = reader.number<std::int64_t>("since");
  row.rounds.current = reader.number<std::uint32_t>("round");
  const auto marks = reader.number<std::size_t>("rounds");
  for (std::size_t i = 0; i < marks && reader.good(); ++i) {
    row.rounds.used_up_to.push_back(reader.number<std::int64_t>("mark"));
  }
  if (!reader.good()) return std::nullopt;
  return row;
}

}  // namespace holdfast::ids
