// The commands; each takes its arguments without its own name and returns the exit status.
#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

int run_command(const std::vector<std::string>& arguments);
int elect_command(const std::vector<std::string>& arguments);
int hold_command(const std::vector<std::string>& arguments);
int acquire_command(const std::vector<std::string>& arguments);
int renew_command(const std::vector<std::string>& arguments);
int release_command(const std::vector<std::string>& arguments);
int ls_command(const std::vector<std::string>& arguments);
int status_command(const std::vector<std::string>& arguments);
int inspect_command(const std::vector<std::string>& arguments);
int watch_command(const std::vector<std::string>& arguments);
int top_command(const std::vector<std::string>& arguments);
int break_command(const std::vector<std::string>& arguments);
int doctor_command(const std::vector<std::string>& arguments);
int bench_command(const std::vector<std::string>& arguments);
int fence_command(const std::vector<std::string>& arguments);
int help_command(const std::vector<std::string>& arguments);
int version_command(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
