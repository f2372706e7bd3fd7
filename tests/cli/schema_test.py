"""`store init`, and `create=no` in the URL, on a real server of the kind in HOLDFAST_TEST_STORE."""

import json
import os
import re
import subprocess
import unittest

import harness
import stores_test
from harness import CliCase
from stores_test import STORE

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
POSTGRES = STORE == "postgres"


def page(name):
    with open(os.path.join(ROOT, "docs/stores", name), encoding="utf-8") as file:
        return file.read()


class SchemaCase(CliCase):
    """Each case has tables of its own, and a user of its own."""

    cases = 0

    def setUp(self):
        super().setUp()
        SchemaCase.cases += 1
        self.place = f"case{self.cases}" + ("" if POSTGRES else "_")
        self.tables = (f"the schema {self.place} of " if POSTGRES
                       else f"the tables {self.place}* of ")
        self.user = f"user{self.cases}"
        self.sql(f"CREATE ROLE {self.user} LOGIN PASSWORD 'pw'" if POSTGRES
                 else f"CREATE USER {self.user}@'%' IDENTIFIED BY 'pw'")
        words = dict(re.findall(r"(\w+)=(\S+)", " ".join(stores_test.SERVER.facts["client"])))
        self.admin = (
            f"postgres+unix://{words['host']}?port={words['port']}&user=postgres&schema={self.place}"
            if POSTGRES else
            f"mysql+unix://{words['socket']}?database=test&user=root&prefix={self.place}")

    def sql(self, text):
        database = [] if POSTGRES else ["--database=test"]
        return self.run_sql(text, database)

    def run_sql(self, text, more=()):
        done = subprocess.run([*stores_test.SERVER.facts["client"], *more], input=text, text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def table(self, name):
        return f"{self.place}.{name}" if POSTGRES else f"{self.place}{name}"

    def url(self, more="", user=None, place=None):
        option = "schema" if POSTGRES else "prefix"
        return (f"{STORE}://{user or self.user}:pw@{stores_test.SERVER.facts['place']}"
                f"?{option}={place or self.place}{more}")

    def grant(self):
        """What the page says is enough where the tables exist."""
        text = page(f"{STORE}.md")
        rights = text[text.index("## Rights"):]
        statements = re.search(r"```\n(GRANT .*?)```", rights, re.DOTALL).group(1)
        statements = re.sub(r"\blocks\b", self.user, statements)
        if POSTGRES:
            statements = statements.replace("SCHEMA holdfast", f"SCHEMA {self.place}")
        else:
            statements = statements.replace("app.*", "test.*")
        self.sql(statements)

    def init(self, url, *options):
        return self.holdfast("store", "init", "--store", url, *options)

    def made(self, url):
        done = self.init(url, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def runs(self, url):
        done = self.holdfast("run", "--store", url, "job", "--", "echo", "ran")
        self.assertEqual((done.returncode, done.stdout), (0, "ran\n"), done.stderr)

    def fails(self, done, *words):
        self.assertEqual((done.returncode, done.stdout), (125, ""), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)


class InitTest(SchemaCase):
    def test_it_makes_the_tables_once_and_finds_them_then(self):
        url = self.admin + "&create=no"
        done = self.init(url)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "^made " + re.escape(self.tables) + ".*, format 1\n$")
        found = self.made(url)
        self.assertEqual((found["format"], found["created"]), (1, False))
        self.assertIn(self.tables, found["place"])
        self.assertEqual(self.init(url, "-q").stdout, "")
        self.assertRegex(self.init(self.admin).stdout, "^found ")
        self.grant()
        self.runs(self.url("&create=no"))

    def test_without_it_the_first_client_makes_them_unless_that_is_forbidden(self):
        run = self.holdfast("run", "--store", self.admin + "&create=no", "job", "--", "true")
        self.fails(run, "create=no", "no tables in " + self.tables.removesuffix(" of "),
                   "'holdfast store init'", f"{STORE}+unix://")
        self.runs(self.admin + "&create=yes")
        self.runs(self.admin + "&create=no")
        self.assertFalse(self.made(self.admin)["created"])

    def test_the_printed_sql_is_enough_for_a_user_with_the_rights_of_the_page(self):
        printed = self.init(self.url(), "--print-sql")
        self.assertEqual((printed.returncode, printed.stderr), (0, ""))
        for _ in range(2):  # It may run again.
            self.run_sql(printed.stdout)
        self.grant()
        self.runs(self.url("&create=no"))
        self.runs(self.url())
        found = self.made(self.url())
        self.assertFalse(found["created"])

    def test_a_user_without_rights_is_told_who_can_help(self):
        if not POSTGRES:
            self.sql(f"GRANT CREATE TEMPORARY TABLES ON test.* TO {self.user}@'%'")
        self.fails(self.init(self.url()), "denied", "an administrator run 'holdfast store init'",
                   "--print-sql")
        wrong = self.url().replace(":pw@", ":wrong@")
        self.fails(self.init(wrong), self.user)

    def test_many_at_once_do_no_harm(self):
        command = [harness.PROGRAM, "store", "init", "--store", self.admin]
        running = [subprocess.Popen(command, env=self.env, text=True, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT) for _ in range(8)]
        said = [one.communicate(timeout=60)[0] for one in running]
        self.assertEqual([one.returncode for one in running], [0] * 8, said)
        self.runs(self.admin + "&create=no")

    def test_another_format_is_refused(self):
        self.made(self.admin)
        self.sql(f"UPDATE {self.table('meta')} SET format = 2")
        self.fails(self.init(self.admin), self.tables.removesuffix(" of "), "another format")

    def test_a_dropped_table_is_seen_by_doctor_and_made_again(self):
        self.made(self.admin)
        for table in ("locks", "tickets", "tombstones", "extras"):
            self.sql(f"DROP TABLE {self.table(table)}")
            done = self.holdfast("doctor", "--store", self.admin)
            self.assertEqual(done.returncode, 1, (table, done.stdout, done.stderr))
            self.assertRegex(done.stdout, "table is missing(.|\\n)*holdfast store init")
            self.assertTrue(self.made(self.admin)["created"], table)
            self.assertFalse(self.made(self.admin)["created"], table)
            self.assertEqual(self.holdfast("doctor", "-q", "--store", self.admin).returncode, 0)
            self.runs(self.admin)

    def test_a_table_that_is_dropped_under_a_lock_makes_no_second_holder(self):
        self.made(self.admin)
        self.env["HOLDFAST_STORE"] = self.admin
        for table in ("locks", "tickets", "tombstones", "extras"):
            with self.subTest(table=table):
                name = "under-" + table
                holder = self.run_locked("--ttl", "3s", name, "--", "sleep", "60")
                holder.event("started")
                waiter = self.run_locked(name, "--", "echo", "ran")
                waiter.event("waiting")
                self.sql(f"DROP TABLE {self.table(table)}")
                tried = self.holdfast("run", "--no-wait", name, "--", "echo", "ran")
                self.fails(tried, "a table of the store is missing", "holdfast store init")
                # The holder cannot renew; the waiter would wait for nothing.
                self.assertEqual(holder.status(), 123)
                self.assertEqual(waiter.status(), 125)
                self.assertIn(b"holdfast store init", waiter.process.stderr.read())
                self.assertTrue(self.made(self.admin)["created"])
                done = self.holdfast("run", "--wait", "20s", name, "--", "echo", "ran")
                if table == "tickets":  # Who held it is not known any more: that is for people.
                    self.fails(done, "make no sense", "delete its row in the table of locks")
                    self.sql(f"DELETE FROM {self.table('locks')}")
                    done = self.holdfast("run", name, "--", "echo", "ran")
                self.assertEqual((done.returncode, done.stdout), (0, "ran\n"), done.stderr)

    def test_locks_that_are_made_anew_end_their_holders(self):
        self.made(self.admin)
        self.env["HOLDFAST_STORE"] = self.admin
        holder = self.run_locked("--ttl", "3s", "job", "--", "sleep", "60")
        token = holder.event("started")["token"]
        waiter = self.run_locked("job", "--", "echo", "ran")
        waiter.event("waiting")
        self.sql(f"DROP TABLE {self.table('locks')}")
        self.assertTrue(self.made(self.admin)["created"])
        done = self.holdfast("run", "job", "--", "printenv", "HOLDFAST_TOKEN")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(done.stdout.strip(), token)
        # It learns at its next renewal. The waiter may have seen that the table was away.
        self.assertEqual(holder.status(), 123)
        if waiter.status() != 0:
            self.assertEqual(waiter.status(), 125)
            self.assertIn(b"holdfast store init", waiter.process.stderr.read())

    def test_a_format_that_is_told_nowhere_is_told_again(self):
        self.made(self.admin)
        for way in ("DELETE FROM", "DROP TABLE"):
            self.sql(f"{way} {self.table('meta')}")
            self.assertEqual(self.made(self.admin)["format"], 1)
            self.runs(self.admin + "&create=no")
            self.sql(f"DELETE FROM {self.table('meta')}")
            self.runs(self.admin)

    def test_settings_that_cannot_work_say_what_to_change(self):
        def refused(url, *words):
            done = self.holdfast("run", "--store", url, "job", "--", "true")
            self.fails(done, *words)
            self.assertNotIn("retrying is safe", done.stderr)

        place = stores_test.SERVER.facts["place"].split("/")[0]
        refused(self.admin.replace("&user", "&database=nosuch&user") if POSTGRES else
                self.admin.replace("=test", "=nosuch"),
                "nosuch", "CREATE DATABASE, or name another one")
        refused(f"{STORE}://{place}/app?database=app", "given twice, as the path and as database=")
        self.sql(f"CREATE SCHEMA {self.place}; CREATE TABLE {self.table('meta')} (id int)"
                 if POSTGRES else f"CREATE TABLE {self.table('meta')} (id int)")
        refused(self.admin, self.tables.removesuffix(" of "), "not those of Holdfast",
                "name another place")
        if POSTGRES:
            refused(self.admin.replace(f"={self.place}", "=pg_x"), "pg_", "name another one")
            refused(f"postgres://{place}/app?port=5", "port is for postgres+unix://")
            self.env["PGSERVICE"] = "nosuch"
            refused(self.admin, "nosuch", "unset PGSERVICE")

    @unittest.skipUnless(POSTGRES, "settings of libpq")
    def test_libpqs_environment_changes_nothing_that_the_url_says(self):
        service = self.path("service")
        with open(service, "w", encoding="utf-8") as file:
            file.write("[other]\nhost=127.0.0.9\nport=9\ndbname=other\nsslmode=verify-full\n"
                       "options=-c default_transaction_read_only=on\n")
        for changed in (
                {"PGHOST": "127.0.0.9", "PGPORT": "9", "PGDATABASE": "other", "PGUSER": "other"},
                {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": "/nowhere", "PGGSSENCMODE": "require"},
                {"PGTARGETSESSIONATTRS": "standby", "PGCONNECT_TIMEOUT": "1"},
                {"PGCLIENTENCODING": "LATIN1", "PGAPPNAME": "other", "PGTZ": "Asia/Tokyo"},
                {"PGOPTIONS": "-c default_transaction_read_only=on -c statement_timeout=1"},
                {"PGSERVICE": "other", "PGSERVICEFILE": service}):
            with self.subTest(changed=changed):
                done = self.holdfast("run", "--store", self.admin, "job", "--", "echo", "ran",
                                     env={**self.env, **changed})
                self.assertEqual((done.returncode, done.stdout), (0, "ran\n"), done.stderr)

    def test_a_user_with_one_connection_keeps_its_lock(self):
        self.made(self.admin)
        self.grant()
        self.sql(f"ALTER ROLE {self.user} CONNECTION LIMIT 1" if POSTGRES
                 else f"ALTER USER {self.user}@'%' WITH MAX_USER_CONNECTIONS 1")
        done = self.holdfast("run", "--ttl", "1s", "--store", self.url(), "job", "--", "sleep", "3")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_server_that_only_reads_is_refused(self):
        self.made(self.admin)
        self.grant()
        if POSTGRES:
            self.sql(f"ALTER ROLE {self.user} SET default_transaction_read_only = on")
        else:
            self.addCleanup(self.sql, "SET GLOBAL read_only = 0")
            self.sql("SET GLOBAL read_only = 1")
        self.fails(self.init(self.url()), "only reads", stores_test.SERVER.facts["place"])

    def test_other_locks_of_the_server_have_no_tables(self):
        recipe = "advisory" if POSTGRES else "get-lock"
        url = self.admin.rsplit("&", 1)[0] + f"&recipe={recipe}"
        self.fails(self.init(url + "&create=no"), "create=no is of no use with recipe=")
        done = self.init(url)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("nothing to make", done.stdout)
        printed = self.init(url, "--print-sql")
        self.assertEqual((printed.returncode, printed.stdout), (0, ""))
        self.assertIn("nothing to make", printed.stderr)


class PrintedSqlTest(CliCase):
    def test_it_is_the_file_beside_the_page_and_needs_no_server(self):
        nobody = f"{STORE}://locks@127.0.0.1:1/app"
        done = self.holdfast("store", "init", "--print-sql", "--store", nobody)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        if os.environ.get("HOLDFAST_UPDATE_GOLDEN") == "1":
            with open(os.path.join(ROOT, f"docs/stores/{STORE}.sql"), "w", encoding="utf-8") as file:
                file.write(done.stdout)
        self.assertEqual(done.stdout, page(f"{STORE}.sql"))
        self.assertIn(f"({STORE}.sql)", page(f"{STORE}.md"))


def setUpModule():
    stores_test.SERVER = stores_test.Server()
    unittest.addModuleCleanup(stores_test.SERVER.stop)


if __name__ == "__main__":
    harness.main()
