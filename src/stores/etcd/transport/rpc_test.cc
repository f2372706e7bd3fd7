#include "src/stores/etcd/transport/rpc.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <system_error>

#include <gtest/gtest.h>

namespace holdfast::stores::etcd {
namespace {

using namespace std::chrono_literals;

// While it lives the process gets no further descriptor, but for the spare ones.
class NoDescriptors {
 public:
  explicit NoDescriptors(int spare = 0) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(0);
    ::close(next);
    const rlimit none{static_cast<rlim_t>(next + spare), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(EtcdRpcTest, WithoutDescriptorsForItsTimersItsLoopEnds) {
  EtcdAddress address;
  address.servers = {{"127.0.0.1", 1}};
  for (int spare = 0; spare < 8; ++spare) {
    const NoDescriptors none(spare);
    try {
      ASSERT_TRUE(Rpc::make(address));
      EXPECT_GT(spare, 0);
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), EMFILE) << error.what();
    }
  }
}

TEST(EtcdRpcTest, AProcessWithoutDescriptorsIsToldSo) {
  EtcdAddress address;
  address.servers = {{"127.0.0.1", 1}};
  const auto rpc = Rpc::make(address);
  ASSERT_TRUE(rpc);
  const auto ask = [&rpc] {
    std::promise<Result<wire::RangeResponse>> answer;
    (*rpc)->call(wire::RangeRequest(), {.deadline = base::BootClock::now() + 20s},
                 Rpc::Then<wire::RangeResponse>(
                     [&](Result<wire::RangeResponse> got) { answer.set_value(std::move(got)); }));
    return answer.get_future().get();
  };
  {
    const NoDescriptors none;
    const auto refused = ask();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::kUnavailable);
    EXPECT_NE(refused.error().message().find("Too many open files"), std::string::npos)
        << refused.error().message();
  }
  (*rpc)->close();
}

}  // namespace
}  // namespace holdfast::stores::etcd
