#include "src/cli/options/option_table.h"

#include <algorithm>
#include <deque>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

#include "src/cli/options/config.h"
#include "src/cli/text/text.h"

namespace holdfast::cli {
namespace {

// Other programs' names for it: flock of util-linux, setlock, timeout.
constexpr std::pair<std::string_view, std::string_view> kMeant[] = {
    {"-c", "put the command after '--': holdfast run NAME -- sh -c 'COMMAND'"},
    {"--command", "put the command after '--': holdfast run NAME -- sh -c 'COMMAND'"},
    {"-u", "to give back early what 'holdfast acquire' took: holdfast release LEASE"},
    {"--unlock", "to give back early what 'holdfast acquire' took: holdfast release LEASE"},
    {"-o", "the command never gets the lock as an open file, so there is nothing to close"},
    {"--close", "the command never gets the lock as an open file, so there is nothing to close"},
    {"-F", "the command always is a process of its own, so that a loss can end it"},
    {"--no-fork", "the command always is a process of its own, so that a loss can end it"},
    {"--timeout", "use --wait D to limit the wait, --max-hold D to limit the command"},
    {"--nonblock", "use --no-wait"},
    {"--nb", "use --no-wait"},
    {"--conflict-exit-code", "use --exit-timeout N"},
};

// Where rows_of() wants the rows of the next table that parses.
thread_local std::vector<OptionRow>* listing = nullptr;

std::string_view meant_by(std::string_view name) {
  for (const auto& [word, text] : kMeant) {
    if (word == name) return text;
  }
  return {};
}

}  // namespace

std::string one_too_many(const std::string& word) {
  const bool names_store = word.find("://") != std::string::npos;
  return in_quotes(without_secret(word)) + " is one argument too many" +
         (names_store ? "; a store is named by --store URL" : "");
}

struct OptionTable::Impl {
  struct Raw {
    CLI::Option* option = nullptr;
    std::string_view offers;
    std::string value;
    std::function<Result<void>(const std::string&)> read;
  };
  struct Positional {
    CLI::Option* option = nullptr;
    std::string name;
    std::string& target;
    bool required = false;
    std::string_view offers;
    bool given = false;  // After the dashes.

    bool open() const { return !given && option->count() == 0; }
  };

  std::string command;
  std::string program;
  std::vector<std::string>* words = nullptr;
  CLI::App app;
  std::deque<Raw> raws;  // CLI11 keeps references to the values.
  std::vector<Positional> positionals;

  Error wrong(const std::string& what) const {
    return {Errc::kInvalidArgument, what + " (see '" + program + " help " + command + "')"};
  }

  std::vector<std::string> option_names() const {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    return names;
  }

