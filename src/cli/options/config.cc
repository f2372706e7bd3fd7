#include "src/cli/options/config.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include <toml++/toml.h>

#include "holdfast/detail/percent.h"
#include "holdfast/stores.h"
#include "src/cli/options/values.h"
#include "src/cli/process/fd.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::string place(const toml::source_region& region, const std::string& file) {
  return file + ":" + std::to_string(region.begin.line);
}

// Reads one table of the file, and complains about what it does not know.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string file) : table_(table), file_(std::move(file)) {}

  template <typename T>
  void value(const char* key, std::optional<T>& into, Result<T> (*read)(const std::string&)) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    const auto text = written(*node);
    if (!text) return fail(*node, key, "must be text in quotes, or a number");
    auto value = read(*text);
    if (!value) return fail(*node, key, value.error().message());
    if (!into) into = *std::move(value);  // A file read earlier comes first.
  }

  // A URL may not be a bare number.
  template <typename Read>
  void text(const char* key, std::optional<std::string>& into, Read read) {
    const toml::node* node = table_.get(key);
    if (node == nullptr || node->is_string()) return value(key, into, read);
    fail(*take(key), key, "must be text in quotes");
  }

  void flag(const char* key, bool& into) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    const auto value = node->value_exact<bool>();
    if (!value) return fail(*node, key, "must be true or false");
    into = into || *value;
  }

  const toml::table* table(const char* key) {
    const toml::node* node = take(key);
    if (node == nullptr) return nullptr;
    if (!node->is_table()) fail(*node, key, "must be a table: [" + std::string(key) + "]");
    return node->as_table();
  }

  // Calls `read` with each of its tables and their names.
  template <typename Read>
  void tables(Read read) {
    for (auto&& [key, node] : table_) {
      known_.emplace_back(key.str());
      if (const toml::table* const table = node.as_table()) {
        const Result<void> good = read(std::string(key.str()), *table);
        if (!good && !error_) error_ = good.error();
      } else {
        fail(node, known_.back(), "must be a table: [names.\"PREFIX\"]");
      }
    }
  }

  Result<void> finish() {
    for (auto&& [key, node] : table_) {
      const std::string name(key.str());
      if (error_ || std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      const std::string near = nearest(name, known_);
      fail(node, name, near.empty() ? "is not known" : "is not known; did you mean " + near + "?");
    }
    if (error_) return *error_;
    return {};
  }

 private:
  static std::optional<std::string> written(const toml::node& node) {
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
    const auto number = node.value_exact<double>();
    if (!number) return std::nullopt;
    char text[40];
    const auto end = std::to_chars(text, text + sizeof text, *number).ptr;
    return std::string(text, end);
  }

  const toml::node* take(const char* key) {
    known_.emplace_back(key);
    return table_.get(key);
  }

  void fail(const toml::node& node, const std::string& key, const std::string& why) {
    if (error_) return;
    error_ = Error(Errc::kInvalidArgument,
                   place(node.source(), file_) + ": " + printable(key) + ": " + why);
  }

  const toml::table& table_;
  std::string file_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

NameRule& rule_for(const std::string& prefix, std::vector<NameRule>& rules) {
  const auto found = std::find_if(rules.begin(), rules.end(),
                                  [&](const NameRule& rule) { return rule.prefix == prefix; });
  if (found != rules.end()) return *found;
  return rules.emplace_back(NameRule{prefix, {}, {}, {}});
}

Result<void> read_names(const toml::table& names, const std::string& file, Config& into) {
  TableReader all(names, file);
  all.tables([&](const std::string& prefix, const toml::table& table) {
    NameRule& rule = rule_for(prefix, into.names);
    TableReader one(table, file);
    one.value("ttl", rule.ttl, read_period);
    one.value("wait", rule.wait, read_duration);
    one.value("lock_delay", rule.lock_delay, read_duration);
    return one.finish();
  });
  return all.finish();
}

bool is_journal_place(const ServeText& text) {
  return text.field == &ServeOptions::data || text.field == &ServeOptions::journal;
}

// The folder in which a server is started is not the one of its file, and with another folder it
// would begin a new journal.
Result<std::string> read_folder(const std::string& text) {
  if (text.empty() || text.starts_with('/')) return text;
  return Error(Errc::kInvalidArgument, "'" + printable(text) +
                                           "' is not a whole path, and what it means would depend "
                                           "on where the server is started: begin it with '/'");
}

Result<std::string> read_journal(const std::string& text) {
  const std::string path(path_of(text));
  if (path.size() == text.size()) return text;  // It is no URL, which is told later.
  const auto folder = read_folder(path);
  return folder ? text : folder;
}

Result<void> read_serve(const toml::table& table, const std::string& file, ServeOptions& into) {
  TableReader serve(table, file);
  for (const ServeText& each : kServeTexts) {
    const auto read = each.field == &ServeOptions::data      ? read_folder
                      : each.field == &ServeOptions::journal ? read_journal
                                                             : read_text;
    serve.text(each.key, into.*each.field, read);
  }
  serve.value("shards", into.shards, read_shards);
  serve.value("connection_rate", into.connection_rate, read_rate);
  serve.value("log_format", into.common.log_format, read_log_format);
  serve.flag("plaintext", into.plaintext);
  return serve.finish();
}

Result<void> read_table(const toml::table& root, const std::string& file, Config& into) {
  TableReader top(root, file);
  top.text("store", into.store, read_text);
  top.value("ttl", into.ttl, read_period);
  const toml::table* names = top.table("names");
  const toml::table* run_table = top.table("run");
  const toml::table* serve_table = top.table("serve");
  auto finished = top.finish();
  if (serve_table != nullptr) {
    auto serve_finished = read_serve(*serve_table, file, into.serve);
    if (finished) finished = std::move(serve_finished);
  }
  if (names != nullptr) {
    auto names_finished = read_names(*names, file, into);
    if (finished) finished = std::move(names_finished);
  }
  if (run_table == nullptr) return finished;
  TableReader run(*run_table, file);
  run.value("wait", into.run.lock.wait, read_duration);
  run.value("min_hold", into.run.min_hold, read_duration);
  run.value("max_hold", into.run.lock.max_hold, read_period);
  run.value("kill_after", into.run.kill_after, read_duration);
  run.value("on_lost", into.run.on_lost, read_on_lost);
  run.value("exit_max_hold", into.run.exit_max_hold, read_exit_code);
  run.value("exit_lost", into.run.exit_lost, read_exit_code);
  run.value("exit_timeout", into.run.exit_timeout, read_exit_timeout);
  run.value("exit_error", into.run.exit_error, read_exit_code);
  auto run_finished = run.finish();
  return finished ? run_finished : finished;
}

// Reads the whole file, which may be a pipe. 0 or an errno.
int read_all(const std::string& file, std::string& into) {
  constexpr std::size_t kMost = 1 << 20;
  const Fd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!in) return errno;
  char piece[4096];
  for (;;) {
    const ssize_t n = ::read(in.get(), piece, sizeof piece);
    if (n == 0) return 0;
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) into.append(piece, static_cast<std::size_t>(n));
    if (into.size() > kMost) return EFBIG;
  }
}

