// The commands of holdfast-lab.
//
// Exit status: 0 as expected, 1 not as expected, 2 bad input, 125 own failure, 128+n signal n.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/errc.h"

#include "lab/subject/subject.h"

namespace holdfast::lab {

inline constexpr int kAsExpected = 0;
inline constexpr int kNotAsExpected = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kOwnFailure = 125;

using Arguments = std::vector<std::string>;

// Holdfast's own subject, and the exhibits.
const std::vector<SubjectKind>& subjects();

int help_command(const Arguments& arguments);
int run_command(const Arguments& arguments);
int matrix_command(const Arguments& arguments);
int check_command(const Arguments& arguments);
int exhibits_command(const Arguments& arguments);
int worker_command(const Arguments& arguments);  // Hidden: a client of a run.
int spin_command(const Arguments& arguments);    // Hidden: keeps a CPU busy.

// "holdfast-lab: ..." on standard error.
void complain(const std::string& message);
// Complains, names the help page, and returns kBadInput.
int bad_input(const std::string& command, const std::string& message);

// The same, or kOwnFailure if the store cannot be reached.
int unusable_store(const std::string& command, const Error& error);

std::string help_text(std::string_view command);  // Empty if there is no such page.
std::vector<std::string> command_names();
// The received SIGINT or SIGTERM, which ends a run early and cleanly; 0 if none came.
int signal_seen();
// The commit of this build, with "-dirty" if the tree had changes; empty if unknown.
std::string build_commit();
// The path of this program, to start it again.
std::string own_path();

}  // namespace holdfast::lab
