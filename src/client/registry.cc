#include "src/client/registry.h"

#include <string>

#include "src/stores/memory/memory_store.h"
#ifdef HOLDFAST_STORE_CONSUL
#include "src/stores/consul/consul_store.h"
#endif
#ifdef HOLDFAST_STORE_ETCD
#include "src/stores/etcd/etcd_store.h"
#endif
#ifdef HOLDFAST_STORE_REDIS
#include "src/stores/redis/redis_store.h"
#endif
#ifdef HOLDFAST_STORE_SQLITE
#include "src/stores/sqlite/sqlite_store.h"
#endif
#ifdef HOLDFAST_STORE_ZOOKEEPER
#include "src/stores/zookeeper/zookeeper_store.h"
#endif

namespace holdfast::client {
namespace {

struct Entry {
  std::string_view scheme;
  port::StoreFactory make;  // nullptr: left out of this build.
};

constexpr Entry kStores[] = {
    {"memory", &stores::make_memory_store},
#ifdef HOLDFAST_STORE_SQLITE
    {"sqlite", &stores::make_sqlite_store},
#else
    {"sqlite", nullptr},
#endif
#ifdef HOLDFAST_STORE_REDIS
    {"redis", &stores::make_redis_store},         {"rediss", &stores::make_redis_store},
    {"redis+unix", &stores::make_redis_store},
#else
    {"redis", nullptr},
    {"rediss", nullptr},
    {"redis+unix", nullptr},
#endif
#ifdef HOLDFAST_STORE_ZOOKEEPER
    {"zookeeper", &stores::make_zookeeper_store},
#else
    {"zookeeper", nullptr},
#endif
#ifdef HOLDFAST_STORE_ETCD
    {"etcd", &stores::make_etcd_store},           {"etcds", &stores::make_etcd_store},
#else
    {"etcd", nullptr},
    {"etcds", nullptr},
#endif
#ifdef HOLDFAST_STORE_CONSUL
    {"consul", &stores::make_consul_store},       {"consuls", &stores::make_consul_store},
#else
    {"consul", nullptr},
    {"consuls", nullptr},
#endif
};

}  // namespace

Result<port::StoreFactory> find_store(std::string_view scheme) {
  std::string known;
  for (const Entry& entry : kStores) {
    if (entry.scheme == scheme) {
      if (entry.make != nullptr) return entry.make;
      return Error(Errc::kUnsupported,
                   "the store '" + std::string(scheme) + "' was left out when Holdfast was built");
    }
    known += (known.empty() ? "" : ", ") + std::string(entry.scheme) + ":";
  }
  return Error(Errc::kInvalidArgument,
               "store URL: there is no store '" + std::string(scheme) + ":'; there is " + known);
}

}  // namespace holdfast::client
