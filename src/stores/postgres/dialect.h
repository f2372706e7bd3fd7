// The dialect of PostgreSQL.
//
// Values go as parameters, those of many locks as arrays.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/sql/dialect.h"
#include "src/stores/postgres/statements.h"
#include "src/stores/postgres/url.h"

namespace holdfast::stores::postgres {

// The meaning of an error: why a request was refused, or was not sent.
sql::Failure failure_of(const sql::Answer& answer);

class PostgresDialect final : public sql::Dialect {
 public:
  explicit PostgresDialect(const PostgresAddress& address)
      : statements_(address.schema),
        schema_(address.schema),
        address_(address.display()),
        place_(statements_.of("@")) {}

  std::string_view store() const override { return "postgres"; }
  const std::string& address() const override { return address_; }
  const std::string& place() const override { return place_; }

  sql::Request fast(const sql::FastCommand& command, sql::Now now) const override;
  sql::Request fast_many(const std::vector<const sql::FastCommand*>& commands,
                         sql::Now now) const override;
  std::optional<sql::Request> hand_on(const sql::FastCommand& release, const std::string& own,
                                      sql::Now now) const override;
  sql::Request renew(const std::vector<port::RenewItem>& items, sql::Now now) const override;
  sql::Request look(const std::vector<Waiter>& waiters) const override;
  sql::Request read(const std::vector<std::string>& names, sql::Now now) const override;
  sql::Request list(const std::string& from, const std::optional<std::string>& below,
                    std::size_t limit, sql::Now now) const override;
  sql::Request value(const std::string& name) const override;
  sql::Request write(const sql::Writes& writes) override;
  std::size_t most_apart() const override { return 32; }

  sql::Failure failure_of(const sql::Answer& answer) const override {
    return postgres::failure_of(answer);
  }
  std::string tables() const override { return "the schema " + schema_; }
  int format() const override { return kFormat; }
  Result<FoundTables> find_tables(const Ask& ask) const override;
  sql::Request creation() const override { return {statements_.create}; }
  std::string script() const override;
  sql::Request read_record(const std::string& key) const override;
  sql::Request create_record(const std::string& key, const std::string& text) const override;
  sql::Request replace_record(const std::string& key, std::int64_t version,
                              const std::string& text) const override;
  sql::Request wall_time() const override;
  sql::Request durability() const override;
  std::string forgets(const sql::Rows& rows) const override;
  Guarantees guarantees() const override;
  sql::Request examination() const override;
  port::Findings judge(const sql::Rows& rows, bool listening) const override;

 private:
  const Statements statements_;
  const std::string schema_;
  const std::string address_;
  const std::string place_;
  std::unordered_map<unsigned, std::string> write_texts_;  // By the shape of the write.
};

}  // namespace holdfast::stores::postgres
