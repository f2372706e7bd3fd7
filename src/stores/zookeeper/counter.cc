#include "src/stores/zookeeper/counter.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <zookeeper/zookeeper.h>

#include "src/stores/zookeeper/nodes.h"
#include "src/stores/zookeeper/transport/blocking_link.h"
#include "src/stores/zookeeper/transport/errors.h"
#include "src/stores/zookeeper/transport/listeners.h"

namespace holdfast::stores::zookeeper {
namespace {

using base::BootInstant;

// A transaction of more nodes may exceed what a server takes in one packet.
constexpr std::uint32_t kMostNodes = 1'000;

class ZookeeperCounter final : public port::NativeCounter {
 public:
  ZookeeperCounter(const ZookeeperAddress& address, const std::string& name, port::Loop& loop)
      : folder_(address.chroot + (name.starts_with('/') ? "" : "/") + name), link_(address, loop) {}

  Result<void> create(std::uint64_t from, BootInstant by) {
    if (folder_.ends_with('/')) return no_folder();
    if (from > 1) {
      return Error(Errc::kUnsupported,
                   named() + "the number of sequential nodes begins at 0: 0 or 1 can be the first");
    }
    const std::size_t slash = folder_.rfind('/');
    if (slash > 0) {
      if (auto above = link_.make_folder(folder_.substr(0, slash), by); !above) return above;
    }
    const auto made =
        link_.send(by, /*written=*/true, folder_, [path = folder_](Link& link, Link::Done done) {
          link.create(path, "", NodeKind::kPersistent, std::move(done));
        });
    if (!made) return made.error();
    if (made->rc == ZNODEEXISTS) return Error(Errc::kStoreInUse, named() + "it is there already");
    if (made->rc == ZBADARGUMENTS) return unfit("no node can have this name");
    if (made->rc != ZOK) return error_of(made->rc, true, "making " + folder_);
    if (from == 0) return {};
    const auto left_out = take(1, by);
    return left_out ? Result<void>() : left_out.error();
  }

  Result<void> open(BootInstant by) {
    if (folder_.ends_with('/')) return no_folder();
    const auto found =
        link_.send(by, /*written=*/false, folder_, [path = folder_](Link& link, Link::Done done) {
          link.sync(path, Link::Done::nothing());
          link.get(path, nullptr, std::move(done));
        });
    if (!found) return found.error();
    if (found->rc == ZNONODE) {
      return unfit("there is no such folder: make it once (StoreCounter::create)");
    }
    if (found->rc == ZBADARGUMENTS) return unfit("no node can have this name");
    if (found->rc != ZOK) return error_of(found->rc, false, "reading " + folder_);
    return {};
  }

  Result<Taken> take(std::uint32_t count, BootInstant by) override {
    const std::string prefix = folder_ + "/holdfast-";
    const std::vector<Step> steps(std::min(count, kMostNodes), {Step::Kind::kEnter, prefix});
    const auto made =
        link_.send(by, /*written=*/true, folder_, [steps](Link& link, Link::Done done) {
          link.multi(steps, Link::Done::always([&link, done](const Reply& reply) {
                       std::vector<Step> removal;
                       for (const std::string& name : reply.names) {
                         removal.push_back({Step::Kind::kRemove, name});
                       }
                       if (!removal.empty()) link.multi(removal, Link::Done::nothing());
                       done(reply);
                     }));
        });
    if (!made) return made.error();
    if (made->rc == ZNONODE) return Error(Errc::kCorruptState, named() + "the folder is gone");
    if (made->rc != ZOK) return error_of(made->rc, true, "numbering in " + folder_);
    Taken taken;
    for (const std::string& node : made->names) {
      const auto number = sequence_number(node);
      if (!number) return Error(number.error().code(), named() + number.error().message());
      taken.numbers.push_back(*number);
      taken.counter = *number;
    }
    return taken;
  }

  std::string forgets() const override { return {}; }

 private:
  // The root is none, either: the server refuses a sequential node of "//".
  Error no_folder() const { return unfit("name a folder below the URL's, such as 'orders'"); }
  Error unfit(const std::string& why) const { return {Errc::kInvalidArgument, named() + why}; }
  std::string named() const { return "zookeeper: the folder " + folder_ + ": "; }

  const std::string folder_;
  BlockingLink link_;
};

}  // namespace

Result<std::uint64_t> sequence_number(std::string_view node) {
  const auto split = split_number(node, /*dash=*/true);
  if (!split) {
    return Error(Errc::kCorruptState, "the name " + std::string(node) + " has no number");
  }
  if (split->second <= std::numeric_limits<std::int32_t>::max()) {
    return std::uint64_t{split->second};
  }
  return Error(Errc::kUnsupported,
               "its number has overflowed: it has 32 bits and a sign. Go on with another kind of "
               "counter, above 2147483647");
}

Result<std::unique_ptr<port::Store>> make_counter(const ZookeeperAddress& address,
                                                  const port::StoreContext& context) {
  const auto now = base::BootClock::now();
  // The library keeps trying without saying why.
  if (auto there = look_for_listeners(address.endpoints, now + (context.open_by - now) / 2);
      !there) {
    return there.error();
  }
  return port::answer(
      *context.counter,
      std::make_unique<ZookeeperCounter>(address, context.counter->name, *context.loop),
      context.open_by);
}

}  // namespace holdfast::stores::zookeeper
