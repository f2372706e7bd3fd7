#include "tests/leased/crowd.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <system_error>
#include <utility>

#include "holdfast/client.h"
#include "tests/support/clock_shift.h"
#include "tests/support/eventually.h"

namespace holdfast::testing {
namespace {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

std::vector<std::string> shifted_by(const std::string& clock_file) {
  if (clock_file.empty()) return {};
  return {"LD_PRELOAD=" + support::clock_shim_library(), support::clock_shim_variable(clock_file)};
}

}  // namespace

Giver::Giver(const std::vector<std::string>& arguments, std::string file, std::string log,
             const std::string& clock_file)
    : file_(std::move(file)),
      log_(std::move(log)),
      process_({.arguments = arguments, .environment = shifted_by(clock_file), .output = log_}) {}

std::size_t Giver::count() const {
  std::error_code missing;  // It has not begun yet.
  const auto size = std::filesystem::file_size(file_, missing);
  return missing ? 0 : size / sizeof(std::uint64_t);
}

std::vector<std::uint64_t> Giver::ids() const {
  std::vector<std::uint64_t> all(count());
  std::ifstream file(file_, std::ios::binary);
  file.read(reinterpret_cast<char*>(all.data()),
            static_cast<std::streamsize>(all.size() * sizeof all[0]));
  return all;
}

std::string Giver::log() const {
  std::ifstream file(log_);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t Giver::said(const std::string& part) const {
  const std::string text = log();
  std::size_t times = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++times;
  return times;
}

Crowd::Crowd(std::string kind, std::string url, std::string name, std::chrono::milliseconds lease)
    : kind_(std::move(kind)),
      url_(std::move(url)),
      name_(std::move(name)),
      lease_(std::to_string(lease.count())) {}

Giver* Crowd::start(const std::string& clock_file) {
  const std::string file = folder_.file(std::to_string(givers_.size()));
  const std::vector<std::string> arguments{HOLDFAST_ID_GIVER, kind_, url_, name_, file, lease_};
  givers_.push_back(std::make_unique<Giver>(arguments, file, file + ".log", clock_file));
  return givers_.back().get();
}

Givers Crowd::start_all(std::size_t count) {
  Givers started;
  while (started.size() < count) started.push_back(start());
  return started;
}

AssertionResult Crowd::all_differ() const {
  std::vector<std::pair<std::uint64_t, std::size_t>> all;  // An id, and whose it is.
  for (std::size_t i = 0; i < givers_.size(); ++i) {
    for (const std::uint64_t id : givers_[i]->ids()) all.emplace_back(id, i);
  }
  if (all.empty()) return AssertionFailure() << "there is no id";
  std::sort(all.begin(), all.end());
  std::size_t twice = 0;
  AssertionResult failure = AssertionFailure();
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].first != all[i - 1].first || ++twice > 3) continue;
    failure << "processes " << all[i - 1].second << " and " << all[i].second << " gave "
            << all[i].first << "\n";
  }
  if (twice == 0) return AssertionSuccess();
  return failure << twice << " of " << all.size() << " ids were given before";
}

AssertionResult Crowd::end() {
  for (std::size_t i = 0; i < givers_.size(); ++i) {
    support::ChildProcess& process = givers_[i]->process();
    if (!process.running()) continue;
    const int status = process.terminate();
    if (status != 0) {
      return AssertionFailure() << "process " << i << ": " << status << " " << givers_[i]->log();
    }
  }
  return AssertionSuccess();
}

AssertionResult stop_between_writes(const Givers& givers, const std::string& url) {
  const auto client = Client::connect(url, {.request_timeout = std::chrono::seconds(1)});
  if (!client) return AssertionFailure() << client.error();
  for (Giver* giver : givers) {
    const auto stopped = [&] {
      giver->process().pause();
      if (client->mutex("another writer").try_acquire()) return true;
      giver->process().resume();
      return false;
    };
    if (!support::eventually(stopped)) return AssertionFailure() << "the store is always in use";
  }
  return AssertionSuccess();
}

AssertionResult give(const Givers& givers, std::size_t more) {
  std::vector<std::size_t> goals;
  for (const Giver* giver : givers) goals.push_back(giver->count() + more);
  std::size_t done = 0;  // The givers before it have given enough.
  const auto given = [&] {
    while (done < givers.size() && givers[done]->count() >= goals[done]) ++done;
    return done == givers.size() || !givers[done]->process().running();
  };
  const bool in_time = support::eventually(given);
  if (done == givers.size()) return AssertionSuccess();
  Giver& slow = *givers[done];
  return AssertionFailure() << (in_time ? "" : "too late: ") << "process " << done << " gave "
                            << slow.count() << " of " << goals[done] << " ids. " << slow.log();
}

AssertionResult says(Giver& giver, const std::string& part, std::size_t times) {
  support::eventually([&] { return giver.said(part) >= times || !giver.process().running(); });
  if (giver.said(part) >= times) return AssertionSuccess();
  return AssertionFailure() << "it did not say '" << part << "', but: " << giver.log();
}

AssertionResult grow(const std::vector<std::uint64_t>& ids) {
  const auto lower = std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>());
  if (lower == ids.end()) return AssertionSuccess();
  return AssertionFailure() << *(lower + 1) << " came after " << *lower;
}

}  // namespace holdfast::testing
