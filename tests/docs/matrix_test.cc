// docs/stores/matrix.md is made from what the stores say of themselves, so that it cannot say
// anything else. HOLDFAST_UPDATE_GOLDEN=1 writes it anew.
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "holdfast/stores.h"
#include "src/port/url_options.h"
#include "tests/support/temp_folder.h"
#ifdef HOLDFAST_HAVE_CONSUL
#include "src/stores/consul/guarantees.h"
#include "src/stores/consul/url.h"
#endif
#ifdef HOLDFAST_HAVE_ETCD
#include "src/stores/etcd/guarantees.h"
#include "src/stores/etcd/url.h"
#endif
#ifdef HOLDFAST_HAVE_FAILOVER
#include "src/stores/failover/guarantees.h"
#include "src/stores/failover/url.h"
#endif
#ifdef HOLDFAST_HAVE_HOLDFAST
#include "src/stores/holdfast/guarantees.h"
#include "src/stores/holdfast/url.h"
#endif
#ifdef HOLDFAST_HAVE_HYBRID
#include "src/stores/hybrid/guarantees.h"
#include "src/stores/hybrid/url.h"
#endif
#ifdef HOLDFAST_HAVE_MEMCACHED
#include "src/stores/memcached/guarantees.h"
#include "src/stores/memcached/url.h"
#endif
#ifdef HOLDFAST_HAVE_MYSQL
#include "src/stores/mysql/guarantees.h"
#include "src/stores/mysql/recipes.h"
#include "src/stores/mysql/url.h"
#endif
#ifdef HOLDFAST_HAVE_POSTGRES
#include "src/stores/postgres/guarantees.h"
#include "src/stores/postgres/recipes.h"
#include "src/stores/postgres/url.h"
#endif
#ifdef HOLDFAST_HAVE_REDIS
#include "src/stores/redis/guarantees.h"
#include "src/stores/redis/recipes/options.h"
#include "src/stores/redis/url.h"
#endif
#ifdef HOLDFAST_HAVE_REDLOCK
#include "src/stores/redlock/guarantees.h"
#include "src/stores/redlock/url.h"
#endif
#ifdef HOLDFAST_HAVE_ZOOKEEPER
#include "src/stores/zookeeper/guarantees.h"
#include "src/stores/zookeeper/url.h"
#endif

