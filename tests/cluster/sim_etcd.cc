#include "tests/cluster/sim_etcd.h"

#include <algorithm>
#include <utility>

#include "src/stores/etcd/transport/errors.h"

namespace holdfast::testing::cluster {
namespace {

using namespace std::chrono_literals;

SimEtcd* the_etcd = nullptr;

constexpr Nanos kLatest = 20s;  // A request that is late arrives within this time.

Error refusal(int code, const std::string& text) {
  return stores::etcd::to_error({code, "etcdserver: " + text}, /*reads_only=*/false, "etcd");
}

bool is_put(const wire::RequestOp& each) { return each.has_request_put(); }
bool is_read(const wire::RequestOp& each) { return each.has_request_range(); }

}  // namespace

SimEtcd::SimEtcd(simulation::World& world) : world_(world) { the_etcd = this; }
SimEtcd::~SimEtcd() { the_etcd = nullptr; }
SimEtcd& SimEtcd::get() { return *the_etcd; }

// --- Keys.

const SimEtcd::Value* SimEtcd::find(const std::string& key, std::int64_t revision) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return nullptr;
  const auto after = std::find_if(found->second.begin(), found->second.end(),
                                  [&](const Value& each) { return each.modified > revision; });
  if (after == found->second.begin()) return nullptr;
  const Value& value = *std::prev(after);
  return value.gone ? nullptr : &value;
}

std::string SimEtcd::value_of(const std::string& key) const {
  const Value* found = find(key, revision_);
  return found == nullptr ? "" : found->text;
}

void SimEtcd::write(const std::string& key, Value value) {
  const Value* before = find(key, revision_);
  value.created = before == nullptr ? revision_ + 1 : before->created;
  value.modified = revision_ + 1;
  if (on_put && !value.gone) on_put(key, value.text);
  auto& history = keys_[key];
  if (!history.empty() && history.back().modified == value.modified) history.pop_back();
  history.push_back(std::move(value));
}

void SimEtcd::erase(const std::string& from, const std::string& end) {
  for (auto at = keys_.lower_bound(from); at != keys_.end(); ++at) {
    if (end.empty() ? at->first != from : at->first >= end) break;
    if (find(at->first, revision_) == nullptr) continue;
    Value gone;
    gone.gone = true;
    write(at->first, gone);
  }
}

wire::RangeResponse SimEtcd::range(const wire::RangeRequest& request, std::int64_t revision) const {
  wire::RangeResponse answer;
  answer.mutable_header()->set_cluster_id(1);
  answer.mutable_header()->set_revision(revision_);
  std::vector<std::pair<std::string, const Value*>> found;
  for (auto at = keys_.lower_bound(request.key()); at != keys_.end(); ++at) {
    const bool over =
        request.range_end().empty() ? at->first != request.key() : at->first >= request.range_end();
    if (over) break;
    if (const Value* value = find(at->first, revision)) found.emplace_back(at->first, value);
  }
  if (request.sort_order() == wire::RangeRequest::DESCEND) std::reverse(found.begin(), found.end());
  if (request.limit() > 0 && found.size() > static_cast<std::size_t>(request.limit())) {
    found.resize(static_cast<std::size_t>(request.limit()));
  }
  for (const auto& [key, value] : found) {
    wire::KeyValue& one = *answer.add_kvs();
    one.set_key(key);
    one.set_create_revision(value->created);
    one.set_mod_revision(value->modified);
    one.set_lease(value->lease);
    if (!request.keys_only()) one.set_value(value->text);
  }
  return answer;
}

std::int64_t SimEtcd::revision_to_read() {
  if (!world_.loses || !world_.percent(20)) return revision_;
  ++tally.stale;
  const auto back = static_cast<std::int64_t>(world_.dice.below(8));
  return std::max(std::max<std::int64_t>(compacted_, 1), revision_ - back);
}

Result<wire::RangeResponse> SimEtcd::apply(const wire::RangeRequest& request) {
  const std::int64_t wanted = request.revision();
  if (wanted != 0 && wanted < compacted_) {
    return refusal(11, "mvcc: required revision has been compacted");
  }
  if (wanted > revision_) return refusal(11, "mvcc: required revision is a future revision");
  return range(request, wanted != 0 ? wanted : revision_to_read());
}

