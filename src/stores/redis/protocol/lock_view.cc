#include "src/stores/redis/protocol/lock_view.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "src/machine/image.h"
#include "src/port/outcome.h"
#include "src/port/owner_json.h"
#include "src/stores/redis/protocol/answers.h"
#include "src/stores/redis/protocol/fields.h"

namespace holdfast::stores::redis {
namespace {

using machine::Duration;
using machine::Instant;
using machine::LockImage;
using machine::TicketImage;

Error corrupt(const std::string& name) {
  return {Errc::kCorruptState, "lock '" + name + "': what is stored is not Holdfast's"};
}

// 1 held <token> <client> <issue> <id> <lease start> <seq> <lease> <owner>
bool read_held(Fields fields, LockImage& image) {
  fields.word();
  fields.word();
  TicketImage ticket;
  ticket.held = true;
  ticket.token = image.last_token;
  const auto id = parse_id(fields.word());
  const Instant start(Duration(fields.amount()));
  ticket.seq = fields.number();
  ticket.lease = Duration(fields.amount());
  ticket.lease_end = start + ticket.lease;
  ticket.owner = port::read_owner(fields.rest());
  if (!fields.good() || !id) return false;
  ticket.id = *id;
  image.tickets.push_back(std::move(ticket));
  return true;
}

// 1 many <token> <family> <f, or b of an older version> <capacity> ...
bool read_many(Fields fields, LockImage& image) {
  image.kind = fields.word() == "p" ? machine::ModeKind::kPermits : machine::ModeKind::kExclusive;
  fields.word();
  image.capacity = fields.number<std::uint32_t>();
  return fields.good();
}

bool read_mode(std::string_view kind, std::uint32_t permits, TicketImage& ticket,
               const LockImage& image) {
  ticket.system = kind == "x";
  if (kind == "e" || kind == "s") {
    ticket.mode = kind == "s" ? machine::Mode::shared() : machine::Mode::exclusive();
    return true;
  }
  ticket.mode = machine::Mode::of_permits(permits, image.capacity);
  return (kind == "p" || ticket.system) && permits >= 1 && permits <= image.capacity;
}

// <h|w> <kind> <permits> <order> <seq> <lease> <token> <client> <base> <owner>
bool read_ticket(std::string_view text, const LockImage& image, TicketImage& ticket) {
  Fields fields(text);
  const std::string_view state = fields.word();
  ticket.held = state == "h";
  const std::string_view kind = fields.word();
  const auto permits = fields.number<std::uint32_t>();
  ticket.order = fields.number();
  ticket.seq = fields.number();
  ticket.lease = Duration(fields.amount());
  ticket.token = {0, fields.number()};
  fields.word();
  fields.word();
  ticket.owner = port::read_owner(fields.rest());
  return fields.good() && (ticket.held || state == "w") && read_mode(kind, permits, ticket, image);
}

using Ends = std::map<std::string, Instant>;

bool read_ends(const Reply& scores, Ends& ends) {
  for (std::size_t i = 0; i + 1 < scores.items.size(); i += 2) {
    const double score = std::strtod(scores.items[i + 1].text.c_str(), nullptr);
    // NaN fails this test, too.
    if (!(score >= 0 && score < static_cast<double>(std::int64_t{1} << 54U))) return false;
    ends[scores.items[i].text] = Instant(Duration(static_cast<std::int64_t>(score)));
  }
  return true;
}

bool read_tickets(const Reply& tickets, const Ends& ends, LockImage& image) {
  for (std::size_t i = 0; i + 1 < tickets.items.size(); i += 2) {
    TicketImage ticket;
    const auto id = parse_id(tickets.items[i].text);
    if (!id || !read_ticket(tickets.items[i + 1].text, image, ticket)) return false;
    ticket.id = *id;
    const auto end = ends.find(tickets.items[i].text);
    if (end != ends.end()) ticket.lease_end = end->second;
    image.tickets.push_back(std::move(ticket));
  }
  std::sort(image.tickets.begin(), image.tickets.end(),
            [](const TicketImage& a, const TicketImage& b) { return a.order < b.order; });
  return true;
}

}  // namespace

bool is_free(std::string_view record) { return record.starts_with("1 free "); }

Result<std::optional<LockInfo>> view_of(const Reply& reply, const std::string& name) {
  if (reply.items.size() != 6) return corrupt(name);
  const std::string& record = reply.items[1].text;
  const std::string& trace = reply.items[5].text;
  if (record.empty() && trace.empty()) return std::optional<LockInfo>();

  Fields time(reply.items[0].text);
  const Instant now(Duration(time.amount()));
  if (!time.good()) return corrupt(name);
  LockImage image;
  image.name = name;
  if (!record.empty()) {
    Fields fields(record);
    const std::string_view version = fields.word();
    if (version != "1") {
      const bool later =
          !version.empty() && version.find_first_not_of("0123456789") == std::string_view::npos;
      if (!later) return corrupt(name);
      return *script_error("HOLDFAST-VERSION " + std::string(version), "lock '" + name + "'");
    }
    const std::string_view form = fields.word();
    image.last_token = {0, fields.number()};
    bool good = fields.good() && (form == "free" || form == "held" || form == "many");
    if (good && form == "held") good = read_held(fields, image);
    if (good && form == "many") {
      Ends ends;
      good = read_ends(reply.items[3], ends) && read_ends(reply.items[4], ends) &&
             read_many(fields, image) && read_tickets(reply.items[2], ends, image);
    }
    if (!good) return corrupt(name);
  }
  std::erase_if(image.tickets, [&](const TicketImage& ticket) {
    return !ticket.system && ticket.lease_end <= now;
  });
  std::optional<BreakInfo> last_break;
  if (!trace.empty()) last_break = port::to_public(port::read_trace(trace));
  return std::optional<LockInfo>(port::to_lock_info(image, now, std::move(last_break)));
}

}  // namespace holdfast::stores::redis
