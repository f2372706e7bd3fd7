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
  about.created = range.kvs(0).create_revision();
  about.modified = range.kvs(0).mod_revision();
  // Servers of before neither wrote these nor read on.
  std::int64_t waited = 0;
  if (std::uint64_t in = 0; text >> in >> waited >> about.wait.since && waited >= 0) {
    about.waits_in = in;
    about.wait.waited = std::chrono::milliseconds(waited);
  }
  if (std::uint64_t entries = 0; text >> entries) about.entries = entries;
  return about;
}

std::string EtcdJournal::about_text(const About& about) {
  std::string text = std::to_string(kFormat) + ' ' + about.id + ' ' +
                     std::to_string(about.cluster) + ' ' + std::to_string(about.longest.count());
  if (about.waits_in == 0 && about.entries == 0) return text;
  return text + ' ' + std::to_string(about.waits_in) + ' ' +
         std::to_string(about.wait.waited.count()) + ' ' + std::to_string(about.wait.since) + ' ' +
         std::to_string(about.entries);
}

// The log's of the member that has just told its revision: members may be behind each other.
std::uint64_t EtcdJournal::count_entries(std::uint64_t member) {
  const auto status = ask(wire::StatusRequest(), kReading, /*reads_only=*/true);
  return status && status->header().member_id() == member ? status->raftindex() : 0;
}

void EtcdJournal::begin_wait(About& about) {
  about.waits_in = cluster_;
  const auto wall = base::wall_now().time_since_epoch();
  about.wait.goes_on(std::chrono::duration_cast<std::chrono::seconds>(wall).count());
  opening_.waited = about.wait.waited;
}

// Another copy was put back. The next start must find that, too, until settle().
void EtcdJournal::begin_wait_anew(About& about) {
  opening_.known = false;
  about.cluster = 0;
  about.wait = {};
  begin_wait(about);
}

bool EtcdJournal::note_is_due(base::BootInstant now) const {
  return leader_ != 0 && about_.waits_in != 0 && now - noted_ >= settings_.between_notes;
}

// Time without a leader is missing, because each leader has a clock of its own.
port::Commit EtcdJournal::note_wait() {
  const base::BootInstant now = base::BootClock::now();
  about_.wait.waited += std::chrono::floor<std::chrono::milliseconds>(now - noted_);
  noted_ = now;
  wire::TxnRequest txn = guarded();
  put(txn, key("about"), about_text(about_), 0);
  return write(txn);
}

Result<void> EtcdJournal::settle() {
  about_.cluster = cluster_;
  about_.waits_in = 0;
  return put_about();
}

Result<void> EtcdJournal::put_about() {
  wire::TxnRequest txn = guarded();
  put(txn, key("about"), about_text(about_), 0);
  if (write(txn) != port::Commit::kCommitted) return Error(Errc::kUnavailable, reason_);
  return {};
}

}  // namespace holdfast::stores::etcd
