#include "lab/exhibits/given_ids.h"

#include <ostream>

namespace holdfast::lab {

void GivenIds::tell(std::int64_t at_ns, const std::string& who, const std::string& what) {
  steps_.push_back({at_ns, who, what});
}

void GivenIds::add(std::int64_t at_ns, const std::string& who, std::uint64_t id) {
  ++count_;
  const auto [first, fresh] = first_.try_emplace(id, First{at_ns, who});
  if (fresh || duplicates() > 1) return;  // One duplicate is enough for the story.
  const std::string number = std::to_string(id);
  tell(first->second.at_ns, first->second.who, "gives " + number);
  tell(at_ns, who, "gives " + number);
  tell(at_ns, ">>>",
       first->second.who == who
           ? "duplicate: " + who + " has given it twice"
           : "duplicate: " + first->second.who + " and " + who + " have both given it");
}

void GivenIds::print(std::ostream& out) const {
  if (count_ == 0) return;
  print_steps(steps_, /*zero_ns=*/0, out);
  out << count_ << " ids, " << (unique() ? "none" : std::to_string(duplicates()))
      << " of them given before\n";
}

}  // namespace holdfast::lab
