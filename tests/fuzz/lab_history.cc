// The text of a lab's history.

#include <sstream>

#include "tests/fuzz/target.h"

#include "lab/history/text.h"

namespace holdfast::fuzz::lab_history {

void run(std::string_view input) {
  std::istringstream in{std::string(input)};
  const auto history = lab::read(in);
  if (!history) {
    demand(history.error().message().find("history") == 0, "the error says what it is about");
    const bool names_line = history.error().message().find("line ") != std::string::npos;
    demand(names_line || history.error().code() == Errc::kVersionMismatch, "it names the line");
    return;
  }
  std::stringstream written;
  lab::write(*history, written);
  const auto again = lab::read(written);
  demand(again.has_value(), "what was written is read");
  demand(*again == *history, "and is equal");
}

}  // namespace holdfast::fuzz::lab_history

HOLDFAST_FUZZ_TARGET(lab_history)
