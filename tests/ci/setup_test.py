"""ci/setup: what it says, what it asks of apt, and when it asks for nothing."""

import os
import sys
import unittest

from scripts import ScriptTest, packages

INSTALLED_ARE_THE_REST = 'for last; do :; done; [ "$last" = {0} ] && exit 1; echo installed'


class Setup(ScriptTest):
    def setUp(self):
        super().setUp()
        self.program("apt-get", "echo apt-get speaks")

    def test_without_root_it_prints_one_line_for_an_administrator_and_exits_2(self):
        self.program("dpkg-query", "exit 1")
        ended = self.run_script("ci/setup", nobody=True)
        self.assertEqual(ended.returncode, 2, ended.stderr)
        missing = " ".join(packages("test"))
        self.assertEqual(ended.stdout, f"ci/setup: missing: {missing}\n")
        self.assertEqual(
            ended.stderr.splitlines()[1:],
            [f"apt-get update && apt-get install -y --no-install-recommends {missing}"])
        self.assertEqual(self.called("apt-get"), [])

    def test_where_nothing_is_missing_it_needs_no_root_and_asks_apt_for_nothing(self):
        self.packages_installed()
        ended = self.run_script("ci/setup", "--full", nobody=True)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(ended.stdout, "ci/setup: nothing is missing\n")
        self.assertEqual(self.called("apt-get"), [])

    def test_as_root_it_prints_the_list_first_and_installs_what_is_missing_alone(self):
        self.program("id", "echo 0")
        self.program("dpkg-query", INSTALLED_ARE_THE_REST.format("ninja-build"))
        ended = self.run_script("ci/setup")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(ended.stdout.splitlines()[:2],
                         ["ci/setup: missing: ninja-build", "apt-get speaks"])
        self.assertEqual(self.called("apt-get"), [
            "apt-get -q update",
            "apt-get -q install -y --no-install-recommends ninja-build"])

    def test_a_removed_package_whose_settings_stay_is_missing(self):
        self.packages_installed("config-files")
        ended = self.run_script("ci/setup", nobody=True)
        self.assertEqual(ended.returncode, 2)

    def test_full_asks_for_both_lists(self):
        self.program("dpkg-query", "exit 1")
        ended = self.run_script("ci/setup", "--full", nobody=True)
        both = packages("test") + packages("full")
        self.assertEqual(len(both), len(set(both)))
        self.assertEqual(ended.stdout.split()[2:], both)

    def test_an_install_that_fails_fails_it(self):
        self.program("id", "echo 0")
        self.program("dpkg-query", "exit 1")
        self.program("apt-get", '[ "$2" = update ] || exit 100')
        self.assertEqual(self.run_script("ci/setup").returncode, 100)

    def test_on_another_system_it_names_what_is_needed(self):
        for name in ("dirname", "sed", "id", "grep"):
            found = next(each for each in ("/usr/bin/", "/bin/") if os.path.exists(each + name))
            os.symlink(found + name, os.path.join(self.programs, name))
        ended = self.run_script("ci/setup", path=self.programs)
        self.assertEqual(ended.returncode, 2, ended.stderr)
        self.assertTrue(set(packages("test")) <= set(ended.stderr.split()), ended.stderr)

    def test_another_argument_is_a_usage_error(self):
        self.packages_installed()
        self.assertEqual(self.run_script("ci/setup", "--ful").returncode, 2)


if __name__ == "__main__":
    sys.exit(unittest.main())
