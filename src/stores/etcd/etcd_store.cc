#include "src/stores/etcd/etcd_store.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "src/contend/contend_store.h"
#include "src/port/records_job.h"
#include "src/stores/etcd/journal/journal.h"
#include "src/stores/etcd/journal/journal_shards.h"
#include "src/stores/etcd/journal/members.h"
#include "src/stores/etcd/recipe_backend.h"
#include "src/stores/etcd/records.h"
#include "src/stores/etcd/transport/rpc.h"
#include "src/stores/etcd/url.h"

namespace holdfast::stores {
namespace {

// Reads one key of the locks. This shows that a server answers, and that the log-in may read.
Result<void> try_to_read(etcd::Rpc& rpc, const etcd::EtcdAddress& address,
                         base::BootInstant open_by) {
  const base::BootInstant deadline =
      std::min(open_by, base::BootClock::now() +
                            2 * address.connect_timeout * static_cast<int>(address.servers.size()));
  etcd::wire::RangeRequest request;
  request.set_key(etcd::Keys(address.prefix, address.foreign_recipe).folders(""));
  request.set_limit(1);
  request.set_keys_only(true);
  auto told = std::make_shared<std::promise<Result<void>>>();
  auto answer = told->get_future();
  rpc.call(std::move(request), etcd::How{deadline, /*reads_only=*/true, std::nullopt},
           [told](const Result<etcd::wire::RangeResponse>& range) {
             told->set_value(range ? Result<void>() : Result<void>(range.error()));
           });
  return answer.get();
}

Result<std::unique_ptr<port::Store>> make_journal(port::StoreUrl& url,
                                                  const port::StoreContext& context) {
  auto settings = etcd::parse_journal_url(url);
  if (!settings) return settings.error();
  if (auto known = port::reject_unknown_options(url, "journal"); !known) return known.error();
  port::JournalJob& job = *context.journal;
  settings->shard = job.shard;
  switch (job.wish) {
    case port::JournalJob::Wish::kMembers: {
      auto members = etcd::EtcdMembers::make(*settings, job.shard.of);
      if (!members) return members.error();
      job.members = *std::move(members);
      break;
    }
    case port::JournalJob::Wish::kShards: {
      const auto shards = etcd::fix_shards(settings->address, job.shard.of, context.open_by);
      if (!shards) return shards.error();
      job.shard.of = *shards;
      break;
    }
    case port::JournalJob::Wish::kJournal: {
      auto made = etcd::EtcdJournal::make(*std::move(settings), context.open_by);
      if (!made) return made.error();
      job.made = *std::move(made);
      break;
    }
  }
  return std::unique_ptr<port::Store>();
}

}  // namespace

Result<std::unique_ptr<port::Store>> make_etcd_store(port::StoreUrl url,
                                                     const port::StoreContext& context) {
  if (context.journal != nullptr) return make_journal(url, context);
  auto address = etcd::parse_etcd_url(url);
  if (!address) return address.error();
  if (auto known = port::reject_unknown_options(url, "etcd"); !known) return known.error();
  if (context.records != nullptr) {
    return port::answer(*context.records, etcd::open_records(*address, context.open_by));
  }
  auto rpc = etcd::Rpc::make(*address, context.io);
  if (!rpc) return rpc.error();
  if (auto readable = try_to_read(**rpc, *address, context.open_by); !readable) {
    (*rpc)->close();
    return readable.error();
  }
  const auto session = address->session_ttl;
  std::unique_ptr<contend::Backend> backend;
  if (address->foreign_recipe) {
    backend = std::make_unique<etcd::RecipeBackend>(*address, *std::move(rpc), context);
  } else {
    backend = std::make_unique<etcd::EtcdBackend>(*address, *std::move(rpc), context);
  }
  // A server has just answered. A user who may not list the members learns less about the cluster.
  const auto until =
      std::min(context.open_by, base::BootClock::now() + std::chrono::milliseconds(3000));
  return contend::make_store(std::move(backend), context, session, {until});
}

}  // namespace holdfast::stores
