"""The program on GPUs: the bytes of the other transports, and what a machine that cannot be used is
told. On fewer GPUs than ranks the ranks share them. Without a device nothing runs: 77."""

import filecmp
import shutil
import subprocess
import sys

import program

NCCL = ("--transport", "nccl")


def devices():
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return sum(line.startswith("GPU") for line in listed.stdout.splitlines())


class Gpu(program.ProgramTest):
    def nccl(self, ranks, *arguments):
        share = ("--share-gpu",) if ranks > devices() else ()
        return self.mpi(ranks, *arguments, *NCCL, *share)

    def test_every_byte_of_every_payload_is_right(self):
        for ranks in (2, 3, 4, 8):
            for payload in ("bytes", "numeric", "exact"):
                with self.subTest(ranks=ranks, payload=payload):
                    ended = self.nccl(ranks, "reshard", "--payload", payload, "--probe", "none")
                    self.assertEqual(ended.code, 0, ended.stderr)
                    self.assertEqual(ended.report["case"]["transport"], "nccl")
                    for entry in ended.report["ranks"]:
                        self.assertNotEqual(entry["device"], "")

    def test_groups_of_two_within_four_ranks(self):
        ended = self.nccl(4, "reshard", "--tp", "2", "--probe", "none")
        self.assertEqual(ended.code, 0, ended.stderr)
        self.assertEqual({check["group"] for check in ended.report["checks"]}, {0, 1})

    def test_dumps_are_those_of_mpi_and_of_threads(self):
        dumps = {name: self.folder / name for name in ("nccl", "mpi", "local")}
        one = ("reshard", "--probe", "none", "--dump")
        self.assertEqual(self.nccl(2, *one, str(dumps["nccl"])).code, 0)
        self.assertEqual(self.mpi(2, *one, str(dumps["mpi"])).code, 0)
        self.assertEqual(self.local(2, *one, str(dumps["local"])).code, 0)
        names = sorted(path.name for path in dumps["nccl"].iterdir())
        self.assertGreater(len(names), 4)
        for other in ("mpi", "local"):
            same, differing, absent = filecmp.cmpfiles(
                dumps["nccl"], dumps[other], names, shallow=False
            )
            self.assertEqual((same, differing, absent), (names, [], []))

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

    def test_the_bench_keeps_to_one_packed_tensor(self):
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


if __name__ == "__main__":
    if devices() == 0:
        print("not run: this machine has no device")
        sys.exit(77)
    program.main()
