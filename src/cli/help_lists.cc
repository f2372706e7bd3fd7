// This file prints the lists that the completions ask for. The parsers know the options' names,
// kinds of value and contradictions; the help pages have the explanations.

#include <algorithm>
#include <string>
#include <string_view>

#include "holdfast/stores.h"
#include "src/cli/exit_codes.h"
#include "src/cli/help.h"
#include "src/cli/options/option_table.h"
#include "src/cli/text/output.h"

namespace holdfast::cli {
namespace {

// As a help page would explain the options that nearly every command has.
constexpr std::string_view kEverywhere = R"(
  --store URL       the store of the locks
  --config FILE     the configuration file
  --log-format F    the format of stderr
  --json            print JSON
  -v, --verbose     also print store and token
  -q, --quiet       print failures only
  -h, --help        explain the command
)";

bool ends_name(char c) { return c == ' ' || c == ',' || c == ':' || c == '\n'; }

// Where a help page begins to explain `name`: after "--ttl D    ", also if other names stand
// between, or after "--no-wait: ". Empty: nowhere.
std::string_view explanation(std::string_view page, std::string_view name) {
  for (std::size_t at = page.find(name); at != page.npos; at = page.find(name, at + 1)) {
    const std::string_view rest = page.substr(at + name.size());
    if (at == 0 || page[at - 1] != ' ' || rest.empty() || !ends_name(rest.front())) continue;
    if (rest.starts_with(": ")) return rest.substr(2);
    const std::size_t line = page.rfind('\n', at) + 1;
    const bool among_names = page.substr(line).starts_with("  -") && at < page.find("  ", line + 2);
    if (among_names) return rest.substr(std::min(rest.find("  "), rest.size()));
  }
  return {};
}

// The first sentence or part of a sentence, in one line.
std::string first_words(std::string_view text) {
  std::string words;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\n';
    const bool blank = c == ' ' || c == '\n';
    if (c == ';' || c == '(' || (c == '.' && (ends_name(next) || next == '.'))) break;
    if (c == '\n' && !text.substr(i + 1).starts_with("   ")) break;
    if (!blank) words += c;
    if (blank && !words.empty() && words.back() != ' ') words += ' ';
  }
  while (!words.empty() && (words.back() == ' ' || words.back() == ',')) words.pop_back();
  return words;
}

std::string about(const Command& command, std::string_view names) {
  const std::string_view name = names.substr(names.rfind(' ') + 1);
  const std::string_view run = find_command("run")->page;
  std::string words = first_words(explanation(command.page, name));
  // Pages refer to that of `run` by "as in 'holdfast help run'", and elect has its options.
  const bool refers = words.find("as in 'holdfast help run'") != words.npos ||
                      (words.empty() && command.name() == "elect");
  if (refers) words = first_words(explanation(run, name));
  if (words.empty() || words.starts_with("as with ")) {
    words = first_words(explanation(kEverywhere, name));
  }
  return words;
}

void print_options() {
  for (const Command& command : all_commands()) {
    if (command.list == nullptr) continue;
    const std::string name(command.name());
    const std::string_view usage = command.page.substr(0, command.page.find('\n'));
    if (usage.find("-- COMMAND") != usage.npos) print(name + "\t--\tcommand\t-\tthe command\n");
    for (const OptionRow& row : OptionTable::rows_of([&] { command.list(name); })) {
      const bool option = row.names.front() == '-';
      const std::string words = option ? about(command, row.names) : std::string(command.summary);
      if (words.empty()) continue;
      print(name + "\t" + row.names + "\t" + row.takes + "\t" +
            (row.excludes.empty() ? "-" : row.excludes) + "\t" + words + "\n");
    }
  }
}

}  // namespace

int print_words(const std::string& list) {
  if (list == "--options") print_options();
  if (list == "--commands") {
    for (const Command& one : all_commands()) {
      print(std::string(one.name()) + ":" + std::string(one.summary) + "\n");
    }
  }
  if (list == "--stores") {
    for (const StoreKind& store : known_stores()) {
      for (const std::string_view start : store.url_starts) print(std::string(start) + "\n");
    }
  }
  return flush_output() ? 0 : kExitError;
}

}  // namespace holdfast::cli
