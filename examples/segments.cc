// Invoice numbers from a counter in a store; run as a test. docs/guide/ids.md quotes it.
#include "holdfast/ids/segments.h"

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace {

using holdfast::Result;
using holdfast::ids::Segments;

Result<void> number_invoices(const std::string& store) {
  // [region: segments]
  auto made = Segments::create(store, "invoices");  // once, by an operator
  if (!made) return made.error();                   // kStoreInUse: it is there already

  auto ids = Segments::open(store, "invoices", {.step_max = 10'000});
  if (!ids) return ids.error();
  auto number = (*ids)->next();
  if (!number) return number.error();  // no number is given
  // [end]
  std::printf("invoice %s\n", number->to_string().c_str());
  return {};
}

}  // namespace

int main() {
  std::string folder =
      (std::filesystem::temp_directory_path() / "holdfast-segments-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const auto numbered = number_invoices("sqlite://" + folder + "/ids.db");
  std::filesystem::remove_all(folder);
  if (numbered) return 0;
  std::fprintf(stderr, "%s\n", numbered.error().message().c_str());
  return 1;
}
