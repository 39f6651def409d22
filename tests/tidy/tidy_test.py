"""The tree keeps every rule; and each rule, with what it forbids planted in the tree, says so."""

import os
import sys
import unittest

import rules
from source import Tree

TREE = Tree.read(os.environ["SLICECHECK_SOURCE_DIR"])
MAKES_LONG = "  more();\n"


def lines(count):
    return "int one;\n" * count


def function_of(count):
    return "void work(int a) {\n" + MAKES_LONG * (count - 2) + "}\n"


# rule: (path, text) pairs that it must refuse, each planted alone.
FORBIDDEN = {
    "rooms_include_what_they_know": [
        ("src/layout/x.h", '#include "experts/experts.h"\n'),
        ("src/verify/x.cpp", '#include "faults/layer.h"\n'),
        ("src/moe/x.cpp", "  #  include <group/group.h>\n"),
        ("src/experts/x.cpp", '#include "../group/group.h"\n'),
        ("src/spare/x.h", "\n"),
    ],
    "cmake_knows_what_the_table_says": [
        ("src/layout/CMakeLists.txt", "slicecheck_room(layout KNOWS base experts SOURCES a.cpp)\n"),
        ("src/layout/CMakeLists.txt", "slicecheck_room(spare KNOWS base)\n"),
        ("src/moe/CMakeLists.txt", "target_link_libraries(slicecheck_moe slicecheck::group)\n"),
        ("src/verify/CMakeLists.txt", "target_link_libraries(slicecheck_verify MPI::MPI_CXX)\n"),
        ("src/base/CMakeLists.txt", "target_link_libraries(slicecheck_base GTest::gtest)\n"),
    ],
    "cmake_knows_what_is_included": [
        ("src/report/CMakeLists.txt", "slicecheck_room(report SOURCES report.cpp)\n"),
    ],
    "libraries_stay_in_their_place": [
        ("src/group/x.h", "#include <mpi.h>\n"),
        ("tests/group/x.cpp", "#include <mpi.h>\n"),
        ("src/memory/host/x.cpp", "#include <cuda_runtime.h>\n"),
        ("src/memory/cuda/x.cpp", "#include <nccl.h>\n"),
        ("src/base/x.cpp", "#include <gtest/gtest.h>\n"),
        ("src/report/x.cpp", "#include <CLI/CLI.hpp>\n"),
    ],
    "only_agree_throws": [
        ("src/group/x.cpp", "void f() { throw 1; }\n"),
        ("src/base/x.h", 'auto a = "\\""; /* */ int b = 1\'000; void f() { if (b) throw b; }\n'),
    ],
    "nothing_is_left_over": [("src/base/x.h", "// TO" + "DO later\n")],
    "no_path_of_one_machine": [("README.md", "see /ho" + "me/me/notes\n")],
    "files_are_short": [
        ("src/base/x.cpp", lines(401)),
        ("tests/base/x.cpp", lines(601)),
        ("properties/x.cpp", lines(601)),
    ],
    "lines_are_narrow": [
        ("src/base/x.h", "// " + "x" * 98 + "\n"),
        ("ci/test", "# " + "x" * 99 + "\n"),
        ("src/base/CMakeLists.txt", "# " + "x" * 99 + "\n"),
    ],
    "functions_are_short": [
        ("src/base/x.cpp", function_of(61)),
        ("src/base/x.cpp", "namespace a {\nstruct B {\n" + function_of(61) + "};\n}\n"),
        ("tests/base/x.cpp", "TEST(A, b) {\n" + "  { c(); }\n" * 60 + "}\n"),
    ],
    "laws_exist": [
        ("src/layout/x.h", "/// Law: Cut.never_written\n"),
    ],
    "golden_files_have_readers": [
        ("golden/spare.json", "{}"),
        ("golden/checkpoints/spare/config.json", "{}"),
    ],
    "golden_names_have_files": [("tests/base/x.cpp", 'auto a = "golden/' + 'spare.json";\n')],
    "names_say_something": [("src/base/string_utils.h", ""), ("src/base/detail/x.h", "")],
    "no_conditional_code": [("src/base/x.h", "#ifdef NDEBUG\n#endif\n")],
    "macros_are_few": [
        ("src/base/x.h", "#define MUST(x) x\n"),
        ("src/base/x.h", "".join(f"#define SLICECHECK_{i} 1\n" for i in range(5))),
    ],
    "cmake_does_nothing_globally": [
        ("src/base/CMakeLists.txt", "file(GLOB sources *.cpp)\n"),
        ("ci/cmake/X.cmake", 'set(CMAKE_CXX_FLAGS "-O3")\n'),
    ],
}

# What looks forbidden and is not.
ALLOWED = {
    "rooms_include_what_they_know": [
        ("src/moe/x.cpp", '#include "base/must.h"\n#include "layout/cut.h"\n#include <vector>\n'),
        ("src/layout/x.cpp", '// #include "experts/experts.h"\n'),
    ],
    "only_agree_throws": [("src/base/x.cpp", '// throw\n/* throw\n*/ auto a = R"x(throw)x";\n')],
    "functions_are_short": [
        ("src/base/x.cpp", function_of(60) + "\n" + function_of(60)),
        ("src/base/x.cpp", "namespace a {\n" + "int b(int c);\n" * 70 + "}\n"),
        ("src/base/x.cpp", 'void f() { g("{"); }\n' * 70),
    ],
    "no_path_of_one_machine": [("README.md", "/usr/bin and $prefix/home/x and a/work/b\n")],
    "cmake_knows_what_the_table_says": [
        ("src/engine/CMakeLists.txt", "slicecheck_room(engine KNOWS ${x} group SOURCES a.cpp)\n"),
    ],
}


def names(found):
    return "\n".join(found)


class TheTree(unittest.TestCase):
    def test_every_rule_holds(self):
        for rule in rules.RULES:
            with self.subTest(rule.__name__):
                self.assertFalse(found := list(rule(TREE)), "\n" + names(found))


class TheRules(unittest.TestCase):
    def test_each_has_something_planted(self):
        self.assertEqual({rule.__name__ for rule in rules.RULES}, set(FORBIDDEN))

    def test_what_is_forbidden_is_found(self):
        for name, each in FORBIDDEN.items():
            before = set(getattr(rules, name)(TREE))
            for path, text in each:
                with self.subTest(name, path=path, text=text[:60]):
                    after = set(getattr(rules, name)(TREE.planted(path, text)))
                    self.assertTrue(after - before, "planted and not found")

    def test_what_is_allowed_is_not_found(self):
        for name, each in ALLOWED.items():
            before = set(getattr(rules, name)(TREE))
            for path, text in each:
                with self.subTest(name, path=path):
                    after = set(getattr(rules, name)(TREE.planted(path, text)))
                    self.assertFalse(after - before)

    def test_a_golden_file_that_goes_is_missed(self):
        without = TREE.without("golden/digests.json")
        self.assertTrue(list(rules.golden_names_have_files(without)))


if __name__ == "__main__":
    sys.exit(unittest.main())
