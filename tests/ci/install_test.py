"""cmake --install puts the program in place, where it needs nothing but libc, libstdc++ and what
was built in; and the tree configures from a tarball, without .git, in any folder."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["SLICECHECK_SOURCE_DIR"]
BUILD = os.environ["SLICECHECK_BUILD_DIR"]
NEEDED = re.compile(
    r"(lib(c|m|stdc\+\+|gcc_s|pthread|dl|rt)\.so(\.\d+)?|ld-linux.*"  # the system's
    r"|libmpi(ch|_cxx)?\.so\.\d+|libcudart\.so\.\d+|libnccl\.so\.\d+"  # built in where found
    r"|lib(asan|ubsan|tsan)\.so\.\d+)")  # under their presets


def run(*command, **options):
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=100, check=False,
                           **options)
    if ended.returncode:
        raise AssertionError(f"{command} ended with {ended.returncode}:\n{ended.stdout}")
    return ended.stdout


class FolderTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="slicecheck install ")
        self.addCleanup(shutil.rmtree, self.folder)


class Install(FolderTest):
    def setUp(self):
        super().setUp()
        run("cmake", "--install", BUILD, "--prefix", self.folder)
        self.program = os.path.join(self.folder, "bin/slicecheck")

    def test_the_installed_program_runs(self):
        self.assertIn("reshard", run(self.program, "--help", cwd="/"))
        self.assertRegex(run(self.program, "--version", cwd="/"), r"\d+\.\d+\.\d+")

    def test_it_needs_no_library_but_the_system_s_and_what_is_built_in(self):
        dynamic = run("readelf", "--dynamic", "--wide", self.program)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        self.assertIn("libc.so.6", needed)
        self.assertEqual([each for each in needed if not NEEDED.fullmatch(each)], [])
        self.assertNotRegex(dynamic, r"\((RPATH|RUNPATH)\).*" + re.escape(BUILD))

    def test_the_schema_of_its_reports_lies_beside_it(self):
        schema = "share/slicecheck/slicecheck-report-1.schema.json"
        self.assertTrue(os.path.exists(os.path.join(self.folder, schema)))


class Tarball(FolderTest):
    def test_a_copy_without_git_configures(self):
        tree = os.path.join(self.folder, "tree")
        shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns(".git", "build*", ".deps"))
        run("cmake", "--preset", "release", cwd=tree)
        self.assertTrue(os.path.exists(os.path.join(tree, "build/release/build.ninja")))


if __name__ == "__main__":
    sys.exit(unittest.main())