Result<void> read_file(const std::string& file, bool must_exist, Config& into) {
  std::string text;
  const int why = read_all(file, text);
  if (!must_exist && (why == ENOENT || why == ENOTDIR || why == EACCES)) return {};
  if (why != 0) {
    return Error(Errc::kInvalidArgument, "cannot read the configuration file " + in_quotes(file) +
                                             ": " + std::strerror(why));
  }
  if (has_endless_key(text)) {
    return Error(Errc::kInvalidArgument, printable(file) + ": a key with too many parts");
  }
  try {
    return read_table(toml::parse(text), printable(file), into);
  } catch (const toml::parse_error& error) {
    return Error(Errc::kInvalidArgument,
                 place(error.source(), printable(file)) + ": " + printable(error.description()));
  }
}

std::optional<std::string> home_based(const char* xdg, const char* under_home) {
  if (auto base = environment(xdg); base && base->front() == '/') return base;
  if (const auto home = environment("HOME"); home && home->front() == '/') {
    return *home + under_home;
  }
  return std::nullopt;
}

// The folder of root, or of a user. `purpose` ends the sentence that a user without a home reads.
Result<std::string> state_folder(const char* name, const char* purpose) {
  if (::geteuid() == 0) return std::string("/var/lib/holdfast") + name;
  const auto base = home_based("XDG_STATE_HOME", "/.local/state");
  if (base) return *base + "/holdfast" + name;
  return Error(Errc::kInvalidArgument, std::string("there is no home directory to ") + purpose);
}

