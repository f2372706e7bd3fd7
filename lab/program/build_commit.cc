#include "lab/program/build_commit.h"  // Made by cmake/BuildCommit.cmake.

#include "lab/program/commands.h"

namespace holdfast::lab {

std::string build_commit() { return HOLDFAST_BUILD_COMMIT; }

}  // namespace holdfast::lab
