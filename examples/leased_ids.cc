// Ids whose worker number is leased from a store; run as a test. docs/guide/ids.md quotes it.
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "holdfast/ids/leased_workers.h"

namespace {

using holdfast::Result;
using holdfast::ids::LeasedWorkers;

Result<void> number_parcels(const std::string& store) {
  // [region: leased]
  auto layout = holdfast::ids::Layout::parse("time:41 worker:10 sequence:12");
  auto made = LeasedWorkers::create(store, "parcels", {.layout = *layout});  // once
  if (!made) return made.error();  // kStoreInUse: it is there already

  auto workers = LeasedWorkers::open(store, "parcels");
  if (!workers) return workers.error();
  auto ids = workers->ids();  // with a worker number, for as long as *ids lives
  if (!ids) return ids.error();
  auto id = (*ids)->next();  // after a loss it takes a free number
  if (!id) return id.error();
  // [end]
  std::printf("parcel %s\n", id->to_string().c_str());
  return {};
}

}  // namespace

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "holdfast-leased-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const auto numbered = number_parcels("sqlite://" + folder + "/ids.db");
  std::filesystem::remove_all(folder);
  if (numbered) return 0;
  std::fprintf(stderr, "%s\n", numbered.error().message().c_str());
  return 1;
}
