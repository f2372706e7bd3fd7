#include "src/server/front/shard_table.h"

#include <algorithm>

#include "holdfast/detail/number.h"
#include "src/base/lock_name.h"
#include "src/server/front/commands.h"
#include "src/server/front/libraries/library_locks.h"

namespace holdfast::server {
namespace {

std::string shown(std::string_view word) {
  return "'" + std::string(word.substr(0, base::kLongestLockName)) + "'";
}

}  // namespace

const ShardTable::Part* ShardTable::part_of(const Connection& connection) const {
  if (size() == 1) return &parts_.front();
  return connection.attached ? &parts_[connection.shard] : nullptr;
}

Service* ShardTable::service_of(const Connection& connection) const {
  const Part* const part = part_of(connection);
  return part == nullptr ? nullptr : part->service;
}

Service::State ShardTable::state(const Connection& connection) const {
  Service::State sum{.journal_answers = journal_answers};
  if (const Part* const own = part_of(connection)) {
    if (own->service != nullptr) sum.add(own->service->state(), connection.shard);
    return sum;
  }
  for (const std::uint32_t each : led()) sum.add(parts_[each].service->state(), each);
  return sum;
}

std::vector<std::uint32_t> ShardTable::led() const {
  std::vector<std::uint32_t> led;
  for (std::uint32_t shard = 0; shard < size(); ++shard) {
    if (parts_[shard].service != nullptr) led.push_back(shard);
  }
  return led;
}

std::size_t ShardTable::copies() const {
  std::optional<std::size_t> fewest;
  for (const Part& each : parts_) {
    if (each.service == nullptr) continue;
    const std::size_t own = each.service->state().copies;
    fewest = std::min(fewest.value_or(own), own);
  }
  return fewest.value_or(0);
}

std::string ShardTable::leaders(const std::string& own) const {
  if (size() == 1) return {};
  std::string all;
  for (const Part& each : parts_) {
    all += (&each == &parts_.front() ? "" : ",") + (each.service != nullptr ? own : each.leader);
  }
  return all;
}

std::optional<Error> ShardTable::refuse(std::uint32_t shard) const {
  const Part& part = parts_[shard];
  if (part.service != nullptr) return std::nullopt;
  const std::string who = part.leader.empty()
                              ? "no server leads it yet; retry"
                              : part.leader +
                                    " was last seen leading it; name all servers in the URL, "
                                    "holdfast://A,B,C";
  return Error(Errc::kUnavailable,
               "this server does not lead shard " + std::to_string(shard) + ": " + who);
}

Result<std::optional<std::uint32_t>> ShardTable::shard_of_request(const Connection& connection,
                                                                  const Words& words) const {
  using Found = std::optional<std::uint32_t>;
  if (words.front() == "HF1") {
    if (connection.attached) return Found(connection.shard);
    return Error(Errc::kVersionMismatch, "this service has " + std::to_string(size()) +
                                             " shards, and a client has to name one");
  }
  const LibraryTarget target = library_target(words);
  if (!target.is_known) return Found();
  if (target.is_ids && !connection.attached) return Found(0);
  const auto led_here = led();
  std::uint32_t shard = led_here.empty() ? 0 : led_here.front();
  if (!target.locks.empty()) shard = shard_of(target.locks.front());
  if (connection.attached) shard = connection.shard;
  for (const std::string_view each : target.locks) {
    if (shard_of(each) == shard) continue;
    if (connection.attached) {
      return Error(Errc::kUnsupported, shown(each) + " is of another shard than " +
                                           std::to_string(shard) +
                                           ", to which this connection has attached");
    }
    return Error(Errc::kUnsupported,
                 shown(command_word(words.front())) + ": " + shown(target.locks.front()) + " and " +
                     shown(each) +
                     " are in different shards of the service, and no command does anything in "
                     "two: send one for each lock");
  }
  return Found(shard);
}

Result<std::uint32_t> ShardTable::shard_to_attach(const Connection& connection,
                                                  std::string_view word) const {
  const auto shard = detail::parse_number<std::uint32_t>(word);
  if (shard && *shard < size() && (!connection.attached || connection.shard == *shard)) {
    return *shard;
  }
  if (shard && *shard >= size()) {
    return Error(Errc::kVersionMismatch, "this service has " + std::to_string(size()) +
                                             " shards, and none with the number " +
                                             std::to_string(*shard));
  }
  return Error(Errc::kInvalidArgument, "attach: this connection cannot have such a shard");
}

}  // namespace holdfast::server
