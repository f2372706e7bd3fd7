// Numbers from a counter that other programs use, too. docs/guide/ids.md quotes it.
//
//   example-store-counter redis://localhost
#include "holdfast/ids/store_counter.h"

#include <cstdio>
#include <string>

namespace {

using holdfast::Errc;
using holdfast::Result;
using holdfast::ids::StoreCounter;

Result<void> number_orders(const std::string& store) {
  // [region: counter]
  auto made = StoreCounter::create(store, "orders");  // only where there is none yet
  if (!made && made.error().code() != Errc::kStoreInUse) return made.error();

  auto ids = StoreCounter::open(store, "orders", {.batch = 100});
  if (!ids) return ids.error();
  auto number = (*ids)->next();
  if (!number) return number.error();  // no number is given
  // [end]
  std::printf("order %s\n", number->to_string().c_str());
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s STORE-URL\n", arguments[0]);
    return 2;
  }
  const auto numbered = number_orders(arguments[1]);
  if (numbered) return 0;
  std::fprintf(stderr, "%s\n", numbered.error().message().c_str());
  return 1;
}