Result<std::string> default_store() {
  if (::geteuid() == 0) return std::string("sqlite:///var/lib/holdfast/locks.db");
  const auto base = home_based("XDG_STATE_HOME", "/.local/state");
  if (!base) {
    return Error(Errc::kInvalidArgument,
                 "there is no home directory to keep the default store in: neither XDG_STATE_HOME"
                 " nor HOME is set to an absolute path. Set one of them, or name a store with"
                 " --store, HOLDFAST_STORE or --config (for example"
                 " --store sqlite:///run/lock/me/locks.db)");
  }
  return "sqlite://" + detail::percent_encode(*base + "/holdfast/locks.db", [](char c) {
           return detail::is_alphanumeric(c) || detail::is_one_of(c, "/-._~");
         });
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool is_secret_key(std::string_view written) {
  const std::string key = lower(written);
  return key == "password" || key == "pass" || key == "passwd" || key == "secret" ||
         key == "token" || key == "auth" || key == "key";
}

std::string_view authority(std::string_view url) {
  const std::size_t slashes = url.find("://");
  if (slashes == url.npos) return {};
  url.remove_prefix(slashes + 3);
  return url.substr(0, url.find_first_of("/?"));
}

// The user's name and password in front of the host; empty: none.
std::string_view userinfo(std::string_view url) {
  const std::string_view whole = authority(url);
  const std::size_t at = whole.rfind('@');
  return at == whole.npos ? std::string_view() : whole.substr(0, at);
}

bool logs_in_by_token(std::string_view url) {
  const StoreKind* const store = store_of_url(url);
  return store != nullptr && store->login == StoreLogin::kToken && !userinfo(url).empty();
}

// A password with a '/' or '?' that was not percent-encoded: what is taken for the host is its
// beginning.
bool may_hold_split_secret(std::string_view url) {
  const std::string_view host = authority(url);
  if (host.find('@') != host.npos || host.find(':') == host.npos) return false;
  const std::string_view rest = url.substr(url.find("://") + 3 + host.size());
  const std::size_t at = rest.find('@');
  return at != rest.npos && rest.substr(0, at).find('=') == rest.npos;
}

// Calls `visit(key, value, whole)` for each option of the query.
template <typename Visit>
void each_option(std::string_view url, Visit visit) {
  const std::size_t question = url.find('?');
  if (question == url.npos) return;
  std::string_view rest = url.substr(question + 1);
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const std::size_t equals = std::min(one.find('='), one.size());
    visit(one.substr(0, equals), one.substr(std::min(equals + 1, one.size())), one);
  }
}

bool all_of(std::string_view text, std::string_view besides) {
  return std::all_of(text.begin(), text.end(), [besides](unsigned char c) {
    return std::isalnum(c) != 0 || besides.find(static_cast<char>(c)) != besides.npos;
  });
}

bool is_number(std::string_view text) { return text.find_first_not_of("0123456789") == text.npos; }

