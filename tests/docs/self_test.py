"""Tests of the documentation tests: each must catch what it is there for."""

import os
import tempfile
import unittest
from pathlib import Path

import check_console
import check_exhibits
import check_glossary
import check_pictures
import check_prose
import check_snippets
import markdown

SOURCE = "int a;\n  // [region: two]\n  int b;\n    int c;\n  // [end]\n"


def snippet_problems(before, body):
    return check_snippets.check_block("x.md:1", before, body,
                                      lambda path: SOURCE if path == "e.cc" else None)


class SnippetsTest(unittest.TestCase):
    def test_an_identical_region_passes(self):
        self.assertEqual(snippet_problems("<!-- snippet: e.cc#two -->", "int b;\n  int c;"), [])

    def test_a_changed_word_is_caught(self):
        self.assertTrue(snippet_problems("<!-- snippet: e.cc#two -->", "int b;\n  int d;"))

    def test_an_unknown_file_region_or_origin_is_caught(self):
        self.assertTrue(snippet_problems("<!-- snippet: f.cc#two -->", "int b;"))
        self.assertTrue(snippet_problems("<!-- snippet: e.cc#one -->", "int b;"))
        self.assertTrue(snippet_problems("Some words.", "int b;"))


class ProseTest(unittest.TestCase):
    def problems(self, text):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.md"
            page.write_text(text, encoding="utf-8")
            return list(check_prose.problems(page, "page.md"))

    def test_short_sentences_with_a_subject_pass(self):
        self.assertEqual(self.problems("The client waits. What does it wait for?\n" * 20), [])

    def test_an_opening_without_a_subject_is_caught_with_its_line(self):
        found = self.problems("# Page\n\nThe client waits.\nIt holds.\n\n- Who waits has time.\n")
        self.assertEqual(len(found), 1)
        self.assertIn("page.md:6", found[0])

    def test_a_page_that_is_not_listed_is_caught(self):
        root = Path(__file__).resolve().parents[2]
        pages = ["README.md", "docs/guide/fencing.md", "changes/added/x.md", "docs/new.md", "lab/a.md"]
        self.assertEqual(check_prose.unlisted(root, pages), ["docs/new.md", "lab/a.md"])

    def test_long_sentences_are_caught(self):
        self.assertTrue(self.problems("It " + "waits and " * 24 + "ends.\n"))
        many = "The client waits for as long as the other one holds the lock that it asked for.\n"
        self.assertIn("median", self.problems(many * 20)[0])

    def test_code_tables_and_headings_are_no_sentences(self):
        self.assertEqual(self.problems("A page.\n\n## Who\n\n| a cell " + "more " * 60 + "| x |\n\n"
                                       "```\nWhat is this\n| what |\n```\n"), [])

    def test_a_cell_without_a_subject_is_caught_with_its_line(self):
        found = self.problems("A page.\n\n| option | |\n|---|---|\n| `-x` | what it is |\n| who? | the client |\n")
        self.assertEqual(len(found), 1)
        self.assertIn("page.md:5", found[0])

    def test_a_page_that_does_not_say_what_it_is_for_is_caught(self):
        self.assertIn("what the page is for", self.problems("# Page\n\n## One\n\nThe client waits.\n")[0])

    def test_a_design_page_over_two_pages_is_caught(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.md"
            page.write_text("The client waits.\n" * 334, encoding="utf-8")
            self.assertEqual(list(check_prose.problems(page, "docs/guide/page.md")), [])
            self.assertIn("1002 words", list(check_prose.problems(page, "docs/design/page.md"))[0])


class PicturesTest(unittest.TestCase):
    GOOD = '<svg xmlns="http://www.w3.org/2000/svg"><title>a</title><desc>b</desc></svg>'

    def problems(self, page, text, drawn):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            (root / "docs").mkdir()
            (root / "docs/page.md").write_text(page, encoding="utf-8")
            (root / "docs/a.svg").write_text(text, encoding="utf-8")
            return list(check_pictures.problems(root, {Path("docs/a.svg"): drawn}))

    def test_a_picture_as_drawn_that_a_page_shows_passes(self):
        self.assertEqual(self.problems("![a lock](a.svg)\n", self.GOOD, self.GOOD), [])

    def test_a_picture_that_no_page_shows_or_that_has_no_words_is_caught(self):
        self.assertTrue(self.problems("See a.svg.\n", self.GOOD, self.GOOD))
        self.assertTrue(self.problems("![](a.svg)\n", self.GOOD, self.GOOD))

    def test_a_picture_that_is_not_as_drawn_is_caught(self):
        self.assertIn("draw.py", self.problems("![a](a.svg)\n", self.GOOD, self.GOOD + "\n")[0])

    def test_a_picture_without_title_or_that_is_no_xml_is_caught(self):
        bare = self.GOOD.replace("<title>a</title>", "")
        self.assertIn("title", self.problems("![a](a.svg)\n", bare, bare)[0])
        self.assertIn("XML", self.problems("![a](a.svg)\n", "<svg>", "<svg>")[0])


class GlossaryTest(unittest.TestCase):
    PAGE = ("| word | meaning | in code |\n|---|---|---|\n| lease | A time. | `Lease` |\n"
            "## Words that were replaced\n| instead of | write |\n|---|---|\n"
            "| `HandOff` | handoff |\n| knock, knocks | notify |\n")

    def uses(self, path, text):
        types, words = check_glossary.replaced_words(self.PAGE)
        return check_glossary.replaced_uses(path, text, types, words)

    def test_the_tables_are_read(self):
        self.assertEqual(check_glossary.code_names(self.PAGE), ["Lease"])
        self.assertEqual(check_glossary.replaced_words(self.PAGE),
                         (["HandOff"], ["knock", "knocks"]))

    def test_a_type_with_a_replaced_name_is_caught(self):
        self.assertTrue(self.uses("a.h", "struct HandOff {\n"))
        self.assertTrue(self.uses("a.h", "  class [[nodiscard]] LateHandOff final : X {\n"))
        self.assertTrue(self.uses("a.h", "enum class HandOff { kA };\n"))
        others = "struct HandOffice {\nstruct Handoff {\nclass HandOff;\n"
        self.assertEqual(self.uses("a.h", others), [])

    def test_a_page_with_a_replaced_word_is_caught(self):
        self.assertTrue(self.uses("a.md", "The client knocks.\n"))
        others = "`knock` [n](knock.md) knocking\n```\nknock\n```\n"
        self.assertEqual(self.uses("a.md", others), [])

    def test_an_exception_counts_once_needed_and_fails_afterwards(self):
        self.assertEqual(check_glossary.problems_of(["a.h: Place"], ["a.h: Place"]), [])
        self.assertTrue(check_glossary.problems_of([], ["a.h: Place"]))
        self.assertTrue(check_glossary.problems_of(["b.h: Place"], []))

    def test_a_rule_without_a_row_is_caught(self):
        page = "| rule | demands |\n|---|---|\n| 3 | a |\n## Lessons\n| 4 | b |\n"
        def check(*texts):
            return check_glossary.rules_without_row(texts, page)
        self.assertEqual(check("as rule 3 says", "(lesson 4)", "// a rule."), [])
        self.assertEqual(len(check("rules 3 and 33", "lesson 3", "safety rule 5")), 3)

    def test_a_type_of_three_layers_needs_a_row(self):
        def missing(paths, type_name="Engine", names=()):
            sources = {path: f"struct {type_name} {{\n" for path in paths}
            return check_glossary.shared_without_row(sources, list(names))

        layers = ["src/a/x.h", "src/stores/b/x.h", "src/stores/c/x.cc"]
        self.assertEqual(len(missing(layers)), 1)
        self.assertEqual(missing(layers, names=["Engine"]), [])
        self.assertEqual(missing(layers, type_name="State"), [])
        self.assertEqual(missing(layers[:2] + ["src/a/y.h", "src/stores/c/x_test.cc"]), [])


class HeaderExamplesTest(unittest.TestCase):
    CLIENT = "class Client {\n  Latch latch(std::string name, int count) const;\n};\n"

    def problems(self, comment, client=CLIENT):
        headers = {"client.h": client, "latch.h": "// A count.\n//\n" + comment + "#pragma once\n"}
        return check_snippets.check_headers(headers,
                                            lambda path: SOURCE if path == "e.cc" else None)

    def test_an_identical_example_passes(self):
        comment = "// Example (e.cc#two):\n//   int b;\n//     int c;\n//\n// Guarantee: none.\n"
        self.assertEqual(self.problems(comment), ([], 1))

    def test_a_changed_word_is_caught(self):
        comment = "// Example (e.cc#two):\n//   int b;\n//     int d;\n//\n// Guarantee: none.\n"
        self.assertTrue(self.problems(comment)[0])

    def test_a_primitive_without_an_example_is_caught(self):
        self.assertTrue(self.problems("")[0])

    def test_a_client_without_primitives_is_caught(self):
        comment = "// Example (e.cc#two):\n//   int b;\n//     int c;\n"
        self.assertTrue(self.problems(comment, client="")[0])


class ConsoleTest(unittest.TestCase):
    def page_problems(self, body):
        return check_console.check_page("x.md", f"# X\n\n```console\n{body}\n```\n",
                                        os.environ["PATH"])

    def test_expected_output_passes_and_other_output_is_caught(self):
        self.assertEqual(self.page_problems("$ echo one two\none two"), ([], 1))
        self.assertTrue(self.page_problems("$ echo one two\none")[0])
        self.assertTrue(self.page_problems("$ echo one; echo two\none")[0])

    def test_dots_stand_for_what_varies(self):
        self.assertEqual(self.page_problems("$ echo a 17 b; echo x; echo y\na ... b\n...")[0], [])

    def test_an_exit_code_is_part_of_the_output(self):
        self.assertEqual(self.page_problems("$ (exit 3)\n(exit 3)")[0], [])
        self.assertTrue(self.page_problems("$ (exit 3)")[0])
        self.assertTrue(self.page_problems("$ (exit 3)\n(exit 4)")[0])

    def test_a_command_that_does_not_end_is_caught(self):
        self.assertTrue(self.page_problems("$ exit 0\n$ echo x\nx")[0])

    def test_commands_of_a_page_share_variables(self):
        self.assertEqual(self.page_problems("$ a=7\n$ echo $a\n7")[0], [])

    def test_commands_of_a_page_share_a_fresh_folder(self):
        self.assertEqual(self.page_problems("$ echo x > f\n$ cat f\nx")[0], [])

    def test_blocks_that_are_not_run_are_not_counted(self):
        text = "# X\n\n<!-- console: not run -->\n```console\n$ exit 1\n```\n"
        self.assertEqual(check_console.check_page("x.md", text, ""), ([], 0))


class MarkdownTest(unittest.TestCase):
    def test_blocks_are_found_by_language_with_the_line_before(self):
        text = "a\n\n<!-- b -->\n```cpp\nc\n```\n```sh\nd\n```\n"
        self.assertEqual(markdown.blocks(text, "cpp"), [(4, "<!-- b -->", "c")])


class ExhibitsTest(unittest.TestCase):
    PAGE = (check_exhibits.PAGE, "Shown by `holdfast-lab exhibits one`.")

    def test_a_page_that_names_all_passes(self):
        self.assertEqual(check_exhibits.check_names([self.PAGE], {"one"}), [])

    def test_a_missing_and_an_unknown_exhibit_are_caught(self):
        self.assertTrue(check_exhibits.check_names([self.PAGE], {"one", "two"}))
        self.assertTrue(check_exhibits.check_names([self.PAGE, ("x.md", "$ holdfast-lab exhibits x")],
                                                   {"one"}))
        self.assertTrue(check_exhibits.check_names([("x.md", "<!-- steps: x -->")], {"one"}))

    def test_steps_differ_in_numbers_only(self):
        text = "<!-- steps: one -->\n```text\n   7 ms  bob    waits\n```\n"
        (_, name, quoted), = check_exhibits.quoted_steps(text)
        self.assertEqual(name, "one")
        self.assertEqual(quoted, check_exhibits.without_numbers("1034 ms  bob  waits\n"))
        self.assertNotEqual(quoted, check_exhibits.without_numbers("7 ms  bob  writes\n"))


if __name__ == "__main__":
    unittest.main()
