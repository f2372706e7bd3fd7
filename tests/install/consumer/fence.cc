// The guards of the installed components: each links, and answers before it needs a database.
#include <cstdio>

#include <holdfast/fence/mysql.h>
#include <holdfast/fence/postgres.h>
#include <holdfast/fence/sqlite.h>

using holdfast::Mode;
using holdfast::Token;

int main() {
  int answered = 0;
  const auto count = [&](const holdfast::Result<void>& answer) {
    if (!answer && answer.error().code() == holdfast::Errc::kUnsupported) ++answered;
  };
#ifdef FENCE_POSTGRES
  count(holdfast::fence::postgres::guard(nullptr, "stock", Token{0, 1}, Mode::permits(1, 2)));
#endif
#ifdef FENCE_MYSQL
  count(holdfast::fence::mysql::guard(nullptr, "stock", Token{0, 1}, Mode::permits(1, 2)));
#endif
#ifdef FENCE_SQLITE
  count(holdfast::fence::sqlite::guard(nullptr, "stock", Token{0, 1}, Mode::permits(1, 2)));
#endif
  std::printf("guards that answered: %d\n", answered);
  return answered == FENCES ? 0 : 1;
}
