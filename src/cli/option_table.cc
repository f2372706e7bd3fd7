#include "src/cli/option_table.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <functional>

#include <CLI/CLI.hpp>

#include "src/cli/duration.h"
#include "src/cli/text.h"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

}  // namespace

struct OptionTable::Impl {
  struct Raw {
    CLI::Option* option = nullptr;
    std::string value;
    std::function<Result<void>(const std::string& name, const std::string& value)> read;
  };
  struct Place {
    CLI::Option* option = nullptr;
    std::string name;
    bool required = false;
  };

  std::string command;
  CLI::App app;
  bool help = false;
  std::deque<Raw> raws;  // CLI11 keeps references to the values.
  std::vector<Place> places;

  Error wrong(const std::string& what) const {
    return {Errc::kInvalidArgument, what + " (see 'holdfast help " + command + "')"};
  }

  std::vector<std::string> option_names() const {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    return names;
  }

  void add(const std::string& names,
           std::function<Result<void>(const std::string&, const std::string&)> read) {
    Raw& raw = raws.emplace_back();
    raw.read = std::move(read);
    raw.option = app.add_option(names, raw.value);
    raw.option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  Result<void> check_extras() const;
  Result<void> read_values() const;
};

Result<void> OptionTable::Impl::check_extras() const {
  const std::vector<std::string> extras = app.remaining();
  const auto unknown = std::find_if(extras.begin(), extras.end(), [](const std::string& extra) {
    return extra.size() > 1 && extra.front() == '-';
  });
  if (unknown != extras.end()) {
    const std::string name = unknown->substr(0, unknown->find('='));
    const std::string near = nearest(name, option_names());
    return wrong("there is no option " + printable(name) +
                 (near.empty() ? "" : "; did you mean " + near + "?"));
  }
  if (extras.empty()) return {};
  if (command == "run") {
    return wrong("what is " + in_quotes(extras.front()) +
                 "? The command to run stands after '--': holdfast run NAME -- COMMAND [ARG...]");
  }
  return wrong(in_quotes(extras.front()) + " is one argument too many");
}

Result<void> OptionTable::Impl::read_values() const {
  for (const Raw& raw : raws) {
    if (raw.option->count() == 0) continue;
    if (auto read = raw.read(raw.option->get_name(), raw.value); !read) {
      return wrong(read.error().message());
    }
  }
  for (const Place& place : places) {
    if (place.required && place.option->count() == 0) return wrong(place.name + " is missing");
  }
  return {};
}

OptionTable::OptionTable(std::string command) : impl_(std::make_unique<Impl>()) {
  impl_->command = std::move(command);
  impl_->app.set_help_flag();
  impl_->app.allow_extras();
  impl_->app.add_flag("-h,--help", impl_->help);
}

OptionTable::~OptionTable() = default;

void OptionTable::flag(const std::string& names, bool& target) {
  impl_->app.add_flag(names, target);
}

void OptionTable::text(const std::string& names, std::optional<std::string>& target) {
  impl_->add(names, [&target](const std::string&, const std::string& value) -> Result<void> {
    target = value;
    return {};
  });
}

void OptionTable::duration(const std::string& names, std::optional<milliseconds>& target) {
  impl_->add(names, [&target](const std::string& name, const std::string& value) -> Result<void> {
    auto parsed = parse_duration(value);
    if (!parsed) return Error(Errc::kInvalidArgument, name + ": " + parsed.error().message());
    target = *parsed;
    return {};
  });
}

void OptionTable::number(const std::string& names, std::optional<int>& target, int least,
                         int most) {
  impl_->add(
      names,
      [&target, least, most](const std::string& name, const std::string& value) -> Result<void> {
        int number = 0;
        const auto [end, error] =
            std::from_chars(value.data(), value.data() + value.size(), number);
        if (error != std::errc() || end != value.data() + value.size() || number < least ||
            number > most) {
          return Error(Errc::kInvalidArgument,
                       name + ": " + in_quotes(value) + " is not a number from " +
                           std::to_string(least) + " to " + std::to_string(most));
        }
        target = number;
        return {};
      });
}

void OptionTable::choice(const std::string& names, std::optional<std::string>& target,
                         std::vector<std::string> choices) {
  impl_->add(names,
             [&target, choices = std::move(choices)](const std::string& name,
                                                     const std::string& value) -> Result<void> {
               if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
                 return Error(
                     Errc::kInvalidArgument,
                     name + ": " + in_quotes(value) + " is not one of " + joined(choices, ", "));
               }
               target = value;
               return {};
             });
}

void OptionTable::positional(const std::string& name, std::string& target, bool required) {
  CLI::Option* option = impl_->app.add_option(name, target);
  impl_->places.push_back({option, name, required});
}

bool OptionTable::help() const { return impl_->help; }

Result<void> OptionTable::parse(std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back.
  try {
    impl_->app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return impl_->wrong(error.what());
  }
  if (impl_->help) return {};
  auto values = impl_->read_values();
  auto extras = impl_->check_extras();
  return extras ? values : extras;
}

}  // namespace holdfast::cli
