// A consensus store in a simulated world, and the backend (src/contend/backend.h) that the engine
// of contenders has of it.
//
// One counter numbers all writes. A session lives until the server's clock says that no keepalive
// came for its length. Requests of one client arrive in their order, late, or never; some replies
// are lost, and whoever gets none by his deadline is told kOutcomeUnknown. A reader that does not
// ask for the latest is answered as of some moment since what its client has seen last.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/contend/backend.h"
#include "tests/simulation/world.h"

namespace holdfast::simulation {

struct Node {
  contend::Key key;
  contend::Details details;
  std::uint64_t created = 0;
  std::uint64_t modified = 0;
  std::uint64_t session = 0;
};

// As of one moment.
struct Folder {
  std::map<std::uint64_t, Node> nodes;  // By the number of their creation.
  contend::Record record;
  std::uint64_t record_rev = 0;
};

class FolderServer {
 public:
  static constexpr machine::Duration kSession = std::chrono::seconds(3);

  explicit FolderServer(World& world) : world_(world) {}

  // The server's view of a contender: told when it comes, and when it goes.
  std::function<void(const std::string& lock, const Node& node, bool comes)> on_node;

  // Readers of that lock get this instead.
  std::map<std::string, Error> unreadable;

  // So many requests about locks were sent so far.
  int requests = 0;

  // Listings bring the details of the head, as Consul's do.
  bool head_in_listings = false;
  // Watchers are told what a contender leaves when it has held, as Consul tells them.
  bool tells_hand_on = false;

  const Folder& now(const std::string& lock) { return *folders_[lock].back().second; }
  const std::map<std::string, std::deque<std::pair<std::uint64_t, std::shared_ptr<const Folder>>>>&
  folders() const {
    return folders_;
  }
  std::uint64_t revision() const { return revision_; }

  std::uint64_t open_session();
  bool keep_session(std::uint64_t session);
  void end_session(std::uint64_t session);
  bool is_open(std::uint64_t session) const { return sessions_.contains(session); }

  // Reads the state of a moment not before `seen`; the moment is put there.
  std::shared_ptr<const Folder> read(const std::string& lock, bool latest, std::uint64_t& seen);
  std::uint64_t enter(const std::string& lock, const contend::Key& key,
                      const contend::Details& details, std::uint64_t session);
  std::optional<contend::Read> write(const std::string& lock, std::uint64_t order,
                                     const contend::Details& details);
  // `held_with`: what is told to who watches it.
  bool remove(const std::string& lock, std::uint64_t order,
              const std::optional<machine::Token>& held_with = {});
  // The mark that this contender has left, if it has gone.
  std::optional<machine::Token> left_by(std::uint64_t order) const;
  std::optional<std::uint64_t> apply(const contend::Change& change);

  // Calls back once, when the contender (nullopt: any that comes or goes) changes after `seen`.
  void watch(const std::string& lock, std::optional<std::uint64_t> order, std::uint64_t seen,
             std::function<void(std::uint64_t revision)> fire);

  contend::Listing listing_of(const Folder& folder, bool full) const;

 private:
  struct Watch {
    std::optional<std::uint64_t> order;
    std::function<void(std::uint64_t)> fire;
  };
  struct Step {
    std::uint64_t revision;
    std::optional<std::uint64_t> order;  // The order of the contender that changed.
    bool comes_or_goes;
  };
  static bool concerns(const Step& step, const std::optional<std::uint64_t>& order) {
    return order ? step.order == order : step.comes_or_goes;
  }
  Folder begin(const std::string& lock);
  void commit(const std::string& lock, Folder folder,
              const std::vector<std::pair<std::uint64_t, bool>>& changed);
  void expire(std::uint64_t session);

  World& world_;
  std::uint64_t revision_ = 100;
  std::uint64_t last_session_ = 0;
  std::map<std::uint64_t, Nanos> sessions_;  // Until when, if nothing comes.
  std::map<std::string, std::deque<std::pair<std::uint64_t, std::shared_ptr<const Folder>>>>
      folders_;
  std::map<std::string, std::vector<Step>> steps_;
  std::map<std::uint64_t, machine::Token> left_;
  std::map<std::string, std::list<Watch>> watches_;
};

// The backend of the process that runs.
std::unique_ptr<contend::Backend> make_folder_backend(FolderServer& server);

}  // namespace holdfast::simulation
