#include "src/stores/redis/connections.h"

#include <utility>

#include "src/stores/redis/protocol/errors.h"
#include "src/stores/redis/transport/handshake.h"

namespace holdfast::stores::redis {
namespace {

// With so many requests under way another one joins them, which halves the work of the server.
constexpr std::size_t kCrowd = 8;

std::unique_ptr<Pipeline> make_confirmed(const Connections::Setup& setup, const RemotePtr& remote) {
  if (!setup.confirmation.wanted()) return nullptr;
  PipelineOptions options;
  options.confirmation = setup.confirmation;
  return std::make_unique<Pipeline>(setup.io, remote, std::move(options));
}

}  // namespace

Connections::Connections(RemotePtr remote, Setup setup)
    : where_(remote->address.display()),
      remote_(remote),
      pipeline_(setup.io, remote),
      confirmed_(make_confirmed(setup, remote)),
      direct_(remote),
      renewer_(remote, setup.requests, setup.confirmation, std::move(setup.alarm)),
      subscriber_(setup.io, remote, std::move(setup.channel), std::move(setup.events)) {}

Result<void> Connections::greet(const ScriptCall& rights, base::BootInstant deadline) {
  auto turn = direct_.try_take();
  if (!turn) return Error(Errc::kClosed, "the redis store was closed");
  const std::string_view words[] = {"TIME"};
  std::string wire;
  append_command(wire, words);
  wire += rights.whole();
  const base::BootInstant sent = base::BootClock::now();
  const auto replies = turn->call(wire, 2, deadline, /*reads_only=*/true);
  if (!replies) return replies.error();
  // If the permissions are incomplete here, the first request checks them for its own lock.
  may_write_ = rights_answer(replies->back(), where_).has_value();
  if (auto reply = checked(replies->front(), where_); !reply) return reply.error();
  if (const std::vector<Reply>& time = replies->front().items; time.size() == 2) {
    std::string micros = "00000" + time[1].text;
    renewer_.watch_clock(sent, time[0].text + micros.substr(micros.size() - 6));
  }
  return {};
}

template <typename Pointer>
void Connections::send(Pointer script, base::BootInstant deadline, port::Done<Reply> done,
                       Prefix prefix) {
  const bool asks = prefix == Prefix::kAsking;
  const bool by_hash = known(*script);
  Command command{by_hash ? script->by_hash() : script->whole(), script->reads_only()};
  if (by_hash && !asks) command.part = script->batch_part_of(command.wire);
  if (asks) command.wire.insert(0, asking());
  command.has_prefix = asks;
  pipeline_.send(std::move(command), deadline,
                 [this, script = std::move(script), deadline, prefix,
                  done = std::move(done)](Result<Reply> reply) mutable {
                   // Unknown from now on, so it goes whole.
                   if (!note_known(*script, reply)) return done(std::move(reply));
                   send(std::move(script), deadline, std::move(done), prefix);
                 });
}

template void Connections::send(std::optional<ScriptCall>, base::BootInstant, port::Done<Reply>,
                                Prefix);
template void Connections::send(std::shared_ptr<const ScriptCall>, base::BootInstant,
                                port::Done<Reply>, Prefix);

void Connections::run_confirmed(ScriptCall script, base::BootInstant deadline, DoneConfirmed done) {
  if (confirmed_ == nullptr) {
    return run(std::move(script), deadline,
               [done = std::move(done)](Result<Reply> reply) { done(std::move(reply), {}); });
  }
  Command command{known(script) ? script.by_hash() : script.whole()};
  confirmed_->send(std::move(command), deadline,
                   [this, script = std::move(script), deadline,
                    done = std::move(done)](Result<Reply> reply) mutable {
                     if (note_known(script, reply)) {
                       return run_confirmed(std::move(script), deadline, std::move(done));
                     }
                     done(std::move(reply), confirmed_->missing());
                   });
}

std::optional<Result<Reply>> Connections::run_here(const ScriptCall& script,
                                                   base::BootInstant deadline, bool pushes_first) {
  auto replies = call_here(script, deadline, pushes_first ? Handshake::ping() : std::string(), {});
  if (!replies) return std::nullopt;
  if (!*replies) return Result<Reply>(replies->error());
  return Result<Reply>(std::move((*replies)->back()));
}

std::optional<Result<std::vector<Reply>>> Connections::call_here(const ScriptCall& script,
                                                                 base::BootInstant deadline,
                                                                 const std::string& before,
                                                                 const std::string& after) {
  if (pipeline_.under_way() >= kCrowd) return std::nullopt;
  auto turn = direct_.try_take();
  if (!turn) return std::nullopt;
  const std::size_t at = before.empty() ? 0 : 1;
  const auto call = [&](const std::string& text) {
    const bool alone = before.empty() && after.empty();
    return turn->call(alone ? text : before + text + after, at + (after.empty() ? 1 : 2), deadline);
  };
  auto replies = call(known(script) ? script.by_hash() : script.whole());
  if (replies && note_known(script, (*replies)[at])) replies = call(script.whole());
  return replies;
}

void Connections::read(const std::vector<std::string_view>& words, base::BootInstant deadline,
                       port::Done<Reply> done, Prefix prefix) {
  Command command;
  command.reads_only = true;
  command.has_prefix = prefix == Prefix::kAsking;
  if (command.has_prefix) command.wire = asking();
  append_command(command.wire, words);
  pipeline_.send(std::move(command), deadline, std::move(done));
}

bool Connections::note_known(const ScriptCall& script, const Result<Reply>& reply) {
  const bool unknown = is_unknown_script(reply);
  const bool refused = reply && is_redirection(reply->error_word());
  if (reply && !refused && known(script) == unknown) known(script) = !unknown;
  return unknown;
}

void Connections::close() {
  pipeline_.close();
  if (confirmed_ != nullptr) confirmed_->close();
  subscriber_.close();
  direct_.close();
  renewer_.close();
}

void Connections::abandon() noexcept {
  pipeline_.abandon();
  if (confirmed_ != nullptr) confirmed_->abandon();
  subscriber_.abandon();
  direct_.abandon();
  renewer_.abandon();
}

}  // namespace holdfast::stores::redis
