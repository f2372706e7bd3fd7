#include "src/stores/redis/listing.h"

#include <memory>
#include <set>
#include <utility>

#include "src/stores/redis/protocol/keys.h"
#include "src/stores/redis/protocol/lock_view.h"

namespace holdfast::stores::redis {
namespace {

constexpr std::size_t kBatch = 256;

bool is_damaged(const Error& error) {
  return error.code() == Errc::kCorruptState || error.code() == Errc::kVersionMismatch;
}

// Repeats SCAN and MGET of the found keys, then inspects each lock in use.
class Listing : public std::enable_shared_from_this<Listing> {
 public:
  Listing(ListingAccess access, std::string prefix, std::size_t limit, base::BootInstant deadline,
          port::Done<std::vector<LockInfo>> done)
      : access_(std::move(access)),
        pattern_(record_pattern(prefix)),
        prefix_(std::move(prefix)),
        limit_(limit),
        deadline_(deadline),
        done_(std::move(done)) {}

  void scan() {
    access_.read({"SCAN", cursor_, "MATCH", pattern_, "COUNT", "1000"}, deadline_,
                 [self = shared_from_this()](const Result<Reply>& reply) { self->on_scan(reply); });
  }

 private:
  void on_scan(const Result<Reply>& reply) {
    if (!reply) return done_(reply.error());
    if (reply->items.size() != 2) {
      return done_(Error(Errc::kCorruptState, "the server answered SCAN in an unknown form"));
    }
    cursor_ = reply->items[0].text;
    keys_.clear();
    for (const Reply& key : reply->items[1].items) keys_.push_back(key.text);
    if (keys_.empty()) return next();
    if (access_.one_by_one) return read_each();
    std::vector<std::string_view> words{"MGET"};
    words.insert(words.end(), keys_.begin(), keys_.end());
    access_.read(words, deadline_, [self = shared_from_this()](const Result<Reply>& records) {
      self->on_records(records);
    });
  }

  // A record that cannot be read here is on its way to another server: an inspection decides.
  void read_each() {
    auto records = std::make_shared<Reply>();
    records->items.resize(keys_.size());
    unanswered_ = keys_.size();
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      access_.read({"GET", keys_[i]}, deadline_,
                   [self = shared_from_this(), records, i](const Result<Reply>& reply) {
                     if (reply) records->items[i] = *reply;
                     if (--self->unanswered_ == 0) self->on_records(*records);
                   });
    }
  }

  void on_records(const Result<Reply>& records) {
    if (!records) return done_(records.error());
    for (std::size_t i = 0; i < keys_.size() && i < records->items.size(); ++i) {
      const std::string& record = records->items[i].text;
      const auto name = name_of_key(keys_[i]);
      // No record: it is empty, is no string, or has been removed meanwhile. An inspection decides.
      if (!name || !name->starts_with(prefix_) || is_free(record)) continue;
      names_.insert(*name);
    }
    next();
  }

  void next() {
    if (cursor_ != "0") return scan();
    at_ = names_.begin();
    look();
  }

  // Inspects a batch of locks at once: one write, and one wait for the server.
  void look() {
    batch_.clear();
    for (; at_ != names_.end() && batch_.size() < kBatch; ++at_) batch_.push_back({*at_, {}});
    if (batch_.empty() || found_.size() >= limit_) return finish();
    unanswered_ = batch_.size();
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      access_.inspect(batch_[i].first, deadline_,
                      [self = shared_from_this(), i](const Result<std::optional<LockInfo>>& lock) {
                        self->on_lock(i, lock);
                      });
    }
  }

  // (By reference: with a value, gcc 12 at -O2 warns that the moved-from member is uninitialized.)
  void on_lock(std::size_t i, const Result<std::optional<LockInfo>>& lock) {
    if (!lock && is_damaged(lock.error())) {
      // One unreadable lock does not keep the others out of the list.
      const std::string& why = lock.error().message();
      const bool named = why.starts_with("lock '");
      access_.alarm(named ? why : "lock '" + batch_[i].first + "': " + why);
    } else if (!lock) {
      if (!failure_) failure_ = lock.error();
    } else {
      batch_[i].second = *lock;
    }
    if (--unanswered_ > 0) return;
    if (failure_) return done_(*failure_);
    for (auto& [name, info] : batch_) {
      const bool in_use = info && !(info->holders.empty() && info->waiters.empty());
      if (in_use && found_.size() < limit_) found_.push_back(*std::move(info));
    }
    look();
  }

  void finish() { done_(std::move(found_)); }

  const ListingAccess access_;
  const std::string pattern_;
  const std::string prefix_;
  const std::size_t limit_;
  const base::BootInstant deadline_;
  const port::Done<std::vector<LockInfo>> done_;
  std::string cursor_ = "0";
  std::vector<std::string> keys_;
  std::set<std::string> names_;
  std::set<std::string>::const_iterator at_;
  std::vector<std::pair<std::string, std::optional<LockInfo>>> batch_;
  std::size_t unanswered_ = 0;
  std::optional<Error> failure_;
  std::vector<LockInfo> found_;
};

}  // namespace

void list_locks(ListingAccess access, std::string prefix, std::size_t limit,
                base::BootInstant deadline, port::Done<std::vector<LockInfo>> done) {
  std::make_shared<Listing>(std::move(access), std::move(prefix), limit, deadline, std::move(done))
      ->scan();
}

port::Done<std::vector<LockInfo>> Lists::one_more() {
  return [self = shared_from_this()](Result<std::vector<LockInfo>> list) {
    self->add(std::move(list));
  };
}

void Lists::add(Result<std::vector<LockInfo>> list) {
  if (!list && !failure_) failure_ = list.error();
  if (list) {
    for (LockInfo& each : *list) {
      const std::string name = each.name;
      found_.insert_or_assign(name, std::move(each));
    }
  }
  if (--unanswered_ > 0) return;
  if (failure_) return done_(*failure_);
  std::vector<LockInfo> all;
  for (auto& [name, info] : found_) {
    if (all.size() < limit_) all.push_back(std::move(info));
  }
  done_(std::move(all));
}

}  // namespace holdfast::stores::redis
