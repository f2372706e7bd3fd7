// Reads the tables of a TOML file key by key, and says what is wrong with it and where.
//
// A Reader is a visitor of fields.h. It is called for each allowed key, and finish() complains
// about all others.
// Thread-safety: one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <toml++/toml.h>

#include "holdfast/result.h"
#include "src/cli/options/duration.h"
#include "src/cli/text/text.h"

#include "lab/scenario/fields.h"
#include "lab/scenario/topology_files.h"
#include "lab/scenario/words.h"

namespace holdfast::lab {

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

// Reads the keys of one table. finish() complains about the rest.
class Reader {
 public:
  Reader(const toml::table& table, std::string where, Complaints& complaints)
      : table_(table), where_(std::move(where)), complaints_(complaints) {}

  void operator()(const char* key, std::string& into, Any) {
    if (const toml::node* node = take(key)) text(*node, key, into);
  }
  void operator()(const char* key, std::string& into, Template) { (*this)(key, into, Any{}); }
  void operator()(const char* key, std::string& into, OneOf rule) {
    one_of(key, into, split_words(rule.words));
  }
  void operator()(const char* key, std::string& into, KindOfStore) {
    one_of(key, into, store_kinds());
  }
  void operator()(const char* key, Words& into, Any) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr || array->empty() || !array->is_homogeneous<std::string>()) {
      return fail(*node, key, "must be a list of texts: [\"program\", \"argument\"]");
    }
    into.clear();
    for (const toml::node& each : *array) into.push_back(each.as_string()->get());
    // Neither an argument nor a variable can hold a NUL.
    for (const std::string& word : into) {
      if (word.find('\0') != word.npos) fail(*node, key, "must not hold a zero byte");
    }
    if (into.front().empty()) fail(*node, key, "must begin with a program or an argument");
  }
  void operator()(const char* key, Words& into, Template) { (*this)(key, into, Any{}); }
  void operator()(const char* key, Words& into, Names) {
    (*this)(key, into, Any{});
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_";
    for (const std::string& name : into) {
      if (name.find_first_not_of(kLetters) != name.npos) {
        fail(*table_.get(key), key, "are names of lower-case letters and '_', such as peer_port");
      }
    }
  }
  void operator()(const char* key, std::vector<std::int64_t>& into, Range rule) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    bool fits = array != nullptr && !array->empty() && array->is_homogeneous<std::int64_t>();
    into.clear();
    for (std::size_t i = 0; fits && i < array->size(); ++i) {
      into.push_back(array->get(i)->as_integer()->get());
      fits = into.back() >= rule.least && into.back() <= rule.most;
    }
    if (!fits) {
      fail(*node, key,
           "must be a list of numbers from " + std::to_string(rule.least) + " to " +
               std::to_string(rule.most) + ": [1, 3]");
    }
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
  // The tables of [[key]].
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

  // All keys of [key], whatever their names.
  std::vector<std::pair<std::string, std::string>> texts(const char* key) {
    std::vector<std::pair<std::string, std::string>> found;
    const toml::table* inner = table(key);
    if (inner == nullptr) return found;
    for (auto&& [name, node] : *inner) {
      const auto text = node.value_exact<std::string>();
      if (!text) fail(node, std::string(name.str()), "must be text in quotes");
      found.emplace_back(std::string(name.str()), text.value_or(""));
    }
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
  void one_of(const char* key, std::string& into, const std::vector<std::string>& words) {
    const toml::node* node = take(key);
    if (node == nullptr || !text(*node, key, into)) return;
    if (std::find(words.begin(), words.end(), into) != words.end()) return;
    const std::string near = cli::nearest(into, words);
    fail(*node, key,
         "is " + cli::in_quotes(into) + (near.empty() ? "" : " (did you mean " + near + "?)") +
             "; it may be: " + listed(words));
  }
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

// At most 1 MiB. Errors: kInvalidArgument.
Result<toml::table> parse_toml(const std::string& text, const std::string& file);

// [store], [clients], [[workload]], [[nemesis]], [check] and [expect].
void read_body(Reader& reader, Scenario& scenario, Complaints& complaints);

}  // namespace holdfast::lab
