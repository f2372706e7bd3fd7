// Operations of people on any lock: inspect, list, break, resize, values. Nothing here belongs to
// an acquisition of this client.
//
// Thread-safety: the loop only. Errors name the lock (naming.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/contend/backend.h"
#include "src/port/store.h"

namespace holdfast::contend {

struct ListingOfAll;

class Administration : public std::enable_shared_from_this<Administration> {
 public:
  using BootInstant = base::BootInstant;
  template <typename T>
  using Done = port::Done<T>;
  // Queues the shrink of N by `by`, from `from`.
  using Shrink = std::function<void(const port::AcquisitionRequest& request, std::uint32_t by,
                                    std::uint32_t from, const Done<bool>& done)>;

  Administration(Backend& backend, std::function<void(const std::string& line)> alarm,
                 Shrink shrink)
      : backend_(backend), alarm_(std::move(alarm)), shrink_(std::move(shrink)) {}

  void inspect(const std::string& name, BootInstant deadline, Done<std::optional<LockInfo>> done);
  // Locks that cannot be read are left out; the operator is told once (Events::on_alarm).
  void list(std::string prefix, std::size_t limit, BootInstant deadline,
            Done<std::vector<LockInfo>> done);
  // Also reports the locks that list() leaves out.
  void probe(BootInstant deadline, Done<std::vector<Finding>> done);
  void break_lock(port::BreakRequest request, const Done<bool>& done);
  void get_value(const std::string& name, BootInstant deadline, Done<std::string> done);
  void resize(const port::AcquisitionRequest& request, std::uint32_t capacity,
              const Done<bool>& done);

  // Reports unreadable entries to the operator. The listing may be a part of the lock.
  void tell_of_trouble(const std::string& lock, const Listing& listing);

  // Afterwards it neither asks nor answers.
  void close() { closed_ = true; }

 private:
  // Without the kept contenders whose time is over, which it removes.
  Listing living(const std::string& lock, Listing listing, BootInstant deadline);
  void look_into(Locks locks, BootInstant deadline, std::function<void(ListingOfAll& all)> done);
  void list_next(const std::shared_ptr<ListingOfAll>& all);
  void tell_of(const Unknown& unknown);
  void tell_of(const std::string& lock, const Listing& listing);
  void tell_of(const std::string& lock, const std::string& trouble);
  void break_as_listed(const std::shared_ptr<port::BreakRequest>& request, const Done<bool>& done,
                       int attempts);
  void break_in(const std::shared_ptr<port::BreakRequest>& request, const Done<bool>& done,
                int attempts, const Listing& listing);
  void resize_as_listed(const std::shared_ptr<port::AcquisitionRequest>& request,
                        std::uint32_t capacity, const Done<bool>& done, int attempts);
  void resize_in(const std::shared_ptr<port::AcquisitionRequest>& request, std::uint32_t capacity,
                 const Done<bool>& done, int attempts, const Listing& listing);

  Backend& backend_;
  const std::function<void(const std::string& line)> alarm_;
  const Shrink shrink_;
  std::string told_of_keys_;                                    // Reported keys of no lock.
  std::unordered_map<std::string, std::string> told_of_locks_;  // Unreadable parts, by lock.
  bool closed_ = false;
};

}  // namespace holdfast::contend
