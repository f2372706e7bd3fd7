// The journal's key `about`: what outlives the terms.
#include <sstream>
#include <string>

#include "src/stores/etcd/journal/journal.h"
#include "src/stores/etcd/requests.h"

namespace holdfast::stores::etcd {
namespace {

constexpr int kFormat = 1;

}  // namespace

Result<EtcdJournal::About> EtcdJournal::parse_about(const wire::RangeResponse& range) {
  About about;
  if (range.kvs_size() == 0) return about;
  std::istringstream text(range.kvs(0).value());
  int format = 0;
  std::int64_t longest = 0;
  text >> format;
  if (text && format != kFormat) {
    return Error(Errc::kVersionMismatch, "the journal has format " + std::to_string(format) +
                                             ", which this version does not know; upgrade");
  }
  text >> about.id >> about.cluster >> longest;
  if (!text || longest <= 0) {
    return Error(Errc::kCorruptState, "the journal's key 'about' is damaged");
  }
  about.longest = std::chrono::milliseconds(longest);
  about.modified = range.kvs(0).mod_revision();
  return about;
}

std::string EtcdJournal::about_text(const About& about) {
  return std::to_string(kFormat) + ' ' + about.id + ' ' + std::to_string(about.cluster) + ' ' +
         std::to_string(about.longest.count());
}

Result<void> EtcdJournal::settle() {
  about_.cluster = cluster_;
  return put_about();
}

Result<void> EtcdJournal::put_about() {
  wire::TxnRequest txn = guarded();
  put(txn, key("about"), about_text(about_), 0);
  if (write(txn) != port::Commit::kCommitted) return Error(Errc::kUnavailable, reason_);
  return {};
}

}  // namespace holdfast::stores::etcd
