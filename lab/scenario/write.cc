#include <fstream>
#include <ostream>
#include <stdexcept>
#include <string_view>

#include "lab/scenario/fields.h"
#include "lab/scenario/files.h"

namespace holdfast::lab {
namespace {

void put_text(std::ostream& out, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  out << '"';
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out << '\\' << letter;
    } else if (byte < 0x20 || byte == 0x7F) {
      out << "\\u00" << kHex[byte >> 4U] << kHex[byte & 15U];
    } else {
      out << letter;
    }
  }
  out << '"';
}

class Writer {
 public:
  explicit Writer(std::ostream& out) : out_(out) {}

  template <typename Rule>
  void operator()(const char* key, const std::string& text, const Rule&) {
    if (text.empty()) return;
    out_ << key << " = ";
    put_text(out_, text);
    out_ << '\n';
  }
  template <typename Rule>
  void operator()(const char* key, const milliseconds& span, const Rule&) {
    out_ << key << " = \"" << span.count() << "ms\"\n";
  }
  template <typename Rule>
  void operator()(const char* key, const bool& flag, const Rule&) {
    out_ << key << " = " << (flag ? "true" : "false") << '\n';
  }
  template <typename Int, typename Rule>
  void operator()(const char* key, const Int& number, const Rule&) {
    out_ << key << " = " << number << '\n';
  }

 private:
  std::ostream& out_;
};

}  // namespace

void write_scenario(const Scenario& scenario, std::ostream& out) {
  Scenario copy = scenario;
  Writer writer(out);
  fields(writer, copy);
  out << "\n[store]\n";
  fields(writer, copy.store);
  out << "\n[clients]\n";
  fields(writer, copy.clients);
  for (WorkloadSpec& work : copy.workloads) {
    out << "\n[[workload]]\n";
    fields(writer, work);
  }
  for (NemesisSpec& nemesis : copy.nemeses) {
    out << "\n[[nemesis]]\n";
    fields(writer, nemesis);
  }
  out << "\n[check]\n";
  check_fields(writer, copy);
  out << "\n[expect]\n";
  constexpr const char* kWords[] = {"none", "must", "may"};
  for (std::size_t i = 0; i < kClasses; ++i) {
    out << kClassKeys[i] << " = \"" << kWords[static_cast<std::size_t>(copy.expect[i])] << "\"\n";
  }
}

void save_scenario(const Scenario& scenario, const std::string& folder) {
  Scenario saved = scenario;
  if (!saved.store.topology.empty()) {
    saved.store.topology = "topology.toml";
    std::ofstream file(folder + "/" + saved.store.topology);
    file << saved.topology->text;
    if (!file.flush()) throw std::runtime_error("cannot write into " + folder);
  }
  std::ofstream file(folder + "/scenario.toml");
  write_scenario(saved, file);
  if (!file.flush()) throw std::runtime_error("cannot write into " + folder);
}

}  // namespace holdfast::lab
