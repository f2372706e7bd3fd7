// docs/ids-matrix.md is made from what the sources of ids and the stores say of themselves, so that
// it cannot say anything else. HOLDFAST_UPDATE_GOLDEN=1 writes it anew.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/ids/host_workers.h"
#include "holdfast/ids/leased_workers.h"
#include "holdfast/ids/segments.h"
#include "holdfast/ids/snowflake.h"
#include "holdfast/ids/store_counter.h"
#include "holdfast/ids/uuid.h"
#include "holdfast/stores.h"
#include "src/ids/counters/over_native.h"
#include "src/port/native_counter.h"
#include "tests/support/temp_folder.h"

namespace holdfast::ids {
namespace {

struct Source {
  std::string title;
  IdGuarantees guarantees;
};

const char* said(UniqueBy by) {
  switch (by) {
    case UniqueBy::kChance: return "random bits";
    case UniqueBy::kConfiguration: return "configuration";
    case UniqueBy::kLease: return "a lease, and a durable bound of the time";
    case UniqueBy::kCounter: return "one committed write to a counter";
  }
  return "?";
}

const char* said(IdOrder order) {
  switch (order) {
    case IdOrder::kNone: return "none";
    case IdOrder::kPerThread: return "per thread";
    case IdOrder::kObject: return "per object";
    case IdOrder::kCounter: return "all processes on the counter";
  }
  return "?";
}

struct Fault {
  const char* title;
  bool IdGuarantees::*survives;
};
constexpr Fault kFaults[] = {
    {"kill, restart", &IdGuarantees::survives_restart},
    {"clock set back", &IdGuarantees::survives_clock_back},
    {"pause", &IdGuarantees::survives_pause},
    {"fork", &IdGuarantees::survives_fork},
    {"old or second copy", &IdGuarantees::survives_old_copy},
};

std::string page_of(const std::vector<Source>& sources) {
  std::ostringstream out;
  out << "# What each kind of id promises\n\n"
         "This page compares the sources of ids. `tests/docs/ids_matrix_test.cc` generates it from "
         "`IdSource::guarantees()` and the stores' manifests, and fails when the page differs. "
         "[The guide](guide/ids.md) explains the kinds.\n\n"
         "## Unique by what, under which faults, in which order\n\n"
         "| source | unique by | order";
  std::string rules = "|---|---|---|";
  for (const Fault& fault : kFaults) {
    out << " | " << fault.title;
    rules += "---|";
  }
  out << " |\n" << rules << "\n";
  for (const Source& source : sources) {
    out << "| " << source.title << " | " << said(source.guarantees.unique_by) << " | "
        << said(source.guarantees.order);
    for (const Fault& fault : kFaults) {
      out << " | " << (source.guarantees.*fault.survives ? "yes" : "no");
    }
    out << " |\n";
  }
  out << "\n*yes*: the fault repeats no id. *no*: it may, and not every process can see it.\n\n"
         "- snowflake: with the policy `logical` and the time in front. Other policies may give "
         "up the order.\n"
         "- pause: a process stands still, for however long.\n"
         "- old or second copy: an older copy of the file, the store or the configuration is put "
         "back, or is used twice. Processes that run while a store goes back see it by a counter "
         "or "
         "a bound, and stop with kCorruptState.\n"
         "- order per object: when one call returned before another one began, its id is less. "
         "Ids of two objects have no order.\n\n"
         "## What each store may forget\n\n"
         "Every promise above that rests on a store ends where the store loses a write that it has "
         "answered. `guarantees().forgets` tells it of one running server, and `require_durable` "
         "refuses it.\n\n"
         "| store | worker numbers, segments | counter of other programs | may forget |\n"
         "|---|---|---|---|\n";
  for (const StoreKind& kind : known_stores()) {
    if (!kind.has_records && kind.counter.empty()) continue;
    out << "| " << kind.name << " | " << (kind.has_records ? "yes" : "no") << " | "
        << (kind.counter.empty() ? "no" : kind.counter) << " | "
        << (kind.may_forget.empty() ? "nothing" : kind.may_forget) << " |\n";
  }
  return out.str();
}

struct Unasked final : port::NativeCounter {
  Result<Taken> take(std::uint32_t, base::BootInstant) override {
    return Error(Errc::kUnsupported, "nobody asks");
  }
  std::string forgets() const override { return {}; }
};

IdGuarantees of_counter(std::uint32_t batch) {
  return StoreCounterOverNative::open(std::make_unique<Unasked>(), "x", {.batch = batch})
      .value()
      ->guarantees();
}

std::vector<Source> all_sources() {
  const support::TempFolder folder("ids-matrix");
  const Layout layout = Layout::parse("time:41 worker:10 sequence:12").value();
  const std::string file = folder.file("x.ids");
  EXPECT_TRUE(HostWorkers::create(file, {.layout = layout, .last = 1}));
  const std::string store = "memory:ids-matrix";
  EXPECT_TRUE(LeasedWorkers::create(store, "workers", {.layout = layout}));
  EXPECT_TRUE(Segments::create(store, "segments"));
  const auto configured = Snowflake::make({.layout = layout}).value();
  return {{"snowflake, number from a configuration", configured->guarantees()},
          {"the same, a thread's own supply", SnowflakeBlock(*configured).guarantees()},
          {"snowflake, number from a host file",
           HostWorkers::open(file).value().take().value()->guarantees()},
          {"snowflake, number leased from a store",
           LeasedWorkers::open(store, "workers").value().take().value()->guarantees()},
          {"segments", Segments::open(store, "segments").value()->guarantees()},
          {"store counter, batch of 1", of_counter(1)},
          {"store counter, larger batch", of_counter(2)},
          {"UUIDv7", UuidV7().guarantees()},
          {"ULID", Ulid().guarantees()}};
}

TEST(IdsMatrixTest, ThePageSaysWhatTheSourcesSay) {
  const std::filesystem::path page =
      std::filesystem::path(HOLDFAST_SOURCE_DIR) / "docs/ids-matrix.md";
  const std::string made = page_of(all_sources());
  if (std::getenv("HOLDFAST_UPDATE_GOLDEN") != nullptr) std::ofstream(page) << made;
  std::ifstream in(page);
  const std::string found{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(found, made) << "HOLDFAST_UPDATE_GOLDEN=1 writes it anew";
}

// After a loss the object goes on under another number, which may be a lower one.
TEST(IdsMatrixTest, AWorkerNumberAboveTheTimeClaimsNoOrder) {
  const Layout layout = Layout::parse("worker:10 time:41 sequence:12").value();
  ASSERT_TRUE(LeasedWorkers::create("memory:ids-order", "x", {.layout = layout}));
  const auto ids = LeasedWorkers::open("memory:ids-order", "x").value().ids().value();
  EXPECT_EQ(ids->guarantees().order, IdOrder::kNone);
}

// A manifest that says "nothing" is believed by whoever reads the page.
TEST(IdsMatrixTest, TheMemoryStoreSaysWhatItsManifestSays) {
  ASSERT_TRUE(Segments::create("memory:ids-forgets", "x"));
  EXPECT_FALSE(Segments::status("memory:ids-forgets", "x")->forgets.empty());
  EXPECT_FALSE(store_of_url("memory:")->may_forget.empty());
}

}  // namespace
}  // namespace holdfast::ids
