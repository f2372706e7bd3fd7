#include "src/stores/zookeeper/records.h"

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <zookeeper/zookeeper.h>

#include "src/stores/zookeeper/nodes.h"
#include "src/stores/zookeeper/transport/blocking_link.h"
#include "src/stores/zookeeper/transport/errors.h"
#include "src/stores/zookeeper/transport/link.h"
#include "src/stores/zookeeper/transport/listeners.h"

namespace holdfast::stores::zookeeper {
namespace {

using base::BootClock;
using base::BootInstant;
using port::Record;
using Version = std::optional<std::uint64_t>;

class ZookeeperRecords final : public port::Records {
 public:
  ZookeeperRecords(const ZookeeperAddress& address, port::Loop& loop)
      : folder_(address.base + "/records"), link_(address, loop) {}

  Result<void> make_folder(BootInstant by) { return link_.make_folder(folder_, by); }

  Result<std::optional<Record>> read(const std::string& key, BootInstant by) override {
    const std::string path = place_of(key);
    const auto found = link_.send(
        by, /*written=*/false, path, [path, folder = folder_](Link& link, Link::Done done) {
          const auto checked = std::make_shared<int>(ZOK);
          link.multi({{Step::Kind::kCheck, folder}},
                     Link::Done::always([checked](const Reply& reply) { *checked = reply.rc; }));
          link.get(path, nullptr, Link::Done::always([checked, done](const Reply& reply) {
                     done(*checked == ZOK || *checked == ZNONODE ? reply : Reply{*checked});
                   }));
        });
    if (!found) return found.error();
    if (found->rc == ZNONODE) return std::optional<Record>();
    if (found->rc != ZOK) return error_of(found->rc, false, "reading " + path);
    return std::optional(Record{found->text, version_of(*found)});
  }

  Result<Version> create(const std::string& key, const std::string& text, BootInstant by) override {
    const std::string path = place_of(key);
    for (bool again = true;; again = false) {
      const auto made =
          link_.send(by, /*written=*/true, path, [path, text](Link& link, Link::Done done) {
            link.create(path, text, NodeKind::kPersistent, std::move(done));
          });
      if (!made) return made.error();
      if (made->rc == ZOK) return Version(1);
      if (made->rc == ZNODEEXISTS) return Version();
      if (made->rc != ZNONODE || !again) return error_of(made->rc, true, "creating " + path);
      if (auto folder = make_folder(by); !folder) return folder.error();
    }
  }

  Result<Version> replace(const std::string& key, std::uint64_t version, const std::string& text,
                          BootInstant by) override {
    constexpr auto kNewest = static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max());
    if (version == 0 || version > kNewest) return Version();
    const std::string path = place_of(key);
    const auto number = static_cast<std::int32_t>(version - 1);
    const auto set =
        link_.send(by, /*written=*/true, path, [path, text, number](Link& link, Link::Done done) {
          link.set(path, text, number, std::move(done));
        });
    if (!set) return set.error();
    if (set->rc == ZOK) return Version(version_of(*set));
    if (set->rc == ZNONODE || set->rc == ZBADVERSION) return Version();
    return error_of(set->rc, true, "writing " + path);
  }

  std::string forgets() const override { return {}; }

 private:
  static std::uint64_t version_of(const Reply& reply) {
    return static_cast<std::uint64_t>(reply.stat.version) + 1;
  }
  std::string place_of(const std::string& key) const { return folder_ + "/" + encode_name(key); }

  const std::string folder_;
  BlockingLink link_;
};

}  // namespace

Result<std::unique_ptr<port::Records>> open_records(const ZookeeperAddress& address,
                                                    const port::StoreContext& context) {
  const auto now = BootClock::now();
  // The library keeps trying without saying why.
  if (auto there = look_for_listeners(address.endpoints, now + (context.open_by - now) / 2);
      !there) {
    return there.error();
  }
  auto made = std::make_unique<ZookeeperRecords>(address, *context.loop);
  if (auto folder = made->make_folder(context.open_by); !folder) return folder.error();
  return std::unique_ptr<port::Records>(std::move(made));
}

}  // namespace holdfast::stores::zookeeper