bool SimEtcd::holds(const wire::Compare& compare) const {
  const Value* found = find(compare.key(), revision_);
  if (compare.target() == wire::Compare::VALUE) {
    return found != nullptr && found->text == compare.value();
  }
  if (compare.target() == wire::Compare::LEASE) {
    return (found == nullptr ? 0 : found->lease) == compare.lease();
  }
  const bool created = compare.target() == wire::Compare::CREATE;
  const std::int64_t wanted = created ? compare.create_revision() : compare.mod_revision();
  std::int64_t has = 0;
  if (found != nullptr) has = created ? found->created : found->modified;
  return compare.result() == wire::Compare::GREATER ? has > wanted : has == wanted;
}

// Such a transaction may be answered as of an older revision, as a reading may.
Result<wire::TxnResponse> SimEtcd::read_only(const wire::TxnRequest& request) {
  const std::int64_t at = revision_to_read();
  wire::TxnResponse answer;
  answer.set_succeeded(true);
  answer.mutable_header()->set_cluster_id(1);
  answer.mutable_header()->set_revision(at);
  for (const wire::RequestOp& each : request.success()) {
    *answer.add_responses()->mutable_response_range() = range(each.request_range(), at);
  }
  return answer;
}

Result<wire::TxnResponse> SimEtcd::apply(const wire::TxnRequest& request) {
  const auto& success = request.success();
  if (request.compare().empty() && std::all_of(success.begin(), success.end(), is_read)) {
    return read_only(request);
  }
  if (full_ && std::any_of(success.begin(), success.end(), is_put)) {
    return refusal(8, "mvcc: database space exceeded");
  }
  wire::TxnResponse answer;
  const auto& compares = request.compare();
  answer.set_succeeded(std::all_of(compares.begin(), compares.end(),
                                   [&](const wire::Compare& each) { return holds(each); }));
  if (!answer.succeeded()) ++tally.refused;
  const auto& steps = answer.succeeded() ? request.success() : request.failure();
  for (const wire::RequestOp& each : steps) {
    const std::int64_t lease = each.request_put().lease();
    if (is_put(each) && lease != 0 && !leases_.contains(lease)) {
      return refusal(5, "requested lease not found");
    }
  }
  bool changed = false;
  for (const wire::RequestOp& each : steps) {
    wire::ResponseOp& told = *answer.add_responses();
    if (is_read(each)) *told.mutable_response_range() = range(each.request_range(), revision_);
    if (is_put(each)) {
      Value value;
      value.lease = each.request_put().lease();
      value.text = each.request_put().value();
      write(each.request_put().key(), value);
      changed = true;
    }
    if (each.has_request_delete_range()) {
      const auto& drop = each.request_delete_range();
      wire::RangeRequest look;
      look.set_key(drop.key());
      look.set_range_end(drop.range_end());
      changed = changed || range(look, revision_).kvs_size() > 0;
      erase(drop.key(), drop.range_end());
    }
  }
  revision_ += changed ? 1 : 0;
  answer.mutable_header()->set_cluster_id(1);
  answer.mutable_header()->set_revision(revision_);
  return answer;
}

Result<wire::CompactionResponse> SimEtcd::apply(const wire::CompactionRequest& request) {
  if (request.revision() <= compacted_) return refusal(11, "mvcc: already compacted");
  compacted_ = request.revision();
  for (auto at = keys_.begin(); at != keys_.end();) {
    auto& history = at->second;
    while (history.size() > 1 && history[1].modified <= compacted_) history.erase(history.begin());
    const bool over = history.front().gone && history.front().modified <= compacted_;
    if (over) history.erase(history.begin());
    at = history.empty() ? keys_.erase(at) : std::next(at);
  }
  return wire::CompactionResponse();
}

Result<wire::StatusResponse> SimEtcd::apply(const wire::StatusRequest&) {
  wire::StatusResponse answer;
  answer.set_version("3.5.21");
  return answer;
}

// --- Leases.

Result<wire::LeaseGrantResponse> SimEtcd::apply(const wire::LeaseGrantRequest& request) {
  if (leases_.contains(request.id())) return refusal(9, "lease already exists");
  const Nanos length = std::chrono::seconds(request.ttl());
  leases_[request.id()] = {length, world_.now + length, 0};
  watch_over(request.id());
  wire::LeaseGrantResponse answer;
  answer.set_id(request.id());
  answer.set_ttl(request.ttl());
  return answer;
}

