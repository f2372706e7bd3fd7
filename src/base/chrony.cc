#include "src/base/chrony.h"

#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace holdfast::base {
namespace {

namespace fs = std::filesystem;

constexpr double kChronysDefault = 83'333.333;
constexpr int kMostLines = 10'000;  // A file without end must not keep us.
constexpr std::streamsize kLongestLine = 2'048;

// false: it cannot be read.
bool read(const fs::path& path, double& ppm) {
  std::ifstream file(path);
  if (!file) return false;
  std::string line(kLongestLine, '\0');
  for (int i = 0; i < kMostLines && file.getline(line.data(), kLongestLine); ++i) {
    std::istringstream words(line.c_str());
    std::string directive;
    std::string value;
    words >> directive >> value;
    if (::strcasecmp(directive.c_str(), "maxslewrate") != 0) continue;
    char* end = nullptr;
    const double said = std::strtod(value.c_str(), &end);
    if (end != value.c_str() && said >= 0) ppm = said;
  }
  return true;
}

}  // namespace

std::optional<double> chrony_max_slew_ppm(const std::string& folder) {
  double ppm = kChronysDefault;
  if (!read(fs::path(folder) / "chrony.conf", ppm)) return std::nullopt;
  std::vector<fs::path> more;
  std::error_code none;
  for (fs::directory_iterator it(fs::path(folder) / "conf.d", none), end; !none && it != end;
       it.increment(none)) {
    if (it->path().extension() == ".conf") more.push_back(it->path());
  }
  std::sort(more.begin(), more.end());
  for (const fs::path& path : more) read(path, ppm);
  return ppm;
}

}  // namespace holdfast::base
