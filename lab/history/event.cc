#include "lab/history/event.h"

#include <array>
#include <cstddef>

namespace holdfast::lab {
namespace {

template <typename Enum, std::size_t N>
std::string_view word(const std::array<std::string_view, N>& words, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < N ? words[index] : std::string_view();
}

constexpr std::array<std::string_view, 9> kKinds = {
    "acquire", "renew", "release", "held", "write", "lost", "incarnation", "fault", "death"};
constexpr std::array<std::string_view, 3> kPhases = {"mark", "invoke", "return"};
constexpr std::array<std::string_view, 13> kOutcomes = {
    "none",    "granted",  "busy", "timed_out", "cancelled", "unavailable", "unknown",
    "renewed", "released", "held", "lost",      "accepted",  "refused"};
constexpr std::array<std::string_view, 22> kFaults = {
    "none",      "kill",          "pause",        "partition", "loss",   "delay",
    "duplicate", "reorder",       "drop_replies", "split",     "reset",  "blackhole",
    "failover",  "restart_empty", "clock_jump",   "disk_full", "starve", "restart",
    "hold",      "stall",         "isolate",      "move"};
constexpr std::array<std::string_view, 3> kModes = {"exclusive", "shared", "permits"};

}  // namespace

std::string_view name_of(Kind kind) { return word(kKinds, kind); }
std::string_view name_of(Phase phase) { return word(kPhases, phase); }
std::string_view name_of(Outcome outcome) { return word(kOutcomes, outcome); }
std::string_view name_of(FaultKind fault) { return word(kFaults, fault); }
std::string_view name_of(ModeKind mode) { return word(kModes, mode); }

}  // namespace holdfast::lab