namespace holdfast {
namespace {

struct Capability {
  bool Guarantees::*field;
  const char* name;
  const char* word;     // As `holdfast doctor --require` and the manifests name it.
  const char* without;  // The consequence for users of a store without it.
};

constexpr Capability kCapabilities[] = {
    {&Guarantees::fenced, "fencing tokens", "fenced",
     "tokens need not grow: for work that may be done twice"},
    {&Guarantees::fair, "first come, first served", "fair", "waiters are served in no order"},
    {&Guarantees::shared, "shared locks", "shared", "refused with kUnsupported"},
    {&Guarantees::upgrade, "upgrade of a reader", "upgrade", "refused with kUnsupported"},
    {&Guarantees::permits, "n of N permits", "permits", "refused with kUnsupported"},
    {&Guarantees::values, "a value beside a lock", "values", "refused with kUnsupported"},
    {&Guarantees::multi, "several locks in one step", "multi",
     "`acquire_all()` takes them in turn, and gives them back when one is not available"},
    {&Guarantees::list, "listing locks and queues", "list",
     "`list()` is refused with kUnsupported, and deadlocks are not detected"},
    {&Guarantees::watch_every_change, "a watch sees every change", "watch-every-change",
     "a watch looks several times a second, and may miss short holds"},
    {&Guarantees::survives_restart, "a restart of the store forgets no grant", "survives-restart",
     "after a restart two clients may believe that they hold, or none: see its faults below"},
    {&Guarantees::survives_failover, "a fail-over of the store forgets no grant",
     "survives-failover",
     "it has no fail-over, or one that may forget grants: see its faults below"},
};

struct Primitive {
  const char* name;
  const char* header;
  std::vector<bool Guarantees::*> needs;
};

std::vector<Primitive> primitives() {
  using G = Guarantees;
  return {
      {"Mutex", "mutex", {}},
      {"RecursiveMutex", "recursive_mutex", {}},
      {"StripedMutex", "striped_mutex", {}},
      {"JobLock", "job_lock", {}},
      {"Client::acquire_all()", "multi_lock", {}},
      {"SharedMutex", "shared_mutex", {&G::shared}},
      {"SharedMutex::upgrade()", "shared_mutex", {&G::shared, &G::upgrade}},
      {"Semaphore", "semaphore", {&G::permits}},
      {"Latch", "latch", {&G::values}},
      {"Barrier", "barrier", {&G::values, &G::permits}},
      {"Election", "election", {&G::values}},
      {"Once", "once", {&G::values}},
  };
}

const char* name_of(bool Guarantees::*field) {
  for (const Capability& each : kCapabilities) {
    if (each.field == field) return each.name;
  }
  return "?";
}

using Stores = std::vector<Guarantees>;

template <typename Cell>
void row(std::ostream& out, const std::string& title, const Stores& stores, Cell cell) {
  out << "| " << title << " |";
  for (const Guarantees& store : stores) out << " " << cell(store) << " |";
  out << "\n";
}

void head(std::ostream& out, const std::string& title, const Stores& stores) {
  row(out, title, stores, [](const Guarantees& store) { return store.store; });
  out << "|---|" << [&] {
    std::string rules;
    for (std::size_t i = 0; i < stores.size(); ++i) rules += "---|";
    return rules;
  }() << "\n";
}

std::string time_of(std::chrono::milliseconds time) {
  using std::chrono::hours;
  return time >= hours(1) ? std::to_string(time / hours(1)) + " h"
                          : std::to_string(time.count()) + " ms";
}

void write_stores(std::ostream& out, const Stores& stores) {
  head(out, "", stores);
  row(out, "for", stores, [](const Guarantees& store) { return store.scope; });
  row(out, "a lease is", stores, [](const Guarantees& store) {
    return time_of(store.min_ttl) + " to " + time_of(store.max_ttl);
  });
  for (const Capability& each : kCapabilities) {
    row(out, each.name, stores,
        [&](const Guarantees& store) { return store.*each.field ? "yes" : "no"; });
  }
  row(out, "a lease goes on without its client", stores,
      [](const Guarantees& store) { return store.ends_with_client ? "no" : "yes"; });
}

void write_primitives(std::ostream& out, const Stores& stores) {
  head(out, "primitive", stores);
  std::string missing;
  for (const Primitive& each : primitives()) {
    const std::string title =
        std::string("[`") + each.name + "`](../../include/holdfast/" + each.header + ".h)";
    row(out, title, stores, [&](const Guarantees& store) {
      std::string lacks;
      if (store.ends_with_client && std::string_view(each.name) == "Once") {
        lacks = "leases that go on without their client";
      }
      for (const auto need : each.needs) {
        if (!(store.*need)) lacks += (lacks.empty() ? "" : ", ") + std::string(name_of(need));
      }
      if (lacks.empty()) return "yes";
      missing += "- `" + std::string(each.name) + "` on " + store.store +
                 ": kUnsupported, because the store lacks: " + lacks + ".\n";
      return "no";
    });
  }
  out << "\n" << (missing.empty() ? "Each of these stores carries every primitive.\n" : missing);
}

void write_lacks(std::ostream& out, const Stores& stores) {
  for (const Capability& each : kCapabilities) {
    const bool lacking = std::any_of(stores.begin(), stores.end(),
                                     [&](const Guarantees& store) { return !(store.*each.field); });
    if (lacking) out << "- " << each.name << ": " << each.without << ".\n";
  }
  const bool bound = std::any_of(stores.begin(), stores.end(),
                                 [](const Guarantees& store) { return store.ends_with_client; });
  if (bound) {
    out << "- a lease goes on without its client: `adopt()`, `Once`, `JobTimes::at_least_for`, "
           "`holdfast acquire` and `run --min-hold` are refused with kUnsupported.\n";
  }
}

const char* said(Guarantee promise) {
  switch (promise) {
    case Guarantee::kYes: return "yes";
    case Guarantee::kDeclared: return "**declared**";
    case Guarantee::kNo: return "no";
  }
  return "?";
}

void write_faults(std::ostream& out, const Stores& stores) {
  for (const Guarantees& store : stores) {
    out << "### " << store.store << "\n\n"
        << "| fault | at most one believes to hold | tokens keep growing | note |\n"
        << "|---|---|---|---|\n";
    for (const FaultRow& fault : store.faults) {
      out << "| " << fault.fault << " | " << said(fault.exclusion) << " | " << said(fault.fencing)
          << " | " << fault.note << " |\n";
    }
    out << (&store == &stores.back() ? "" : "\n");
  }
}

std::string page_of(const Stores& stores) {
  std::string pages;
  for (const StoreKind& store : known_stores()) {
    if (!store.shared_by_processes) continue;  // Has no page.
    const std::string name(store.name);
    pages += (pages.empty() ? "[" : ", [") + name + "](" + name + ".md)";
  }
  std::ostringstream out;
  out << "# What each store gives\n\n"
         "This page compares the stores. `tests/docs/matrix_test.cc` generates it from "
         "`Client::guarantees()`, and fails when the page differs.\n"
         "Each store's own page explains the words and the mechanism. The pages: "
      << pages << ".\n\n";
  write_stores(out, stores);
  out << "\nWhere the table says no:\n\n";
  write_lacks(out, stores);
  out << "\n## Primitives\n\n";
  write_primitives(out, stores);
  out << "\n## Faults\n\n"
         "*yes*: the guarantee holds, and tests under that fault show it. *declared*: it may be "
         "violated, as the note says. Rely on [fencing](../guide/fencing.md) there.\n\n";
  write_faults(out, stores);
  return out.str();
}

// --- The stores of this build.

// Without a server there is no client to ask; this is what one would answer.
std::optional<Stores> all_stores() {
#if defined(HOLDFAST_HAVE_SQLITE) && defined(HOLDFAST_HAVE_REDLOCK) && \
    defined(HOLDFAST_HAVE_ZOOKEEPER) && defined(HOLDFAST_HAVE_ETCD) && \
    defined(HOLDFAST_HAVE_CONSUL) && defined(HOLDFAST_HAVE_POSTGRES) && \
    defined(HOLDFAST_HAVE_MYSQL) && defined(HOLDFAST_HAVE_MEMCACHED) && \
    defined(HOLDFAST_HAVE_HYBRID) && defined(HOLDFAST_HAVE_FAILOVER)
  const support::TempFolder folder("matrix");
  const Client memory = Client::connect("memory:").value();
  const Client sqlite = Client::connect("sqlite://" + folder.file("locks.db")).value();
  constexpr std::chrono::seconds kSession{15};
  return Stores{memory.guarantees(),
                sqlite.guarantees(),
                stores::redis::guarantees(),
                stores::redlock::guarantees(),
                stores::holdfast::guarantees(/*durable=*/true, /*shared=*/false),
                stores::zookeeper::guarantees(kSession, kSession),
                stores::etcd::guarantees(kSession),
                stores::consul::guarantees({}),
                stores::postgres::guarantees(),
                stores::mysql::guarantees(),
                stores::memcached::guarantees(),
                stores::hybrid::guarantees(stores::etcd::guarantees(kSession)),
                stores::failover::guarantees(std::chrono::seconds(10))};
#else
  return std::nullopt;
#endif
}

#ifdef HOLDFAST_HAVE_HOLDFAST
// The lock service of several servers, as it is set up by default: with eight shards.
Guarantees service_on_etcd() {
  Guarantees result = stores::holdfast::guarantees(/*durable=*/true, /*shared=*/true);
  result.store += " on etcd";
  result.multi = false;
  return result;
}
#endif

TEST(MatrixTest, ThePageSaysWhatTheStoresSay) {
  std::optional<Stores> stores = all_stores();
  if (!stores) GTEST_SKIP() << "SKIPPED: a store is not built in";
#ifdef HOLDFAST_HAVE_HOLDFAST
  const auto single = std::find_if(stores->begin(), stores->end(), [](const Guarantees& store) {
    return store.store == "holdfast";
  });
  ASSERT_NE(single, stores->end());
  stores->insert(std::next(single), service_on_etcd());
#endif
  const std::filesystem::path page =
      std::filesystem::path(HOLDFAST_SOURCE_DIR) / "docs/stores/matrix.md";
  const std::string made = page_of(*stores);
  if (std::getenv("HOLDFAST_UPDATE_GOLDEN") != nullptr) std::ofstream(page) << made;
  std::ifstream in(page);
  const std::string found{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(found, made) << "HOLDFAST_UPDATE_GOLDEN=1 writes it anew";
}

TEST(MatrixTest, TheManifestsSayWhatTheStoresSay) {
  const std::optional<Stores> stores = all_stores();
  if (!stores) GTEST_SKIP() << "SKIPPED: a store is not built in";
  ASSERT_EQ(stores->size(), known_stores().size());
  for (const Guarantees& store : *stores) {
    const StoreKind* const kind = store_of_url(store.store + ":");
    ASSERT_NE(kind, nullptr) << store.store;
    EXPECT_EQ(kind->name, store.store);
    EXPECT_EQ(kind->bound_to_client, store.bound_to_client) << store.store;
    for (const Capability& each : kCapabilities) {
      const auto& out = kind->leaves_out;
      EXPECT_EQ(std::find(out.begin(), out.end(), each.word) == out.end(), store.*each.field)
          << store.store << ": " << each.word;
    }
  }
}

std::string text_of(const std::filesystem::path& page) {
  std::ifstream in(page);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(MatrixTest, TheStoresPagesHaveEverySchemeAndOptionOfTheirUrls) {
  const std::filesystem::path folder = std::filesystem::path(HOLDFAST_SOURCE_DIR) / "docs/stores";
  for (const StoreKind& store : known_stores()) {
    if (!store.shared_by_processes) continue;  // Has no page.
    const std::string name(store.name);
    std::string page = text_of(folder / (name + ".md"));
    if (name == "redis") page += text_of(folder / "redis-topologies.md");
    for (const std::string_view start : store.url_starts) {
      EXPECT_NE(page.find(start), std::string::npos) << name << ": " << start;
    }
    std::vector<std::string> options(store.open_options.begin(), store.open_options.end());
    if (store.login == StoreLogin::kPassword) options.emplace_back("password");
    for (const std::string& option : options) {
      if (name == "zookeeper" && option.starts_with("tls_")) continue;  // It refuses them.
      EXPECT_NE(page.find("`" + option + "="), std::string::npos) << name << ": " << option;
    }
  }
}

// An option that the manifest does not know would keep a URL from being shown.
TEST(MatrixTest, TheManifestsKnowEveryOptionOfTheStores) {
#if defined(HOLDFAST_HAVE_REDLOCK) && defined(HOLDFAST_HAVE_ZOOKEEPER) && \
    defined(HOLDFAST_HAVE_ETCD) && defined(HOLDFAST_HAVE_CONSUL) &&     \
    defined(HOLDFAST_HAVE_POSTGRES) && defined(HOLDFAST_HAVE_MYSQL) &&  \
    defined(HOLDFAST_HAVE_MEMCACHED) && defined(HOLDFAST_HAVE_HYBRID) && \
    defined(HOLDFAST_HAVE_FAILOVER)
  const auto compare = [](std::string_view url, const auto& declared) {
    const auto& open = store_of_url(url)->open_options;
    for (const port::UrlOption& option : declared) {
      EXPECT_NE(std::find(open.begin(), open.end(), option.name), open.end()) << url << option.name;
    }
  };
  compare("redis:", stores::redis::kUrlOptions);
  compare("redis:", stores::redis::kRecipeOptions);
  compare("redlock:", stores::redlock::kUrlOptions);
  compare("holdfast:", stores::holdfast::kUrlOptions);
  compare("zookeeper:", stores::zookeeper::kUrlOptions);
  compare("etcd:", stores::etcd::kUrlOptions);
  compare("consul:", stores::consul::kUrlOptions);
  compare("postgres:", stores::postgres::kUrlOptions);
  compare("postgres:", stores::postgres::kRecipeOptions);
  compare("mysql:", stores::mysql::kUrlOptions);
  compare("mysql:", stores::mysql::kRecipeOptions);
  compare("memcached:", stores::memcached::kUrlOptions);
  compare("hybrid:", stores::hybrid::kUrlOptions);
  compare("failover:", stores::failover::kUrlOptions);
#else
  GTEST_SKIP() << "SKIPPED: a store is not built in";
#endif
}

TEST(MatrixTest, WhatAStoreLacksIsTold) {
  Guarantees bare;
  bare.store = "bare";
  bare.permits = bare.list = true;
  bare.faults = {{"power fails", Guarantee::kNo, Guarantee::kDeclared, "it is bare"}};
  const std::string page = page_of({bare});
  for (const char* text :
       {"- `SharedMutex::upgrade()` on bare: kUnsupported, because the store lacks: shared locks, "
        "upgrade of a reader.\n",
        "| power fails | no | **declared** | it is bare |\n", "- first come, first served: waiters",
        "| n of N permits | yes |\n"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text << "\n" << page;
  }
  EXPECT_EQ(page.find("- listing locks and queues:"), std::string::npos);
}

}  // namespace
}  // namespace holdfast
