"""A fresh cluster looked at: what is wrong with a rank's machine, with what a pair of ranks sends,
or with a checkpoint is named; what is well is not."""

import os
import shutil
import unittest
import unittest.mock

import program
from endings_test import Run, needs_open_mpi

CHECKPOINT = program.ROOT / "golden/checkpoints/tiny-modelopt"
OTHER_NCCL = os.environ.get("SLICECHECK_OTHER_NCCL", "")
SMOKE = ("cluster", "--level", "smoke")
HOST = (*SMOKE, "--transport", "mpi")
program.TIME_LIMIT = 120


class Cluster(program.ProgramTest):
    def check(self, ended, name):
        (found,) = [each for each in ended.report["checks"] if each["id"] == name]
        return found

    def assert_sound(self, ended):
        """Ranks may share processors here, which is a warning."""
        self.assert_ended(ended, 0, "passed")
        self.assertEqual([f for f in ended.report["findings"] if f["severity"] == "error"], [])

    def with_fault(self, run, fault, ranks=3):
        return run.launched(program.mpirun(ranks), fault, *HOST[1:], command="cluster")

    def apart(self, *ranks, more=""):
        """Each rank by a command line of its own, for a shell."""
        report = self._report()
        command = [program.MPIRUN, *program.FLAGS]
        for number, line in enumerate(ranks):
            line = f"{line} {program.PROGRAM} {' '.join(HOST)} {more} --report {report}"
            command += [":"] * (number > 0) + ["-n", "1", "sh", "-c", line]
        return program.launch(command, report, self.folder)

    def assert_found(self, ended, verdict, cause, ranks):
        self.assert_ended(ended, {"refused": 3, "failed": 1}[verdict], verdict)
        found = [each for each in ended.report["findings"] if each["severity"] == "error"]
        self.assertEqual([(each["cause"], each["ranks"]) for each in found], [(cause, ranks)])
        self.assertEqual(found[0]["side"], "machine")

    def test_a_sound_one_passes_at_any_number_of_ranks(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                ended = self.mpi(ranks, *HOST)
                self.assert_sound(ended)
                pairs = ranks * (ranks - 1) // 2
                self.assertEqual(self.check(ended, "host.bytes")["compared"], pairs * 12 << 20)
                # Within a host there is nothing to hold a link against.
                self.assertEqual(self.check(ended, "host.links")["status"], "skipped")
                for entry in ended.report["ranks"]:
                    row = entry["gb_per_s_host"].split()
                    self.assertEqual(row.pop(entry["rank"]), "-")
                    self.assertTrue(all(float(rate) > 0 for rate in row))

    def test_threads_pass_and_say_that_no_device_was_tried(self):
        ended = self.local(3, *SMOKE)
        self.assert_sound(ended)
        for name in ("devices", "devices.near", "devices.bytes", "devices.links"):
            self.assertEqual(self.check(ended, name)["status"], "skipped")
            self.assertIn("threads", self.check(ended, name)["text"])

    def test_bytes_that_change_are_named_with_the_pair(self):
        # The first exchange of payload is that of all ranks.
        for call, name in ((1, "host.exchange"), (12, "host.bytes")):
            with self.subTest(name=name):
                run = Run(self.folder, name)
                ended = self.with_fault(run, f"corrupt 2 host {call}")
                self.assertEqual(ended.code, 1, ended.stderr)
                self.assertEqual(self.check(ended, name)["differing"], 1)
                (finding,) = [f for f in ended.report["findings"] if f["severity"] == "error"]
                self.assertEqual(finding["cause"], "transport-corruption")
                self.assertIn(2, finding["ranks"])
                self.assertEqual(len(finding["ranks"]), 2)

    @needs_open_mpi
    def test_a_rank_that_is_lost_or_hangs_among_the_pairs_ends_the_run(self):
        sound = sorted(each["id"] for each in self.mpi(3, *HOST).report["checks"])
        for kind, code, cause in (("kill", 137, "rank-lost"), ("loop", 4, "rank-hung")):
            for phase in ("machines", "host"):
                with self.subTest(kind=kind, phase=phase):
                    run = Run(self.folder, kind + phase)
                    ended = self.with_fault(run, f"{kind} 2 {phase} 2")
                    self.assertEqual(ended.code, code, ended.stderr)
                    finding = ended.report["findings"][-1]
                    # On a busy machine another one may stand still between its calls too.
                    self.assertEqual(finding["cause"], cause)
                    self.assertIn(2, finding["ranks"])
                    ids = sorted(each["id"] for each in ended.report["checks"])
                    self.assertEqual(ids, sound)
                    self.assertEqual(run.left(), [])

    def test_a_limit_that_is_too_low_is_named_with_its_rank(self):
        # Lowered once MPI is up, which needs more for a moment; a sanitizer needs some later too.
        lower = "n=$(ls /proc/$PPID/fd | wc -l) && prlimit --pid $PPID --nofile=$((n + 6))"
        with unittest.mock.patch.dict(os.environ, SLICECHECK_FAULT_COMMAND=lower):
            ended = self.with_fault(Run(self.folder, "run"), "command 2 start 1", 8)
        self.assert_found(ended, "refused", "limits-too-low", [2])
        self.assertEqual(len(ended.own_lines()), 1)
        self.assertIn("8 ranks need 8 more", ended.own_lines()[0])

    @unittest.skipUnless(OTHER_NCCL, "a build with NCCL")
    def test_another_nccl_on_one_rank_is_named(self):
        ended = self.apart("", f"LD_PRELOAD={OTHER_NCCL}", "")
        self.assert_found(ended, "refused", "version-skew", [1])
        self.assertIn("but rank 1 2.18.5", ended.own_lines()[0])

    def test_without_a_device_nccl_is_refused_and_the_rest_is_told(self):
        if shutil.which("nvidia-smi") is not None:
            self.skipTest("this machine may have a device")
        ended = self.mpi(2, *SMOKE, "--transport", "nccl")
        self.assert_ended(ended, 3, "refused")
        self.assertEqual(self.check(ended, "host.bytes")["status"], "passed")

    def test_the_scales_of_a_checkpoint_are_audited_too(self):
        ended = self.mpi(2, *HOST, "--checkpoint", str(CHECKPOINT))
        alone = self.mpi(2, "audit", str(CHECKPOINT))
        self.assertEqual(ended.code, alone.code)
        self.assertEqual(self.check(ended, "checkpoint.same")["status"], "passed")
        ours = [f for f in ended.report["findings"] if f["side"] == "checkpoint"]
        self.assertEqual(ours, alone.report["findings"])
        due = [check for check in alone.report["checks"] if check["id"] != "transport"]
        self.assertEqual(ended.report["checks"][-len(due) :], due)

    def test_a_checkpoint_that_is_another_on_one_rank_is_named(self):
        for name in ("a", "b", "c"):
            shutil.copytree(CHECKPOINT, self.folder / name / "ckpt")
        (shard,) = list((self.folder / "b/ckpt").glob("*.safetensors"))[:1]
        with open(shard, "ab") as file:
            file.write(b"x")
        each = (f"cd {self.folder / name} && exec" for name in ("a", "b", "c"))
        ended = self.apart(*each, more="--checkpoint ckpt")
        self.assert_found(ended, "refused", "shape-differs-across-ranks", [1])

    def test_a_checkpoint_that_is_none_is_unusable(self):
        ended = self.mpi(2, *HOST, "--checkpoint", str(self.folder / "none"))
        self.assert_ended(ended, 2, "unusable")
        self.assertEqual(len(ended.own_lines()), 1)
        self.assertEqual(self.check(ended, "host.bytes")["status"], "passed")
        self.assertEqual(self.check(ended, "checkpoint.same")["status"], "skipped")


class WorldOfOne(program.ProgramTest):
    @needs_open_mpi
    def test_a_rank_of_another_mpis_launcher_is_refused(self):
        # What such a launcher leaves in the environment of each rank.
        environment = ("env", "PMI_SIZE=2", "PMI_RANK=1")
        for command in ("reshard", "cluster", "properties"):
            report = self._report()
            line = [*environment, program.PROGRAM, command, "--report", str(report)]
            ended = program.launch(line, report)
            self.assert_ended(ended, 3, "refused")
            (finding,) = ended.report["findings"]
            self.assertEqual((finding["cause"], finding["side"]), ("world-of-one", "machine"))
            self.assertIn("PMI has started 2 ranks", finding["text"])


if __name__ == "__main__":
    program.main()
