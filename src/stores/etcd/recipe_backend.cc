#include "src/stores/etcd/recipe_backend.h"

#include <utility>

namespace holdfast::stores::etcd {
namespace {

using contend::Details;
using contend::Listing;

Error unknown_to_the_recipe() {
  return {Errc::kUnsupported,
          "etcd: with recipe=etcd there are exclusive locks only: other clients support no others"};
}

}  // namespace

// Clients of the other library do not know these operations, so they are not offered.
Guarantees RecipeBackend::guarantees() const {
  Guarantees result = EtcdBackend::guarantees();
  result.shared = result.permits = result.upgrade = result.values = result.list = false;
  result.ends_with_client = true;
  return result;
}

void RecipeBackend::enter(std::uint64_t epoch, std::string lock, contend::Key key, Details details,
                          BootInstant deadline, Done<contend::Entered> done) {
  if (key.shape != contend::Shape::kExclusive) return fail(done, unknown_to_the_recipe());
  if (auto good = keys_.check_name(lock); !good) return fail(done, good.error());
  EtcdBackend::enter(epoch, std::move(lock), key, std::move(details), deadline, std::move(done));
}

void RecipeBackend::list_in_full(std::string lock, BootInstant deadline, Done<Listing> done) {
  if (auto good = keys_.check_name(lock); !good) return fail(done, good.error());
  EtcdBackend::list_in_full(std::move(lock), deadline, std::move(done));
}

void RecipeBackend::read_record(std::string, BootInstant,
                                Done<std::pair<contend::Record, std::uint64_t>> done) {
  post([done] { done(std::pair(contend::Record{}, std::uint64_t{0})); });
}

void RecipeBackend::read_value(std::string, BootInstant, Done<contend::Value> done) {
  fail(done, unknown_to_the_recipe());
}

void RecipeBackend::apply(contend::Change change, BootInstant deadline,
                          Done<std::optional<std::uint64_t>> done) {
  if (change.record || change.record_rev || change.value || change.value_rev) {
    return fail(done, unknown_to_the_recipe());
  }
  EtcdBackend::apply(std::move(change), deadline, std::move(done));
}

void RecipeBackend::list_locks(std::string, std::size_t, BootInstant, Done<contend::Locks> done) {
  fail(done, Error(Errc::kUnsupported,
                   "etcd: with recipe=etcd locks cannot be listed, because other keys may be among "
                   "theirs: 'holdfast inspect NAME' shows one"));
}

std::string RecipeBackend::key_of(const std::string& lock, const QueueEntry& place) const {
  if (place.key.id) return EtcdBackend::key_of(lock, place);
  const auto folder = foreign_.find(lock);
  if (folder == foreign_.end()) return {};
  const auto key = folder->second.find(place.order);
  return key == folder->second.end() ? std::string() : key->second;
}

wire::RangeRequest RecipeBackend::folder_request(const std::string& lock, bool full) const {
  const std::string contenders = keys_.contenders(lock);
  wire::RangeRequest request;
  request.set_key(contenders);
  request.set_range_end(behind(contenders));
  request.set_keys_only(!full);
  return request;
}

Result<Listing> RecipeBackend::listing_of(const std::string& lock, const wire::RangeResponse& range,
                                          bool full) {
  const std::size_t begins = keys_.contenders(lock).size();
  Listing listing;
  listing.in_full = full;
  listing.record.emplace();
  foreign_.erase(lock);
  for (const wire::KeyValue& kv : range.kvs()) {
    const auto key = contend::parse_key(std::string_view(kv.key()).substr(begins));
    listing.queue.push_back(entry_of(kv, key.value_or(contend::Key()), full));
    if (!key) foreign_[lock][listing.queue.back().order] = kv.key();
  }
  sort_queue(listing);
  return listing;
}

// Another program's text is not parsed.
Details RecipeBackend::details_of(const wire::KeyValue& kv, const QueueEntry& place) const {
  return place.key.id ? EtcdBackend::details_of(kv, place) : Details{};
}

}  // namespace holdfast::stores::etcd