Result<wire::LeaseRevokeResponse> SimEtcd::apply(const wire::LeaseRevokeRequest& request) {
  if (!leases_.contains(request.id())) return refusal(5, "requested lease not found");
  end_lease(request.id());
  return wire::LeaseRevokeResponse();
}

std::int64_t SimEtcd::keep_alive(std::int64_t lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return world_.loses && world_.percent(50) ? 2 : 0;
  found->second.ends = world_.now + found->second.length;
  watch_over(lease);
  return std::chrono::duration_cast<std::chrono::seconds>(found->second.length).count();
}

void SimEtcd::watch_over(std::int64_t lease) {
  const std::uint64_t turn = leases_[lease].turn = ++turns_;
  world_.at(leases_[lease].ends, [this, lease, turn] {
    const auto found = leases_.find(lease);
    if (found == leases_.end() || found->second.turn != turn) return;
    if (silent_until_ <= world_.now) return end_lease(lease);
    found->second.ends = silent_until_ + found->second.length;
    watch_over(lease);
  });
}

void SimEtcd::end_lease(std::int64_t lease) {
  leases_.erase(lease);
  std::vector<std::string> ended;
  for (const auto& [key, history] : keys_) {
    if (!history.back().gone && history.back().lease == lease) ended.push_back(key);
  }
  for (const std::string& key : ended) erase(key, "");
  revision_ += ended.empty() ? 0 : 1;
}

// --- Faults.

void SimEtcd::end_leadership() {
  const auto found = keys_.find("hf1/j/leader");
  if (found == keys_.end() || found->second.back().gone) return;
  if (world_.percent(50)) return end_lease(found->second.back().lease);
  erase(found->first, "");  // By an operator.
  ++revision_;
}

void SimEtcd::cut_off(Process& server, Nanos time, bool confirms) {
  cut_[&server] = {world_.now + time, confirms};
}

bool SimEtcd::is_cut(const Process& server) const {
  const auto found = cut_.find(&server);
  return found != cut_.end() && found->second.until > world_.now;
}

bool SimEtcd::confirms_alone(const Process& server) const {
  return is_cut(server) && cut_.at(&server).confirms;
}

bool SimEtcd::denies(const Process& server) const {
  const auto found = denied_.find(&server);
  return found != denied_.end() && found->second > world_.now;
}

void SimEtcd::fall_silent(Nanos time) {
  silent_until_ = world_.now + time;
  world_.at(silent_until_, [this] {
    std::vector<std::int64_t> all;
    for (auto& [id, lease] : leases_) {
      lease.ends = world_.now + lease.length;
      all.push_back(id);
    }
    for (const std::int64_t id : all) watch_over(id);
  });
}

void SimEtcd::heal() {
  cut_.clear();
  denied_.clear();
  full_ = false;
}

void SimEtcd::carry(Process& from, const Arrives& arrives) {
  const auto cut = [this, &from] { return is_cut(from); };
  const bool faulty = world_.loses;
  if (cut() || (faulty && world_.percent(2))) return;  // Never arrives.
  Nanos way = world_.upto(faulty && world_.percent(10) ? 400ms : 2ms);
  if (faulty && world_.percent(2)) {
    way = world_.upto(kLatest);
    ++tally.late;
  }
  if (faulty && world_.percent(8)) {
    const Nanos most = world_.percent(40) ? kLatest : world_.percent(50) ? 4s : 1s;
    world_.after(world_.upto(most), [this, arrives] {
      if (silent_until_ > world_.now) return;
      ++tally.repeated;
      static_cast<void>(arrives());
    });
  }
  const bool answered = !faulty || !world_.percent(3);
  const Nanos back = world_.upto(faulty && world_.percent(10) ? 400ms : 2ms);
  const auto arrive = [this, arrives, cut, answered, back] {
    const simulation::Task answer = arrives();
    if (answered && !cut()) world_.after(back, answer);
  };
  world_.after(way, [this, arrive] {
    silent_until_ > world_.now ? world_.at(silent_until_, arrive) : arrive();
  });
}

}  // namespace holdfast::testing::cluster
