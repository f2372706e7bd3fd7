// A lock machine among clients whose messages are lost, doubled and late, all drawn from one seed.
//
// After each command it is checked that
//   - the machine's reply and state are those of the reference model;
//   - the state rebuilt from effects alone is the machine's state;
//   - tokens grow per name, also over a lock's being forgotten; leases never move back;
//   - holders are compatible, grants of a fair queue are in order, and nobody waits who could hold;
//   - nothing is held that is over, and the id of a tombstone gets nothing;
//   - the same command again at the same instant changes nothing;
//   - no client believes that it holds, by the deadline it counts from the send of the request
//     that defined its lease, when the machine says otherwise;
//   - a Tick changes something at next_event() and nothing before.
// Now and then the machine is replaced by one restored from its snapshot.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/machine/lock_machine.h"
#include "src/machine/testing/dice.h"
#include "src/machine/testing/effect_observer.h"
#include "src/machine/testing/reference_model.h"

namespace holdfast::machine::testing {

class World {
 public:
  explicit World(std::uint64_t seed);

  // Empty if all went well, otherwise what went wrong at which step.
  std::string run(int steps);

 private:
  struct Message {
    Action action;
    AcquisitionId id{};  // The subject.
  };
  // One acquisition as its client knows it.
  struct Acquisition {
    AcquisitionId id{};
    std::string_view name{};
    Mode mode{};
    AcquisitionId upgrade_of{};
    std::vector<Instant> sent{};  // By sequence number of the request.
    Instant believed_until{};     // Holds, as far as it knows, before this instant.
    bool closed = false;          // It sent its release.
  };

  static Limits limits_from(Dice& dice);

  void step();
  void pass_time();
  void newcomer();
  void speak();
  void meddle();
  void deliver();
  void submit(const Message& message);
  Reply apply(const Command& command);
  void compare(const Reply& reply, const Reply& expected);
  void see(const Effect& effect);
  void check_state();
  void check_lock(const LockImage& lock);
  void check_beliefs();
  bool believes(const Acquisition& one);
  void believe(AcquisitionId id, std::uint64_t seq, Duration lease);
  void restore();
  Acquisition* acquisition(AcquisitionId id);
  Token some_token(std::string_view name);
  void fail(const std::string& what);

  Dice dice_;
  Limits limits_;
  LockMachine machine_;
  ReferenceModel model_;
  EffectObserver observer_;
  Effects effects_;
  Instant now_{};
  std::uint64_t next_id_ = 1;
  int step_ = 0;
  std::size_t command_ = 0;  // The last one's place in Action.
  std::vector<Acquisition> acquisitions_;
  std::vector<Message> network_;
  std::vector<Message> past_;  // Delivered already; may come once more.
  std::map<std::string, Token> last_tokens_;
  std::string failure_;
};

}  // namespace holdfast::machine::testing
