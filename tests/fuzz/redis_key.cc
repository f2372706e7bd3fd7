// Lock names as keys of Redis, and keys of whoever else as none of ours.

#include "src/stores/redis/protocol/keys.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::redis_key {

void run(std::string_view input) {
  if (const auto name = stores::redis::name_of_key(input)) {
    demand(!name->empty(), "a lock has a name");
    demand(stores::redis::record_key(*name) == input, "no two keys have one name");
  }
  const std::string key = stores::redis::record_key(input);
  if (!input.empty()) {
    demand(stores::redis::name_of_key(key) == input, "a name is read back equal");
  }
  // A cluster hashes only the part between the first '{' and the next '}'.
  const std::size_t open = key.find('{');
  demand(key.find('}') == key.size() - 1 && key.find('{', open + 1) == key.npos,
         "all of a name decides about its slot");
}

}  // namespace holdfast::fuzz::redis_key

HOLDFAST_FUZZ_TARGET(redis_key)
