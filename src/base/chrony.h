// How wrong chrony may let this host's clock run while it corrects it.
//
// Not guaranteed: that chronyd runs, or runs with these files; `include` and `confdir` lines are
// not followed.
#pragma once

#include <optional>
#include <string>

namespace holdfast::base {

// Parts per million, as `folder`/chrony.conf and `folder`/conf.d/*.conf say; otherwise chrony's
// default. nullopt: there is no such file that we can read.
std::optional<double> chrony_max_slew_ppm(const std::string& folder = "/etc/chrony");

}  // namespace holdfast::base
