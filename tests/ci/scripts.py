"""A copy of the scripts in a folder that anyone may read, with programs of the test's own in front
of the system's: what a script runs is what it would have done to the machine."""

import os
import pwd
import shutil
import subprocess
import tempfile
import unittest

SOURCE = os.environ["SLICECHECK_SOURCE_DIR"]
TIME_LIMIT = 100


class ScriptTest(unittest.TestCase):
    def setUp(self):
        # A path with a space: a script must quote its own place.
        self.folder = tempfile.mkdtemp(prefix="slicecheck ci ")
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o777)
        self.root = os.path.join(self.folder, "tree")
        self.programs = os.path.join(self.folder, "programs")
        self.calls = os.path.join(self.folder, "calls")
        os.mkdir(self.programs)
        open(self.calls, "w", encoding="utf-8").close()
        os.chmod(self.calls, 0o666)
        for name in ("ci", ".ci", "CMakePresets.json"):
            source = os.path.join(SOURCE, name)
            copy = shutil.copytree if os.path.isdir(source) else shutil.copy
            copy(source, os.path.join(self.root, name))

    def program(self, name, body):
        """A program that notes its call and then does `body`."""
        path = os.path.join(self.programs, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\necho "{name} $*" >> "{self.calls}"\n{body}\n')
        os.chmod(path, 0o755)

    def packages_installed(self, status="installed"):
        self.program("dpkg-query", f"echo {status}")

    def called(self, name):
        with open(self.calls, encoding="utf-8") as file:
            return [line.rstrip("\n") for line in file if line.startswith(name + " ")]

    def run_script(self, script, *arguments, nobody=False, path=None, **variables):
        environment = {"PATH": path or self.programs + ":/usr/bin:/bin", "HOME": self.folder,
                       **variables}
        return subprocess.run(
            [os.path.join(self.root, script), *arguments], env=environment, cwd="/",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=TIME_LIMIT, check=False,
            user=pwd.getpwnam("nobody").pw_uid if nobody and os.geteuid() == 0 else None)


def packages(purpose):
    with open(os.path.join(SOURCE, "ci/packages", purpose), encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]