  std::vector<std::string> with_empty_values(std::vector<std::string> arguments) const;
  Result<void> check_extras() const;
  Result<void> fill_positionals(const std::vector<std::string>& given);
  Result<void> read_values() const;
  std::vector<OptionRow> rows() const;
};

// Turns `--reason=` into `--reason` and an empty word. Otherwise CLI11 takes the next argument for
// the value: the lock's name, where a script says --reason="$WHY" NAME.
std::vector<std::string> OptionTable::Impl::with_empty_values(
    std::vector<std::string> arguments) const {
  for (auto at = arguments.begin(); at != arguments.end(); ++at) {
    const auto ends_here = [&](const Raw& raw) { return raw.option->get_name() + "=" == *at; };
    if (std::none_of(raws.begin(), raws.end(), ends_here)) continue;
    at->pop_back();
    at = arguments.insert(at + 1, std::string());
  }
  return arguments;
}

Result<void> OptionTable::Impl::check_extras() const {
  const std::vector<std::string> extras = app.remaining();
  const auto unknown = std::find_if(extras.begin(), extras.end(), [](const std::string& extra) {
    return extra.size() > 1 && extra.front() == '-';
  });
  if (unknown != extras.end()) {
    const std::string name = unknown->substr(0, unknown->find('='));
    if (const auto meant = meant_by(name); !meant.empty()) {
      return wrong("there is no option " + printable(name) + "; " + std::string(meant));
    }
    const std::string near = nearest(name, option_names());
    if (!near.empty()) {
      return wrong("there is no option " + printable(name) + "; did you mean " + near + "?");
    }
    const bool a_name =
        std::any_of(positionals.begin(), positionals.end(), std::mem_fn(&Positional::open));
    return wrong("there is no option " + printable(name) +
                 (a_name
                      ? " (an argument that begins with '-' comes after '--': " + command + " -- " +
                            printable(*unknown) + (command == "run" ? " -- COMMAND)" : ")")
                      : ""));
  }
  if (extras.empty()) return {};
  if (words != nullptr) {
    words->insert(words->begin(), extras.begin(), extras.end());
    return {};
  }
  if (command == "run") {
    return wrong("what is " + in_quotes(without_secret(extras.front())) +
                 "? The command to run stands after '--': holdfast run NAME -- COMMAND [ARG...]");
  }
  return wrong(one_too_many(extras.front()));
}

Result<void> OptionTable::Impl::fill_positionals(const std::vector<std::string>& given) {
  if (words != nullptr) {
    *words = given;
    return {};
  }
  auto positional = positionals.begin();
  for (const std::string& word : given) {
    positional = std::find_if(positional, positionals.end(), std::mem_fn(&Positional::open));
    if (positional == positionals.end())
      return wrong(one_too_many(word));
    positional->target = word;
    positional->given = true;
  }
  return {};
}

Result<void> OptionTable::Impl::read_values() const {
  std::optional<Error> first;
  for (const Raw& raw : raws) {
    if (raw.option->count() == 0) continue;
    const auto read = raw.read(raw.option->results().back());
    if (!read && !first) first = wrong(raw.option->get_name() + ": " + read.error().message());
  }
  if (first) return *first;
  for (const Positional& positional : positionals) {
    if (positional.required && positional.open()) return wrong(positional.name + " is missing");
  }
  return {};
}

std::vector<OptionRow> OptionTable::Impl::rows() const {
  std::vector<OptionRow> rows;
  const auto append = [](std::string& list, const std::string& word) {
    list += (list.empty() ? "" : " ") + word;
  };
  for (const CLI::Option* option : app.get_options()) {
    const auto is_it = [&](const auto& one) { return one.option == option; };
    if (const auto word = std::find_if(positionals.begin(), positionals.end(), is_it);
        word != positionals.end()) {
      rows.push_back({word->name, std::string(word->offers), ""});
      continue;
    }
    OptionRow& row = rows.emplace_back();
    for (const std::string& name : option->get_snames()) append(row.names, "-" + name);
    for (const std::string& name : option->get_lnames()) append(row.names, "--" + name);
    const auto raw = std::find_if(raws.begin(), raws.end(), is_it);
    row.takes = raw == raws.end() ? "flag" : raw->offers;
    for (const CLI::Option* other : option->get_excludes()) {
      append(row.excludes, other->get_name());
    }
  }
  return rows;
}

OptionTable::OptionTable(std::string command, std::string program)
    : impl_(std::make_unique<Impl>()) {
  impl_->command = std::move(command);
  impl_->program = std::move(program);
  impl_->app.set_help_flag();
  impl_->app.allow_extras();
}

OptionTable::~OptionTable() = default;

void OptionTable::flag(const std::string& names, bool& target) {
  impl_->app.add_flag(names, target);
}

void OptionTable::add(const std::string& names, std::string_view offers,
                      std::function<Result<void>(const std::string&)> read) {
  Impl::Raw& raw = impl_->raws.emplace_back();
  raw.offers = offers;
  raw.read = std::move(read);
  raw.option = impl_->app.add_option(names, raw.value);
  raw.option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void OptionTable::positional(const std::string& name, std::string& target, bool required,
                             std::string_view offers) {
  CLI::Option* option = impl_->app.add_option(name, target);
  impl_->positionals.push_back({option, name, target, required, offers});
}

void OptionTable::exclusive(std::initializer_list<const char*> names) {
  for (auto one = names.begin(); one != names.end(); ++one) {
    for (auto other = one + 1; other != names.end(); ++other) {
      impl_->app.get_option(*one)->excludes(impl_->app.get_option(*other));
    }
  }
}

void OptionTable::words(std::vector<std::string>& target) { impl_->words = &target; }

std::vector<OptionRow> OptionTable::rows_of(const std::function<void()>& parse) {
  std::vector<OptionRow> rows;
  listing = &rows;
  parse();
  listing = nullptr;
  return rows;
}

Result<void> OptionTable::parse(std::vector<std::string> arguments) {
  if (listing != nullptr) *listing = impl_->rows();
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const std::vector<std::string> words(dashes == arguments.end() ? dashes : dashes + 1,
                                       arguments.end());
  arguments.erase(dashes, arguments.end());
  arguments = impl_->with_empty_values(std::move(arguments));
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back.
  try {
    impl_->app.parse(std::move(arguments));
  } catch (const CLI::ArgumentMismatch& error) {
    // Every option takes one value, and the last given wins: there can only be none.
    const std::string said = error.what();
    return impl_->wrong(said.substr(0, said.find(':')) + " needs a value");
  } catch (const CLI::ExcludesError& error) {
    std::string said = error.what();  // "--wait excludes --no-wait"
    return impl_->wrong(said.replace(said.find(" excludes "), 10, " contradicts "));
  } catch (const CLI::ParseError& error) {
    return impl_->wrong(error.what());
  }
  if (impl_->app.count("--help") > 0) return {};
  auto filled = impl_->fill_positionals(words);
  auto values = impl_->read_values();
  auto extras = impl_->check_extras();
  if (!extras) return extras;
  return filled ? values : filled;
}

}  // namespace holdfast::cli
