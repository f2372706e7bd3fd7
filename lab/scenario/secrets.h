// Removes the passwords from the files of a run that are kept, and read by its processes.
//
// They are found in URLs and in options of URLs. Where else one of them stands in the text of a
// topology (a server's configuration), it is not shown there either.
// Not guaranteed: that a password is found which no URL of the files has.
#pragma once

#include <string>
#include <vector>

#include "lab/scenario/scenario.h"

namespace holdfast::lab {

std::vector<std::string> secrets_of(const Scenario& scenario);
// "(not shown)" in the place of each.
std::string without(const std::vector<std::string>& secrets, std::string text);
Scenario without_secrets(const Scenario& scenario);

}  // namespace holdfast::lab