// "host", "host:6379", "[::1]:6379", or several with commas between them.
bool names_hosts(std::string_view text) {
  for (;;) {
    std::string_view one = text.substr(0, text.find(','));
    const bool last = one.size() == text.size();
    text.remove_prefix(one.size() + (last ? 0 : 1));
    if (one.starts_with('[')) {
      const std::size_t end = std::min(one.find(']'), one.size());
      if (!all_of(one.substr(1, end - 1), ".:%-_")) return false;
      one.remove_prefix(end);
      if (one.starts_with(']')) one.remove_prefix(1);
    }
    const std::size_t colon = std::min(one.find(':'), one.size());
    if (!all_of(one.substr(0, colon), ".-_")) return false;
    if (colon < one.size() && !is_number(one.substr(colon + 1))) return false;
    if (last) return true;
  }
}

// Whether the part before the '?' has the form of some store, with a login or without.
bool is_plain_front(std::string_view front) {
  const std::size_t colon = std::min(front.find(':'), front.size());
  const StoreKind* const store = store_of_url(front);
  if (store != nullptr && store->login == StoreLogin::kNone) return true;
  std::string_view rest = front.substr(colon);
  if (!rest.starts_with("://") || !all_of(front.substr(0, colon), "+-.")) {
    return front.find_first_of("@=&;") == front.npos;
  }
  const std::string_view whole = authority(front);
  rest.remove_prefix(3 + whole.size());
  const std::size_t at = whole.rfind('@');
  if (!names_hosts(at == whole.npos ? whole : whole.substr(at + 1))) return false;
  if (store != nullptr && store->path_is_number && !whole.empty()) {
    return rest.empty() || is_number(rest.substr(1));
  }
  return rest.find_first_of("@=&;") == rest.npos;
}

// The options that every store has, and those of a chain of stores.
constexpr std::string_view kCommonOptions[] = {"ns", "ttl", "request_timeout", "open_timeout",
                                               "chain"};

template <typename Names>
bool has(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// A password may hide in any option that no store declares as open.
bool is_open_option(std::string_view key, std::string_view value) {
  const auto stores = known_stores();
  if (!has(kCommonOptions, key) &&
      std::none_of(stores.begin(), stores.end(),
                   [&](const auto& each) { return has(each.open_options, key); })) {
    return false;
  }
  return key == "chain" || value.find_first_of(";=?") == value.npos;
}

// Whether some store understands the URL, so that it is known which part may be shown.
bool is_plain(std::string_view url) {
  bool plain = is_plain_front(url.substr(0, url.find('?')));
  each_option(url, [&](std::string_view key, std::string_view value, std::string_view) {
    plain = plain && is_open_option(key, value);
  });
  return plain;
}

// `depth`: how often it was decoded, or stood as an option in another one.
bool may_hold_secret(std::string text, int depth) {
  for (; depth < 4; ++depth) {
    if (userinfo(text).find(':') != std::string_view::npos) return true;
    if (logs_in_by_token(text)) return true;
    if (may_hold_split_secret(text)) return true;
    bool found = false;
    each_option(text, [&](std::string_view key, std::string_view value, std::string_view) {
      found = found || is_secret_key(key) || may_hold_secret(url_decoded(value), depth + 1);
    });
    if (found) return true;
    std::string decoded = url_decoded(text);
    if (decoded == text) return false;
    text = std::move(decoded);
  }
  return true;  // Nested deeper than anything sensible: assume the worst.
}

}  // namespace

// Unlike detail::percent_decode it lets a '%' stand that begins no escape.
std::string url_decoded(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::optional<char> byte = detail::percent_escape(text);
    out += byte.value_or(text[0]);
    text.remove_prefix(byte ? 3 : 1);
  }
  return out;
}

Result<void> load_config(const std::optional<std::string>& file, Config& into) {
  if (file) return read_file(*file, true, into);
  if (const auto base = home_based("XDG_CONFIG_HOME", "/.config")) {
    if (auto read = read_file(*base + "/holdfast/config.toml", false, into); !read) return read;
  }
  return read_file("/etc/holdfast/config.toml", false, into);
}

