#include "src/server/front/libraries/library_scripts.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace holdfast::server {
namespace {

using Does = LibraryScript::Does;
constexpr std::size_t kManyKeys = LibraryScript::kMany;

// As these versions send them. tests/faults/library_locks_test.cc runs the packages, in versions
// that docs/stores/holdfast.md names as tested.
constexpr LibraryScript kScripts[] = {
    // redis-py 8.1
    {"c3f8721cbb97f72bc19e972846bd7aaf91901658", "redis-py", Does::kRelease, 1},
    {"a4e8783852e6b949f9ef3a97212805108459a890", "redis-py", Does::kExtend, 3},
    {"1cac51482acf5858da00f6d685d68f886cd6b6b2", "redis-py", Does::kExtend, 2},
    // redsync 4.18
    {"e950836ed1e694540c503ef9972b8de518044d3b", "redsync", Does::kRelease, 1, 1, -1},
    {"d75bb8b5bd13532ddedd17762e772346e39b321e", "redsync", Does::kExtend, 2},
    {"b6b55c439e02c6f52ffb8be7ec8c0d0ac816ea79", "redsync", Does::kExtendOrTake, 2},
    // redislock 0.9
    {"80a1b5f2cfccec3b7119ba7721d2127682b691a7", "redislock", Does::kTakeOrKeep, 3},
    {"a7aba3bc5d6e99b3003da8b9d80a63b9f4092ecf", "redislock", Does::kExtend, 2},
    {"6484da7d58920897fdc22b7f9afd1a3d47524ea8", "redislock", Does::kTimeLeft, 1, 1, -3, -3},
    {"cf0e94b2e9ffc7e04395cf88f7583fc309985910", "redislock", Does::kRelease, 1},
    // node-redlock 5.0
    {"96da70f7716f27d278a5218544df37fd8b0a5e4c", "node-redlock", Does::kTakeAll, 2, kManyKeys},
    {"aed6f382e410db8ba7926d4e5e9aab410bf2a78a", "node-redlock", Does::kExtendAll, 2, kManyKeys},
    {"e4612211c9f8f51c257e26e056b0a654b3187242", "node-redlock", Does::kReleaseAll, 1, kManyKeys},
    // Redisson 4.7: RLock
    {"149c5a8bf18676fd99e9e6e24923bd64d9b62f94", "Redisson", Does::kRedissonTake, 2},
    {"6866459238a13a701d42f4971f12d9f3a50e2442", "Redisson", Does::kRedissonUnlock, 5, 3},
    {"605e338249a7a1d40df83b04f7658354f883b41b", "Redisson", Does::kRedissonForce, 2, 2},
    {"6a3d31570dc6f4b0bd32bcdc8e75667747c6f635", "Redisson", Does::kRedissonRenew, 1, kManyKeys},
    // rslock 0.10
    {"daf86bbf8740dd3ca86733367a016364b2110627", "rslock", Does::kRelease, 1},
    {"17a49af0c4b1a9034503fa84f3570f5ca76c4cbf", "rslock", Does::kExtend, 2},
    // redis-plus-plus 1.3
    {"764ece7daa93da82f4fbf4e82e0ade7067dfec70", "redis-plus-plus", Does::kRelease, 1},
    {"d9558fccdcd78dcea082d72df1b67924077deac2", "redis-plus-plus", Does::kExtend, 2},
};

}  // namespace

const LibraryScript* find_script(std::string_view sha1) {
  const auto same = [](char one, char other) {
    return one == std::tolower(static_cast<unsigned char>(other));
  };
  const auto* const found =
      std::find_if(std::begin(kScripts), std::end(kScripts), [&](const LibraryScript& each) {
        return std::equal(each.sha1.begin(), each.sha1.end(), sha1.begin(), sha1.end(), same);
      });
  return found == std::end(kScripts) ? nullptr : found;
}

}  // namespace holdfast::server
