#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include <toml++/toml.h>

#include "src/cli/duration.h"
#include "src/cli/text.h"

#include "lab/scenario/fields.h"
#include "lab/scenario/files.h"

namespace holdfast::lab {
namespace {

constexpr std::size_t kLongestFile = 1U << 20U;
constexpr std::size_t kLongestName = 64;
constexpr char kNameCharacters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

std::vector<std::string> split(std::string_view words) {
  std::istringstream stream{std::string(words)};
  return {std::istream_iterator<std::string>(stream), {}};
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Keeps the first complaint.
class Complaints {
 public:
  explicit Complaints(std::string file) : file_(std::move(file)) {}

  void add(const toml::node& node, const std::string& what) {
    if (first_) return;
    const auto line = node.source().begin.line;
    first_ = Error(Errc::kInvalidArgument,
                   file_ + (line > 0 ? ":" + std::to_string(line) : "") + ": " + what);
  }
  const std::optional<Error>& first() const { return first_; }

 private:
  std::string file_;
  std::optional<Error> first_;
};

// Reads the keys of one table; the rest is complained about in finish().
class Reader {
 public:
  Reader(const toml::table& table, std::string where, Complaints& complaints)
      : table_(table), where_(std::move(where)), complaints_(complaints) {}

  void operator()(const char* key, std::string& into, Any) {
    if (const toml::node* node = take(key)) text(*node, key, into);
  }
  void operator()(const char* key, std::string& into, OneOf rule) {
    const toml::node* node = take(key);
    if (node == nullptr || !text(*node, key, into)) return;
    const std::vector<std::string> words = split(rule.words);
    if (std::find(words.begin(), words.end(), into) != words.end()) return;
    const std::string near = cli::nearest(into, words);
    fail(*node, key,
         "is " + cli::in_quotes(into) + (near.empty() ? "" : " (did you mean " + near + "?)") +
             "; it may be: " + listed(words));
  }
  void operator()(const char* key, bool& into, Any) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    const auto flag = node->value_exact<bool>();
    flag ? void(into = *flag) : fail(*node, key, "must be true or false");
  }
  void operator()(const char* key, std::uint64_t& into, Any) {
    std::int64_t number = 0;
    if (take_number(key, number, Range{})) into = static_cast<std::uint64_t>(number);
  }
  void operator()(const char* key, std::int64_t& into, Range rule) { take_number(key, into, rule); }
  void operator()(const char* key, milliseconds& into, Span rule) {
    const toml::node* node = take(key);
    std::string written;
    if (node == nullptr ||
        !text(*node, key, written, "must be a duration like \"250ms\" or \"2s\"")) {
      return;
    }
    const bool back = !written.empty() && written.front() == '-';
    const auto span = cli::parse_duration(back ? written.substr(1) : written);
    if (!span) return fail(*node, key, span.error().message());
    into = back ? -*span : *span;
    if (into < rule.least || into > rule.most) {
      fail(*node, key,
           "must be from " + std::to_string(rule.least.count()) + "ms to " +
               cli::format_duration(rule.most));
    }
  }

  const toml::table* table(const char* key) {
    const toml::node* node = take(key);
    if (node == nullptr) return nullptr;
    if (!node->is_table()) fail(*node, key, "must be a table: [" + std::string(key) + "]");
    return node->as_table();
  }
  // Those of [[key]].
  std::vector<const toml::table*> tables(const char* key) {
    std::vector<const toml::table*> found;
    const toml::node* node = take(key);
    if (node == nullptr) return found;
    const toml::array* array = node->as_array();
    if (array == nullptr || !array->is_homogeneous<toml::table>()) {
      fail(*node, key, "must be written as [[" + std::string(key) + "]], once for each");
      return found;
    }
    for (const toml::node& each : *array) found.push_back(each.as_table());
    return found;
  }

  void finish() {
    for (auto&& [key, node] : table_) {
      const std::string name(key.str());
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      const std::string near = cli::nearest(name, known_);
      complaints_.add(
          node, "the key " + cli::in_quotes(cli::shortened(name)) + where_ + " is not known; " +
                    (near.empty() ? "there are: " + listed(known_) : "did you mean " + near + "?"));
    }
  }

  void fail(const toml::node& node, const std::string& key, const std::string& what) {
    complaints_.add(node, key + where_ + " " + what);
  }

 private:
  const toml::node* take(const char* key) {
    known_.emplace_back(key);
    return table_.get(key);
  }
  bool text(const toml::node& node, const char* key, std::string& into,
            const char* otherwise = "must be text in quotes") {
    const auto text = node.value_exact<std::string>();
    if (!text) return fail(node, key, otherwise), false;
    into = *text;
    return true;
  }
  bool take_number(const char* key, std::int64_t& into, Range rule) {
    const toml::node* node = take(key);
    if (node == nullptr) return false;
    const auto number = node->value_exact<std::int64_t>();
    if (!number) return fail(*node, key, "must be a whole number"), false;
    if (*number < rule.least || *number > rule.most) {
      const bool open = rule.most == Range{}.most;
      fail(*node, key,
           "must be " + std::to_string(rule.least) +
               (open ? " or more" : " to " + std::to_string(rule.most)));
      return false;
    }
    into = *number;
    return true;
  }

  const toml::table& table_;
  const std::string where_;
  Complaints& complaints_;
  std::vector<std::string> known_;
};

// What fits the rules key by key, and not together.
void check_whole(const Scenario& scenario, const toml::table& root, Complaints& complaints) {
  const StoreSpec& store = scenario.store;
  const auto complain = [&](const std::string& what) { complaints.add(root, what); };
  if (scenario.name.empty()) complain("name is missing: name = \"what-this-run-is\"");
  // It becomes the name of a folder.
  const bool fits = std::all_of(scenario.name.begin(), scenario.name.end(), [](char c) {
    return std::string_view(kNameCharacters).find(c) != std::string_view::npos;
  });
  if (!fits || scenario.name.size() > kLongestName || scenario.name.substr(0, 1) == ".") {
    complain("name may have letters, digits, '-', '_' and '.' (not first), and at most " +
             std::to_string(kLongestName) + " of them");
  }
  if (scenario.workloads.empty()) complain("there is no [[workload]]: say what the clients do");
  if (store.kind == "url" && store.url.empty()) {
    complain("url in [store] is missing: url = \"redis://127.0.0.1:6379\"");
  }
  if (store.kind == "memory" && scenario.clients.processes != 1) {
    complain(
        "the memory store is one process: processes = 1 in [clients], and owners in [[workload]]");
  }
  if (scenario.calm >= scenario.duration) complain("calm must be shorter than duration");
  for (const WorkloadSpec& work : scenario.workloads) {
    if ((work.kind == "nested" || work.kind == "multi") && work.depth > work.locks) {
      complain("depth in [[workload]] must not be more than its locks");
    }
  }
  for (const NemesisSpec& nemesis : scenario.nemeses) {
    const auto is = [&](std::string_view kinds) {
      const std::vector<std::string> words = split(kinds);
      return std::find(words.begin(), words.end(), nemesis.kind) != words.end();
    };
    const std::string who = "the nemesis " + nemesis.kind + " needs ";
    if (nemesis.kind.empty()) {
      complain("kind in [[nemesis]] is missing; it may be: " + listed(split(kNemesisKinds.words)));
    }
    if (is("partition blackhole loss delay hold duplicate reorder drop-replies split reset") &&
        !(store.kind == "redis" && store.proxy)) {
      complain(who + "proxy = true in [store], and kind = \"redis\"");
    }
    if (is("server-pause restart restart-empty") && store.kind != "redis") {
      complain(who + "a server of its own: kind = \"redis\" in [store]");
    }
    if (is("failover") && !(store.kind == "redis" && store.replica && store.proxy)) {
      complain(who + "replica = true and proxy = true in [store], and kind = \"redis\"");
    }
    if (is("clock-jump") && !store.clock) complain(who + "clock = true in [store]");
    if (is("disk-full") && (store.kind != "sqlite" || store.disk_mb == 0)) {
      complain(who + "kind = \"sqlite\" and disk_mb in [store]");
    }
  }
}

std::vector<const toml::table*> known_tables(Reader& reader, Scenario& scenario,
                                             Complaints& complaints) {
  const toml::table* store = reader.table("store");
  const toml::table* clients = reader.table("clients");
  if (store != nullptr) {
    Reader inner(*store, " in [store]", complaints);
    fields(inner, scenario.store);
    inner.finish();
  }
  if (clients != nullptr) {
    Reader inner(*clients, " in [clients]", complaints);
    fields(inner, scenario.clients);
    inner.finish();
  }
  for (const toml::table* each : reader.tables("workload")) {
    Reader inner(*each, " in [[workload]]", complaints);
    fields(inner, scenario.workloads.emplace_back());
    inner.finish();
  }
  return reader.tables("nemesis");
}

void read_expectations(const toml::table& table, Scenario& scenario, Complaints& complaints) {
  Reader reader(table, " in [expect]", complaints);
  for (std::size_t i = 0; i < kClasses; ++i) {
    std::string word = "none";
    reader(kClassKeys[i], word, kExpectations);
    scenario.expect[i] = word == "must"  ? Expected::kMust
                         : word == "may" ? Expected::kMay
                                         : Expected::kNone;
  }
  reader.finish();
}

}  // namespace

CheckOptions check_options(const Scenario& scenario) {
  CheckOptions options;
  options.wake_ns = std::chrono::nanoseconds(scenario.wake).count();
  options.grace_ns = std::chrono::nanoseconds(scenario.grace).count();
  if (!scenario.judge_busy) options.busy_samples = 0;
  return options;
}

Result<Scenario> read_scenario(const std::string& text, const std::string& file) {
  if (text.size() > kLongestFile) {
    return Error(Errc::kInvalidArgument, file + ": longer than a scenario can be (1 MiB)");
  }
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    return Error(Errc::kInvalidArgument, file + ":" + std::to_string(error.source().begin.line) +
                                             ": not TOML: " + std::string(error.description()));
  }
  Scenario scenario;
  Complaints complaints(file);
  Reader reader(root, "", complaints);
  fields(reader, scenario);
  for (const toml::table* each : known_tables(reader, scenario, complaints)) {
    Reader inner(*each, " in [[nemesis]]", complaints);
    fields(inner, scenario.nemeses.emplace_back());
    inner.finish();
  }
  if (const toml::table* check = reader.table("check")) {
    Reader inner(*check, " in [check]", complaints);
    check_fields(inner, scenario);
    inner.finish();
  }
  if (const toml::table* expect = reader.table("expect")) {
    read_expectations(*expect, scenario, complaints);
  }
  reader.finish();
  check_whole(scenario, root, complaints);
  if (complaints.first()) return *complaints.first();
  return scenario;
}

Result<Scenario> read_scenario_file(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    return Error(Errc::kInvalidArgument, cli::in_quotes(path) + " is a folder, not a scenario");
  }
  std::ifstream file(path);
  std::string text(kLongestFile + 1, '\0');  // One more shows that there is too much.
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return Error(Errc::kUnavailable, "cannot read the scenario " + cli::in_quotes(path));
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return read_scenario(text, path);
}

}  // namespace holdfast::lab
