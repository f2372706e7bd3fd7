#include "src/rows/owner_codec.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>

#include "holdfast/detail/number.h"

namespace holdfast::rows {
namespace {

constexpr char kVersion = 1;
constexpr std::size_t kMaxText = 2048;
constexpr std::size_t kMostTrace = 256;  // With the mark.
// The trace id follows the reason in the same text, because older versions could not read an owner
// with a new field. They show it as the end of the reason.
constexpr char kBeforeTrace = '\x1f';
// For the same reason the lock-delay, in ms, follows the trace id.
constexpr char kBeforeDelay = '\x1e';

// A reason that holds the mark is always followed by one, so that the last one counts.
bool has_mark(const machine::OwnerInfo& info) {
  return !info.trace_id.empty() || info.lock_delay > machine::Duration::zero() ||
         info.reason.find(kBeforeTrace) != std::string::npos;
}

std::string trace_and_delay(const machine::OwnerInfo& info) {
  std::string delay;
  if (info.lock_delay > machine::Duration::zero() ||
      info.trace_id.find(kBeforeDelay) != std::string::npos) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(info.lock_delay);
    delay = kBeforeDelay + std::to_string(ms.count());
  }
  return info.trace_id.substr(0, kMostTrace - 1 - delay.size()) + delay;
}

void take_trace_and_delay(std::string_view text, machine::OwnerInfo& info) {
  const std::size_t mark = text.rfind(kBeforeDelay);
  info.trace_id = text.substr(0, mark);
  if (mark == text.npos) return;
  constexpr std::uint32_t kLongestDelay = 86'400'000;
  const auto ms = detail::parse_number<std::uint32_t>(text.substr(mark + 1)).value_or(0);
  info.lock_delay = std::chrono::milliseconds(std::min(ms, kLongestDelay));
}

void put_text(std::string& out, std::string_view text) {
  const auto size = static_cast<std::uint16_t>(std::min(text.size(), kMaxText));
  const char length[] = {static_cast<char>(size & 0xff), static_cast<char>(size >> 8)};
  out.append(length, sizeof length).append(text.substr(0, size));
}

void put_number(std::string& out, std::int64_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

bool take_text(std::string_view& in, std::string_view& text) {
  if (in.size() < 2) return false;
  const std::size_t size = static_cast<unsigned char>(in[0]) +
                           (static_cast<std::size_t>(static_cast<unsigned char>(in[1])) << 8);
  if (size > kMaxText || in.size() - 2 < size) return false;
  text = in.substr(2, size);
  in.remove_prefix(2 + size);
  return true;
}

bool take_number(std::string_view& in, std::int64_t& value) {
  if (in.size() < sizeof value) return false;
  std::memcpy(&value, in.data(), sizeof value);
  in.remove_prefix(sizeof value);
  return true;
}

}  // namespace

void encode_owner(const machine::OwnerPtr& owner, std::string_view wake, std::string& out) {
  static const machine::OwnerInfo nobody;
  const machine::OwnerInfo& info = owner ? *owner : nobody;
  out.clear();
  out.reserve(32 + wake.size() + info.owner.size() + info.host.size() + info.program.size() +
              info.reason.size());
  out.push_back(kVersion);
  put_text(out, wake);
  put_number(out, info.pid);
  put_number(out, info.since_unix_ms);
  put_text(out, info.owner);
  put_text(out, info.host);
  put_text(out, info.program);
  if (has_mark(info)) {
    put_text(out,
             info.reason.substr(0, kMaxText - kMostTrace) + kBeforeTrace + trace_and_delay(info));
  } else {
    put_text(out, info.reason);
  }
}

std::optional<machine::OwnerPtr> decode_owner(std::string_view bytes) {
  if (bytes.empty()) return machine::OwnerPtr{};
  if (bytes[0] != kVersion) return std::nullopt;
  bytes.remove_prefix(1);
  std::string_view wake, owner, host, program, reason;
  machine::OwnerInfo info;
  const bool whole = take_text(bytes, wake) && take_number(bytes, info.pid) &&
                     take_number(bytes, info.since_unix_ms) && take_text(bytes, owner) &&
                     take_text(bytes, host) && take_text(bytes, program) &&
                     take_text(bytes, reason) && bytes.empty();
  if (!whole) return std::nullopt;
  info.wake = wake;
  info.owner = owner;
  info.host = host;
  info.program = program;
  const std::size_t mark = reason.rfind(kBeforeTrace);
  if (mark != reason.npos) take_trace_and_delay(reason.substr(mark + 1), info);
  info.reason = reason.substr(0, mark);
  return std::make_shared<const machine::OwnerInfo>(std::move(info));
}

}  // namespace holdfast::rows
