// Names of hosts for a real memcached: a name is one server.
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "holdfast/client.h"
#include "tests/support/memcached_server.h"
#include "tests/support/small_disk.h"
#include "tests/support/temp_folder.h"

namespace holdfast::faults {
namespace {

[[maybe_unused]] const bool kMounts = support::keep_mounts_private();

// The names of hosts of this process, for as long as the object exists.
class HostNames {
 public:
  explicit HostNames(const std::string& lines) {
    std::ofstream(folder_.file("hosts")) << "127.0.0.1 localhost\n" << lines;
    mounted_ = ::mount(folder_.file("hosts").c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0;
  }
  ~HostNames() {
    if (mounted_) ::umount2("/etc/hosts", MNT_DETACH);
  }
  HostNames(const HostNames&) = delete;
  HostNames& operator=(const HostNames&) = delete;

  bool mounted() const { return mounted_; }

 private:
  support::TempFolder folder_{"hosts"};
  bool mounted_ = false;
};

// Clients that choose different ones of two servers would hold one lock together, for good.
TEST(MemcachedNamesTest, ANameOfSeveralAddressesIsRefused) {
  HOLDFAST_NEEDS_MEMCACHED();
  if (::geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root may change the names of hosts";
  const support::MemcachedServer server;
  const HostNames names(
      "127.0.0.1 one.test\n127.0.0.1 both.test\n::1 both.test\n"
      "127.0.0.1 several.test\n127.0.0.2 several.test\n");
  if (!names.mounted()) GTEST_SKIP() << "SKIPPED: /etc/hosts cannot be replaced here";
  const auto connect = [&](const std::string& host) {
    return Client::connect("memcached://" + host + ':' + std::to_string(server.port()));
  };
  EXPECT_TRUE(connect("one.test"));
  EXPECT_TRUE(connect("both.test")) << "one machine may have an address of each family";
  const auto refused = connect("several.test");
  ASSERT_FALSE(refused) << "each client would choose one of them";
  EXPECT_EQ(refused.error().code(), Errc::kInvalidArgument) << refused.error().message();
  EXPECT_NE(refused.error().message().find("several.test"), std::string::npos);
  EXPECT_NE(refused.error().message().find("several addresses"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::faults
