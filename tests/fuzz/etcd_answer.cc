// Answers of an etcd server, or of whatever listens there, take bounded memory to read.

#include "src/stores/etcd/transport/answer_size.h"
#include "src/stores/etcd/wire.pb.h"
#include "tests/fuzz/memory.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::etcd_answer {
namespace {

namespace wire = stores::etcd::wire;

// Arrays of its own begin with some room.
constexpr std::size_t kOwn = 4096;

template <typename Message>
void check(std::string_view bytes) {
  const PeakMemory peak;
  Message message;
  static_cast<void>(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  demand(peak.bytes() <= stores::etcd::memory_to_read(bytes) + kOwn, "an answer has its limit");
}

}  // namespace

void run(std::string_view bytes) {
  check<wire::RangeResponse>(bytes);
  check<wire::TxnResponse>(bytes);
  check<wire::WatchResponse>(bytes);
  check<wire::MemberListResponse>(bytes);
  check<wire::StatusResponse>(bytes);
  check<wire::AlarmResponse>(bytes);
}

}  // namespace holdfast::fuzz::etcd_answer

HOLDFAST_FUZZ_TARGET(etcd_answer)
