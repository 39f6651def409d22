"""The program on GPUs: the bytes of the other transports, and what a machine that cannot be used is
told. On fewer GPUs than ranks the ranks share them. Without a device nothing runs: 77."""

import filecmp
import os
import shutil
import subprocess
import sys
import time

import program

FAULTY = os.environ.get("SLICECHECK_FAULTY_PROGRAM", "")
# Beside the limit: start-up of CUDA and NCCL, and two seconds to see it.
SLACK = 30
OTHER_NCCL = os.environ.get("SLICECHECK_OTHER_NCCL", "")
NCCL = ("--transport", "nccl")


def devices():
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return sum(line.startswith("GPU") for line in listed.stdout.splitlines())


def memory_bytes():
    """Of the device that has least."""
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    listed = subprocess.run(query, capture_output=True, text=True, check=True)
    return min(int(line) for line in listed.stdout.split()) << 20


class Gpu(program.ProgramTest):
    def nccl(self, ranks, *arguments):
        share = ("--share-gpu",) if ranks > devices() else ()
        return self.mpi(ranks, *arguments, *NCCL, *share)

    def test_every_byte_of_every_payload_is_right(self):
        tried = [(payload, "collective") for payload in ("bytes", "numeric", "exact")]
        for ranks in (2, 3, 4, 8):
            for payload, engine in [*tried, ("numeric", "streamed")]:
                with self.subTest(ranks=ranks, payload=payload, engine=engine):
                    given = ("--payload", payload, "--engine", engine, "--probe", "none")
                    ended = self.nccl(ranks, "reshard", *given)
                    self.assertEqual(ended.code, 0, ended.stderr)
                    self.assertEqual(ended.report["case"]["transport"], "nccl")
                    for entry in ended.report["ranks"]:
                        self.assertNotEqual(entry["device"], "")

    def test_the_report_has_the_drivers_version(self):
        ended = self.nccl(2, "reshard", "--probe", "none")
        self.assertRegex(ended.report["run"]["versions"]["cuda_driver"], r"^\d+\.\d+$")

    def test_both_probes_pass_on_what_the_devices_made(self):
        for payload, engine in (("bytes", "streamed"), ("numeric", "collective")):
            with self.subTest(payload=payload, engine=engine):
                given = ("--payload", payload, "--engine", engine, "--probe", "both")
                ended = self.nccl(2, "reshard", *given)
                self.assertEqual(ended.code, 0, ended.stderr)
                self.assertEqual(
                    {probe["kind"] for probe in ended.report["probes"]}, {"random", "exact"}
                )
                self.assertFalse(
                    [c for c in ended.report["checks"] if c["status"] not in ("passed", "skipped")]
                )

    def test_a_kernel_fault_on_one_rank_ends_all_and_names_it(self):
        share = ("--share-gpu",) if devices() < 3 else ()
        ended = self.mpi(
            3,
            "reshard",
            *NCCL,
            *share,
            "--probe",
            "none",
            "--engine",
            "device-fault",
            program=program.WRONG,
        )
        self.assertIn(ended.code, (4, 5), ended.stderr)
        self.assertRegex(ended.stderr, r"rank 1: .* failed on the device: .*illegal memory access")
        self.assertNotEqual(ended.report["verdict"], "passed")

    def test_a_rank_that_stops_or_dies_within_the_reshard_is_left_in_time_and_named(self):
        ranks = max(2, min(4, devices()))
        share = ("--share-gpu",) if ranks > devices() else ()
        limit = 8
        for kind, code, cause in (("stop", 4, "rank-hung"), ("kill", 137, "rank-lost")):
            for call in (1, 8):
                with self.subTest(kind=kind, call=call):
                    report = self._report()
                    command = ["env", f"SLICECHECK_FAULT={kind} 1 reshard {call}", program.MPIRUN]
                    command += [*program.FLAGS, "-n", str(ranks), FAULTY, "reshard", *NCCL, *share]
                    command += ["--probe", "none", "--timeout", str(limit)]
                    start = time.monotonic()
                    ended = program.launch([*command, "--report", str(report)], report)
                    self.assertLess(time.monotonic() - start, limit + SLACK)
                    self.assertEqual(ended.code, code, ended.stderr)
                    self.assertEqual(ended.report["verdict"], "hung")
                    found = [f for f in ended.report["findings"] if f["cause"] == cause]
                    self.assertEqual([f["ranks"] for f in found], [[1]])

    def test_a_rank_that_stops_or_dies_between_two_exchanges_leaves_no_other_within_nccl(self):
        share = ("--share-gpu",) if devices() < 2 else ()
        limit = 6
        for kind, code, cause in (("stopped", 4, "rank-hung"), ("killed", 137, "rank-lost")):
            for engine in ("collective", "streamed"):
                with self.subTest(kind=kind, engine=engine):
                    rest = ("reshard", *NCCL, *share, "--engine", f"{kind}-{engine}")
                    rest += ("--probe", "none", "--timeout", str(limit))
                    start = time.monotonic()
                    ended = self.mpi(2, *rest, program=program.WRONG)
                    self.assertLess(time.monotonic() - start, limit + SLACK)
                    self.assertEqual(ended.code, code, ended.stderr)
                    self.assertEqual(ended.report["verdict"], "hung")
                    found = [f for f in ended.report["findings"] if f["cause"] == cause]
                    self.assertEqual([f["ranks"] for f in found], [[1]])

    def test_groups_of_two_within_four_ranks(self):
        ended = self.nccl(4, "reshard", "--tp", "2", "--probe", "none")
        self.assertEqual(ended.code, 0, ended.stderr)
        self.assertEqual({check["group"] for check in ended.report["checks"]}, {0, 1})

    def test_dumps_are_those_of_mpi_and_of_threads(self):
        dumps = {name: self.folder / name for name in ("nccl", "streamed", "mpi", "local")}
        one = ("reshard", "--probe", "none", "--dump")
        self.assertEqual(self.nccl(2, *one, str(dumps["nccl"])).code, 0)
        made = self.nccl(2, *one, str(dumps["streamed"]), "--engine", "streamed")
        self.assertEqual(made.code, 0)
        self.assertEqual(self.mpi(2, *one, str(dumps["mpi"])).code, 0)
        self.assertEqual(self.local(2, *one, str(dumps["local"])).code, 0)
        names = sorted(path.name for path in dumps["nccl"].iterdir())
        self.assertGreater(len(names), 4)
        for other in ("streamed", "mpi", "local"):
            # The manifest names the engine.
            due = [name for name in names if other != "streamed" or name != "manifest.json"]
            same, differing, absent = filecmp.cmpfiles(
                dumps["nccl"], dumps[other], due, shallow=False
            )
            self.assertEqual((same, differing, absent), (due, [], []))

    def test_more_ranks_than_gpus_are_refused(self):
        ended = self.mpi(devices() + 1, "reshard", *NCCL, "--probe", "none")
        self.assertEqual(ended.code, 3, ended.stderr)
        cause = "duplicate-gpu" if devices() == 1 else "no-device"
        self.assertEqual([finding["cause"] for finding in ended.report["findings"]], [cause])

    def test_a_layer_that_no_device_holds_is_refused_with_purpose_and_bytes(self):
        ended = self.nccl(
            2,
            "reshard",
            "--probe",
            "none",
            "--experts",
            "65536",
            "--hidden",
            "8192",
            "--intermediate",
            "8192",
        )
        self.assertEqual(ended.code, 3, ended.stderr)
        finding = ended.report["findings"][0]
        self.assertEqual(finding["cause"], "out-of-memory")
        self.assertRegex(finding["text"], r"stock w13 wants \d+ bytes, \d+ bytes are free")

    def test_memory_that_is_out_at_the_result_or_the_packed_tensor_is_refused_by_name(self):
        hidden, intermediate = 8192, 8192
        expert = 3 * hidden * intermediate // 2 * 9 // 8
        ranks_a_device = 2 if devices() < 2 else 1
        for share_of_memory, engine, purpose in (
            (0.7, "collective", "tp w13"),
            (0.45, "collective", "the packed w13"),
            (0.45, "streamed", "the packed experts"),
        ):
            with self.subTest(purpose=purpose):
                held = int(share_of_memory * memory_bytes() / ranks_a_device / expert)
                ended = self.nccl(
                    2,
                    *("reshard", "--probe", "none", "--experts", str(2 * held)),
                    *("--hidden", str(hidden), "--intermediate", str(intermediate)),
                    *("--engine", engine),
                )
                self.assert_ended(ended, 3, "refused")
                finding = ended.report["findings"][0]
                self.assertEqual(finding["cause"], "out-of-memory")
                self.assertRegex(finding["text"], purpose + r" wants \d+ bytes, \d+ bytes are free")

    def test_another_nccl_on_one_rank_is_refused_and_both_versions_are_named(self):
        share = ("--share-gpu",) if devices() < 3 else ()
        rest = ("reshard", *NCCL, *share, "--probe", "none")
        report = self._report()
        command = [program.MPIRUN, *program.FLAGS, "-n", "2", program.PROGRAM, *rest]
        command += ["--report", str(report), ":", "-n", "1", "env", f"LD_PRELOAD={OTHER_NCCL}"]
        command += [program.PROGRAM, *rest, "--report", str(report)]
        ended = program.launch(command, report)
        self.assert_ended(ended, 3, "refused")
        [finding] = ended.report["findings"]
        self.assertEqual(finding["cause"], "version-skew")
        self.assertIn("but rank 2 has 2.18.5", finding["text"])

    def test_a_cluster_tries_the_devices_too(self):
        share = ("--share-gpu",) if devices() < 2 else ()
        ended = self.mpi(2, "cluster", "--level", "smoke", *share)
        self.assert_ended(ended, 0, "passed")
        status = {check["id"]: check["status"] for check in ended.report["checks"]}
        for name in ("devices", "devices.exchange", "devices.bytes"):
            self.assertEqual(status[name], "passed", name)
        for entry in ended.report["ranks"]:
            self.assertNotEqual(entry["device"], "")
            self.assertEqual(entry["gb_per_s_devices"].split()[entry["rank"]], "-")

    def test_a_cluster_of_more_ranks_than_devices_is_refused_and_the_rest_is_told(self):
        ended = self.mpi(devices() + 1, "cluster", "--level", "smoke")
        self.assert_ended(ended, 3, "refused")
        causes = {f["cause"] for f in ended.report["findings"] if f["severity"] == "error"}
        self.assertEqual(causes, {"duplicate-gpu" if devices() == 1 else "no-device"})
        status = {check["id"]: check["status"] for check in ended.report["checks"]}
        self.assertEqual(status["host.bytes"], "passed")
        self.assertEqual(status["devices"], "failed")
        self.assertEqual(status["devices.links"], "skipped")

    def test_the_bench_keeps_to_the_packed_tensors(self):
        ended = self.nccl(
            2,
            "bench",
            "--level",
            "smoke",
            "--experts",
            "8",
            "--hidden",
            "1024",
            "--intermediate",
            "1024",
        )
        self.assertEqual(ended.code, 0, ended.stderr)
        memory = next(c for c in ended.report["checks"] if c["id"] == "bench.memory")["figures"]
        self.assertLessEqual(memory["transient_bytes"], memory["largest_kind_bytes"] + (1 << 20))
        # w2 is half of w13, and the scales an eighth of both.
        packed = memory["largest_kind_bytes"] * 27 // 16
        self.assertLessEqual(memory["streamed_transient_bytes"], packed + (1 << 20))
        self.assertGreaterEqual(memory["streamed_transient_bytes"], packed)


if __name__ == "__main__":
    if os.environ.get("SLICECHECK_NCCL") in ("OFF", "FALSE", "0", ""):
        print("not run: this build has no NCCL")
        sys.exit(77)
    if devices() == 0:
        print("not run: this machine has no device")
        sys.exit(77)
    program.main()