void fill_serve(ServeOptions& options, const Config& config) {
  const ServeOptions& written = config.serve;
  // One place for the journal replaces the other one.
  const bool has_place = options.data || options.journal;
  for (const ServeText& each : kServeTexts) {
    if (!(options.*each.field) && !(is_journal_place(each) && has_place)) {
      options.*each.field = written.*each.field;
    }
  }
  if (!options.shards) options.shards = written.shards;
  if (!options.connection_rate) options.connection_rate = written.connection_rate;
  if (!options.common.log_format) options.common.log_format = written.common.log_format;
  options.plaintext = options.plaintext || written.plaintext;
}

void fill_by_name(LockOptions& lock, const Config& config) {
  const NameRule* rule = nullptr;
  for (const NameRule& each : config.names) {
    const bool longer = rule == nullptr || each.prefix.size() > rule->prefix.size();
    if (longer && lock.name.starts_with(each.prefix)) rule = &each;
  }
  if (rule == nullptr) return;
  if (!lock.ttl) lock.ttl = rule->ttl;
  if (!lock.wait) lock.wait = rule->wait;
  if (!lock.lock_delay) lock.lock_delay = rule->lock_delay;
}

Result<StoreChoice> choose_store(const CommonOptions& common, const Config& config) {
  if (common.store) {
    return StoreChoice{*common.store, "--store", !holds_secret(*common.store)};
  }
  if (const auto url = environment("HOLDFAST_STORE")) {
    return StoreChoice{*url, "HOLDFAST_STORE", false};
  }
  if (config.store) return StoreChoice{*config.store, "the configuration", false};
  auto url = default_store();
  if (!url) return url.error();
  return StoreChoice{*url, "the default", false};
}

Result<std::string> default_fence_folder() {
  return state_folder("/fence", "keep records in: name a --file or a --state folder");
}

Result<std::string> default_server_folder() {
  return state_folder("/server", "keep the journal in: name a folder with --data");
}

bool holds_secret(const std::string& url) { return may_hold_secret(url, 0) || !is_plain(url); }

std::vector<std::string> secrets_of(const std::string& url) {
  std::vector<std::string> found;
  const auto add = [&](std::string_view secret) {
    for (const std::string& each : {std::string(secret), url_decoded(secret)}) {
      if (!each.empty()) found.push_back(each);
    }
  };
  std::string_view login = userinfo(url);
  if (may_hold_split_secret(url)) {
    login = std::string_view(url).substr(url.find("://") + 3);
    login = login.substr(0, login.rfind('@'));
  }
  if (const std::size_t colon = login.find(':'); colon != login.npos) add(login.substr(colon + 1));
  if (logs_in_by_token(url)) add(login);
  each_option(url, [&](std::string_view key, std::string_view value, std::string_view) {
    if (is_secret_key(key)) add(value);
  });
  return found;
}

std::string without_secret(const std::string& url) {
  if (!holds_secret(url)) return url;
  const std::size_t slashes = url.find("://");
  std::string out = url.substr(0, url.find('?'));
  const std::string_view user = userinfo(url);
  const bool in_front = slashes < out.size();  // And not behind the '?'.
  if (!user.empty() && in_front) out.replace(slashes + 3, user.size() + 1, "");
  // Written in a way that no store understands: say nothing of it.
  if (holds_secret(out) || may_hold_split_secret(url)) {
    return in_front && all_of(url.substr(0, slashes), "+-.")
               ? url.substr(0, slashes) + "://(not shown)"
               : "(not shown)";
  }
  const auto db = url_option(url, "db");
  if (db && !db->empty() && is_number(*db)) out += "?db=" + *db;
  return out;
}

std::optional<std::string> url_option(const std::string& url, const std::string& key) {
  std::optional<std::string> found;
  each_option(url, [&](std::string_view name, std::string_view value, std::string_view) {
    if (name == key) found = url_decoded(value);
  });
  return found;
}

}  // namespace holdfast::cli
