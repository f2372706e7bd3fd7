// Keys of etcd, of whoever, as places of ours or none.

#include "src/stores/etcd/keys.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::etcd_key {

void run(std::string_view input) {
  const stores::etcd::Keys keys("", false);
  if (const auto folder = keys.folder_of(input)) {
    demand(!folder->lock.empty(), "a lock has a name");
    demand(folder->end > input, "a folder ends behind what is in it");
    demand(input.starts_with(keys.folders(folder->lock)), "no two folders have one name");
  }
  if (!input.empty()) {
    const auto back = keys.folder_of(keys.contenders(input) + "x");
    demand(back && back->lock == input, "a name is read back equal");
  }
  if (const auto lease = stores::etcd::parse_lease(input)) {
    demand(stores::etcd::parse_lease(stores::etcd::lease_text(*lease)) == lease,
           "a lease is read back equal");
  }
}

}  // namespace holdfast::fuzz::etcd_key

HOLDFAST_FUZZ_TARGET(etcd_key)
