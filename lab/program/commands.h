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

// Ours, and the exhibits.
const std::vector<SubjectKind>& subjects();

int help_command(const Arguments& arguments);
int run_command(const Arguments& arguments);
int matrix_command(const Arguments& arguments);
int check_command(const Arguments& arguments);
int exhibits_command(const Arguments& arguments);
int worker_command(const Arguments& arguments);  // Hidden: a client of a run.
int spin_command(const Arguments& arguments);    // Hidden: uses a CPU up.

// "holdfast-lab: ..." on standard error.
void complain(const std::string& message);
// Complains, names the help page, returns kBadInput.
int bad_input(const std::string& command, const std::string& message);

// The same, or kOwnFailure where the store is not there.
int unusable_store(const std::string& command, const Error& error);

std::string help_text(std::string_view command);  // Empty: no such page.
std::vector<std::string> command_names();
// SIGINT or SIGTERM, which end a run early so that nothing of it stays behind; 0: none came.
int signal_seen();
// The commit that this program was built of, with "-dirty" when there was more; empty: not known.
std::string build_commit();
// This program, to be started again.
std::string own_path();

}  // namespace holdfast::lab
