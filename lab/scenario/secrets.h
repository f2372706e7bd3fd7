// Removes passwords from the kept files of a run, which its processes read, too.
//
// It finds passwords in URLs and in their options. Such a password is also hidden in the rest of a
// topology's text, such as a server's configuration.
// Not guaranteed: that it finds a password that is in no URL.
#pragma once

#include <string>
#include <vector>

#include "lab/scenario/scenario.h"

namespace holdfast::lab {

std::vector<std::string> secrets_of(const Scenario& scenario);
// Replaces each of them by "(not shown)".
std::string without(const std::vector<std::string>& secrets, std::string text);
Scenario without_secrets(const Scenario& scenario);

}  // namespace holdfast::lab
