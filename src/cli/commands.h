// The commands. Each returns the exit status. Most get their options read (the table in help.cc
// names the reader); the others read their arguments, without the name of the command, themselves.
#pragma once

#include <string>
#include <vector>

#include "src/cli/options/options.h"

namespace holdfast::cli {

int run_command(const std::vector<std::string>& arguments);
int elect_command(const std::vector<std::string>& arguments);
int hold_command(const HoldOptions& options);
int acquire_command(const HoldOptions& options);
int renew_command(const LeaseOptions& options);
int release_command(const LeaseOptions& options);
int ls_command(const LookOptions& options);
int status_command(const LookOptions& options);
int inspect_command(const LookOptions& options);
int watch_command(const LookOptions& options);
int top_command(const TopOptions& options);
int break_command(const BreakOptions& options);
int doctor_command(const DoctorOptions& options);
int store_command(const StoreOptions& options);
int failover_command(const FailoverOptions& options);
int serve_command(const ServeOptions& options);
int server_command(const ServerToolOptions& options);
int bench_command(const BenchOptions& options);
int fence_command(const FenceOptions& options);
int id_command(const IdOptions& options);
int help_command(const std::vector<std::string>& arguments);
int version_command(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
