"""Tests of the architecture tests: each must catch what it is there for."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import check_layers
import check_public_api
import check_tidy
import source_tree

HERE = Path(__file__).parent
TABLE = check_layers.read_table(HERE / "layers.txt")


def layer_problems(path, text):
    return check_layers.check_file(path, text, TABLE)


class LayersTest(unittest.TestCase):
    def test_a_forbidden_include_is_caught_with_its_line(self):
        self.assertEqual(
            layer_problems("src/machine/x.cc", '\n#include "src/stores/memory/y.h"\n'),
            ["src/machine/x.cc:2: layer 'machine' may not include 'src/stores/memory/y.h' "
             "(stores/memory)"])

    def test_stores_do_not_see_each_other(self):
        self.assertTrue(layer_problems("src/stores/sqlite/x.cc",
                                       '#include "src/stores/memory/y.h"'))

    def test_session_and_stores_do_not_see_each_other(self):
        self.assertTrue(layer_problems("src/session/x.cc", '#include "src/stores/memory/y.h"'))
        self.assertTrue(layer_problems("src/stores/memory/x.cc", '#include "src/session/y.h"'))

    def test_the_program_sees_only_public_headers(self):
        self.assertTrue(layer_problems("src/cli/x.cc", '#include "src/base/clock.h"'))
        self.assertEqual(layer_problems("src/cli/x.cc", '#include "holdfast/client.h"'), [])

    def test_allowed_includes_pass(self):
        self.assertEqual(layer_problems(
            "src/session/x.cc",
            '#include <thread>\n#include "src/port/store.h"\n#include "src/session/y.h"\n'), [])

    def test_the_machine_sees_no_clock_thread_chance_or_stream(self):
        for line in ("#include <thread>", "#include <random>", "#include <iostream>",
                     "#include <asio.hpp>", "#include <unistd.h>", "auto t = steady_clock::now();",
                     "std::thread t;", 'std::printf("x");'):
            self.assertTrue(layer_problems("src/machine/x.cc", line), line)

    def test_the_machine_may_compare_durations_and_abort(self):
        self.assertEqual(layer_problems(
            "src/machine/x.cc",
            '#include <chrono>\n#include <cstdio>\nstd::fprintf(stderr, "%s", what);\n'
            'std::abort();  // not a std::thread\n'), [])

    def test_public_headers_are_free_of_third_parties(self):
        self.assertTrue(layer_problems("include/holdfast/x.h", "#include <asio.hpp>"))
        self.assertTrue(layer_problems("include/holdfast/x.h", '#include "src/base/clock.h"'))
        self.assertTrue(layer_problems("include/holdfast/x.h", "#include <sqlite3.h>"))

    def test_a_timer_that_stands_still_in_suspend_is_caught(self):
        self.assertTrue(layer_problems("src/contend/x.cc", "#include <asio/steady_timer.hpp>"))

    def test_an_include_that_is_not_written_from_the_root_is_caught(self):
        self.assertTrue(layer_problems("src/base/x.cc", '#include "clock.h"'))

    def test_a_folder_without_a_layer_is_caught(self):
        self.assertTrue(layer_problems("src/novelty/x.cc", ""))

    def test_only_tests_are_exempt(self):
        for path in ("src/a/b_test.cc", "src/a/test_clock.h", "src/a/testing/x.h"):
            self.assertTrue(check_layers.is_test(path), path)
        for path in ("src/a/b.cc", "src/a/latest_clock.h", "src/a/test.cc"):
            self.assertFalse(check_layers.is_test(path), path)

    def test_an_include_in_a_comment_is_none(self):
        self.assertEqual(layer_problems("src/machine/x.cc", '// #include "src/cli/x.h"\n'), [])


class PublicApiTest(unittest.TestCase):
    def test_a_changed_signature_is_seen_and_a_comment_is_not(self):
        declarations = check_public_api.declarations
        before = "class A {\n public:\n  // Old words.\n  int f(int x = 3);\n};"
        self.assertEqual(declarations(before),
                         declarations("class A { public: int f(int x = 3); /* new */ };"))
        self.assertNotEqual(declarations(before), declarations(before.replace("3", "4")))

    def test_private_members_are_no_api(self):
        found = check_public_api.declarations(
            "class A { int hidden_; public: int f(); private: int g(); }; struct B { int x{}; };")
        self.assertEqual(found, ["class A {", "  int f();", "}", "struct B {", "  int x{};", "}"])

    def test_bodies_are_left_out(self):
        self.assertEqual(check_public_api.declarations("inline int f() { if (x) { y(); } }"),
                         ["inline int f()"])


class TidyTest(unittest.TestCase):
    def test_a_long_function_is_caught_and_a_long_namespace_is_not(self):
        body = "  call();\n" * 80
        self.assertTrue(check_tidy.check_functions("x.cc", "void f() {\n" + body + "}\n"))
        self.assertTrue(check_tidy.check_functions(
            "x.cc", "namespace a {\nint A::f(int b) const {\n" + body + "}\n}\n"))
        self.assertFalse(check_tidy.check_functions("x.cc", "namespace a {\n" + body + "}\n"))
        self.assertFalse(check_tidy.check_functions("x.cc", "class A {\n" + body + "};\n"))

    def test_long_lines_and_files_are_caught(self):
        self.assertTrue(check_tidy.check_columns("x.cc", ["x" * 101]))
        self.assertFalse(check_tidy.check_columns("x.cc", ["x" * 100]))
        self.assertTrue(check_tidy.check_size("x.cc", [""] * 701))

    def test_a_folder_of_too_many_files_is_caught(self):
        names = [Path(f"src/session/{number}.cc") for number in range(41)]
        self.assertTrue(check_tidy.check_folders(names))
        self.assertFalse(check_tidy.check_folders(names[1:] + [Path("src/session/reports/1.h")]))
        self.assertFalse(check_tidy.check_folders([Path(f"tests/cli/{name.name}") for name in names]))

    def test_leftovers_paths_and_mirrors_are_caught(self):
        for line in ("// FIX" + "ME later", "cd /wo" + "rk/main", "deb http://deb.debian" + ".org/"):
            self.assertTrue(check_tidy.check_words("x.cc", [line]), line)
        self.assertFalse(check_tidy.check_words("x.cc", ["/var/lib/x", "src/worker/x", "$HOME/x"]))

    def test_kinds_of_stores_in_the_lab(self):
        def check(code, path="lab/rig/x.cc"):
            return check_tidy.check_store_names(path, code, ["memory", "redis"])
        for code in ('if (kind == "redis")', "redis_url(1)", "RedisServer s;", 'say("memory:")',
                     "redis6 = 1;"):
            self.assertTrue(check(code), code)
        for code in ("// redis: one server", "bool with_memory;", '"reddish"'):
            self.assertFalse(check(code), code)
        self.assertFalse(check('"redis"', "lab/exhibits/x.cc"))
        self.assertFalse(check('"redis"', "lab/runner/scenario_test.cc"))

    def test_a_comparison_with_a_scheme_is_caught(self):
        def check(code, path="src/cli/run/x.cc"):
            return check_tidy.check_capabilities(path, code, ["memory", "redis"])
        for code in ('if (url.starts_with("memory:"))', 'url.compare(0, 7, "memory:") == 0',
                     'scheme == "redis:"', 'if (kind->name != "hybrid")'):
            self.assertTrue(check(code), code)
        for code in ('// starts_with("redis:")', 'example("redis://h");', "kind->over_network"):
            self.assertFalse(check(code), code)
        self.assertFalse(check('url.starts_with("redis:")', "src/stores/redis/url.cc"))

    def test_a_part_of_a_lease_of_its_own_is_caught(self):
        for path in check_tidy.SCHEDULED:
            self.assertTrue(check_tidy.check_schedule(path, "int x;"), path)
        path, asks = check_tidy.SCHEDULED[0], "RenewalSchedule(lease);\n"
        for part in ("ttl / 3", "terms_.ttl / 3", "view_.length * 2 / 3", "Nanos(state.lease) / 2",
                     "lease() / kRetriesPerLease", "std::chrono::milliseconds(session) * 2 / 3"):
            self.assertTrue(check_tidy.check_schedule(path, asks + part), part)
        self.assertEqual(check_tidy.check_schedule(path, asks + "// A lease / 3.\nleft / 2;"), [])

    def test_a_comment_without_a_subject_is_caught(self):
        lines = ["int a;  // Of the grant.", "// What is left.", "// The client. Those go", "// of it.",
                 "// Of it: more.", "// Who asks?", "// The names", "// Of one."]
        found = check_tidy.check_openings("src/session/a.h", lines)
        self.assertEqual([problem.split(":")[1] for problem in found], ["1", "2", "3", "5"])
        self.assertEqual(check_tidy.check_openings("scripts/a.h", lines), [])

    def test_an_unregistered_test_is_caught(self):
        self.assertTrue(check_tidy.check_registered("src/a/b_test.cc", "TESTS ab_test.cc"))
        self.assertTrue(check_tidy.check_registered("src/a/b_test.cc", None))
        self.assertFalse(check_tidy.check_registered("src/a/b_test.cc", "TESTS b_test.cc"))

    def test_titles_and_dead_links_of_markdown_are_caught(self):
        def check(text, path="a.md"):
            return check_tidy.check_markdown(path, text, lambda link: link == "there.md")
        self.assertEqual(check("# One\n[a](there.md#b) [b](https://x.example)\n"), [])
        self.assertTrue(check("# One\n# Two\n"))
        self.assertTrue(check("no title\n"))
        self.assertTrue(check("# One\n[a](gone.md)\n"))
        self.assertEqual(check("# One\n```\n# not a title\n[a](gone.md)\n```\n"), [])
        self.assertEqual(check("A sentence.\n", "changes/added/x.md"), [])


class NothingTest(unittest.TestCase):
    def test_each_check_fails_when_it_looked_at_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "tests/architecture").mkdir(parents=True)
            for name in ("layers.txt", "public_api.golden"):
                (root / "tests/architecture" / name).symlink_to(HERE / name)
            for script in ("check_layers.py", "check_public_api.py", "check_tidy.py"):
                result = subprocess.run([sys.executable, HERE / script, root], check=False,
                                        capture_output=True, text=True)
                self.assertEqual(result.returncode, 1, script)
                self.assertIn("looked at nothing", result.stdout, script)

    def test_this_tree_is_looked_at(self):
        self.assertGreater(len(source_tree.files(HERE.parent.parent, (".h", ".cc"))), 10)


if __name__ == "__main__":
    unittest.main()
