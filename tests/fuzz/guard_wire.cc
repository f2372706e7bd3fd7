// Packets on the socket between the program and its guard: the first byte of each says how long it
// is.

#include "src/cli/guard/guard_wire.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "src/cli/process/fd.h"
#include "tests/fuzz/target.h"

namespace holdfast::fuzz::guard_wire {

void run(std::string_view input) {
  int ends[2];
  demand(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "there is a socket");
  const cli::Fd near(ends[0]);
  cli::Fd far(ends[1]);
  Input packets(input);
  while (!packets.empty()) {
    const std::string_view packet = packets.text(packets.byte());
    demand(::send(far.get(), packet.data(), packet.size(), MSG_DONTWAIT) ==
               static_cast<ssize_t>(packet.size()),
           "the packet was sent");
    const auto message = cli::receive_message(near.get());
    demand(message.has_value(), "what has come is received");
    // A peer that speaks like that is no guard of ours: it counts as gone.
    if (message->word == cli::GuardWord::kGone) return;
    demand(message->text.size() < packet.size(), "a message is not longer than its packet");
    demand(cli::send_message(far.get(), *message), "a message can be sent");
    const auto again = cli::receive_message(near.get());
    demand(again && again->word == message->word && again->number == message->number &&
               again->instant == message->instant && again->text == message->text,
           "a message is received equal");
  }
  demand(!cli::receive_message(near.get()).has_value(), "there is nothing more");
  far = cli::Fd();
  const auto last = cli::receive_message(near.get());
  demand(last && last->word == cli::GuardWord::kGone, "who has gone has gone");
}

}  // namespace holdfast::fuzz::guard_wire

HOLDFAST_FUZZ_TARGET(guard_wire)
