// Keeps locks in the layout of etcd's own package, so that its users and ours exclude each other:
// ?recipe=etcd.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/stores/etcd/backend.h"

namespace holdfast::stores::etcd {

// Such a lock has only contenders, some of which may belong to another program.
class RecipeBackend final : public EtcdBackend {
 public:
  using EtcdBackend::EtcdBackend;

  Guarantees guarantees() const override;
  bool remembers_names() const override { return false; }
  bool keeps_record() const override { return false; }
  bool keeps() const override { return false; }
  void enter(std::uint64_t epoch, std::string lock, contend::Key key, contend::Details details,
             BootInstant deadline, Done<contend::Entered> done) override;
  void list_in_full(std::string lock, BootInstant deadline, Done<contend::Listing> done) override;
  void read_record(std::string lock, BootInstant deadline,
                   Done<std::pair<contend::Record, std::uint64_t>> done) override;
  void read_value(std::string lock, BootInstant deadline, Done<contend::Value> done) override;
  void apply(contend::Change change, BootInstant deadline,
             Done<std::optional<std::uint64_t>> done) override;
  void list_locks(std::string prefix, std::size_t limit, BootInstant deadline,
                  Done<contend::Locks> done) override;

 protected:
  std::string key_of(const std::string& lock, const QueueEntry& place) const override;
  wire::RangeRequest folder_request(const std::string& lock, bool full) const override;
  Result<contend::Listing> listing_of(const std::string& lock, const wire::RangeResponse& range,
                                      bool full) override;
  contend::Details details_of(const wire::KeyValue& kv, const QueueEntry& place) const override;
  // Folders may contain each other, so one entry of a batch might see another.
  bool joins() const override { return false; }

 private:
  // Keys of other programs, by lock and number.
  std::map<std::string, std::map<std::uint64_t, std::string>> foreign_;
};

}  // namespace holdfast::stores::etcd
