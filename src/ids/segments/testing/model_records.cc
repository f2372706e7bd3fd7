#include "src/ids/segments/testing/model_records.h"

#include <utility>

namespace holdfast::ids::testing {
namespace {

using port::Record;

class ModelRecords final : public port::Records {
 public:
  ModelRecords(ModelStore& store, int client) : store_(store), client_(client) {}

  Result<std::optional<Record>> read(const std::string& key, base::BootInstant) override {
    pass_time();
    if (fails()) return Error(Errc::kUnavailable, "the model is away");
    const auto found = store_.records.find(key);
    auto answer = found == store_.records.end() ? std::nullopt : std::optional(found->second);
    pass_time();
    return answer;
  }
  Result<std::optional<std::uint64_t>> create(const std::string& key, const std::string& text,
                                              base::BootInstant) override {
    return change({client_, key, std::nullopt, text});
  }
  Result<std::optional<std::uint64_t>> replace(const std::string& key, std::uint64_t version,
                                               const std::string& text,
                                               base::BootInstant) override {
    return change({client_, key, version, text});
  }
  Result<std::optional<std::chrono::milliseconds>> wall_time(base::BootInstant) override {
    if (fails()) return Error(Errc::kUnavailable, "the model is away");
    return store_.wall_time;
  }
  std::string forgets() const override { return {}; }

 private:
  Result<std::optional<std::uint64_t>> change(ModelStore::Change change) {
    pass_time();
    if (fails()) {
      switch (store_.dice.below(4)) {
        case 0: return Error(Errc::kUnavailable, "the model is away");
        case 1:
          store_.late.push_back(std::move(change));
          return Error(Errc::kOutcomeUnknown, "the model will do it later");
        case 2:  // The network brings it a second time.
          store_.late.push_back(change);
          break;
        default:
          store_.apply(change);
          pass_time();
          return Error(Errc::kOutcomeUnknown, "the model's answer is lost");
      }
    }
    const auto answer = store_.apply(change);
    pass_time();
    return answer;
  }
  bool fails() { return store_.dice.below(100) < store_.faults; }
  void pass_time() {
    if (store_.meanwhile) store_.meanwhile();
  }

  ModelStore& store_;
  const int client_;
};

}  // namespace

std::optional<std::uint64_t> ModelStore::apply(const Change& change) {
  const auto found = records.find(change.key);
  const bool there = found != records.end();
  if (there != change.version.has_value()) return std::nullopt;
  if (there && found->second.version != *change.version) return std::nullopt;
  const std::string before = there ? found->second.text : std::string();
  ++changes;
  const std::uint64_t version = versions_go_back && there ? *change.version + 1 : changes;
  records[change.key] = {change.text, version};
  if (applied) applied(change, before);
  return version;
}

std::unique_ptr<port::Records> ModelStore::client(int number) {
  return std::make_unique<ModelRecords>(*this, number);
}

}  // namespace holdfast::ids::testing
