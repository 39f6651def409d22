"""A run always ends, in time, with the right code and a report that tells the truth: a fault at a
call of a phase on a rank, over mpirun and over threads; and what its streams and files may do."""

import concurrent.futures
import contextlib
import functools
import glob
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import program

FAULTY = os.environ.get("SLICECHECK_FAULTY_PROGRAM", "")
# What a launcher makes of lost ranks is its own. MPICH's kills the others at once: they have no
# time to report, and the journals have the truth.
OPEN_MPI = program.codes_are_known()
needs_open_mpi = unittest.skipUnless(OPEN_MPI, "codes and options of Open MPI's launcher")
# ci/test --full asks for more cases of everything: here it runs all of them.
FULL = "SLICECHECK_CASES" in os.environ
STACKS = os.environ.get("SLICECHECK_BACKWARD", "") == "ON"
PHASES = ("start", "stock", "reshard", "verify", "probe", "report")
# Beside the limit: the launch itself, two seconds to see it, and a machine that does other things.
SLACK = 30
program.TIME_LIMIT = 150
AT_ONCE = 3 if OPEN_MPI else 1  # MPICH's ranks spin

# How each fault ends over MPI: verdicts, the launcher's codes, cause of the finding.
ENDS = {
    "throw": ({"error"}, {5}, "rank-failed"),
    "bad_alloc": ({"error"}, {5}, "rank-failed"),
    # The others are left in a call that it does not come to, or meet it in one of another size.
    "return": ({"error", "hung"}, {1, 4, 5, 134}, None),
    "exit0": ({"hung"}, {1, 4}, "rank-lost"),
    "loop": ({"hung"}, {4}, "rank-hung"),
    "stop": ({"hung"}, {4}, "rank-hung"),
    "kill": ({"hung"}, {137}, "rank-lost"),
    "corrupt": ({"failed"}, {1}, "transport-corruption"),
    "truncate": ({"failed"}, {1}, "transport-corruption"),
}
# Those that only the limit ends; a rank of MPICH's that leaves with 0 is one of them.
WAITED_FOR = ("return", "loop", "stop") if OPEN_MPI else ("return", "loop", "stop", "exit0")
# Damage to payload only where payload moves; half of a probe's message may be zeros anyway.
DAMAGE = {"corrupt": ("reshard", "probe"), "truncate": ("reshard",)}


def sample():
    """(ranks, kind, rank, phase): each fault in each phase on a rank by seed, 60 in all; at the
    full level every rank of 2, 3 and 4; under another launcher than Open MPI's each fault once."""
    pairs = [(kind, phase) for kind in ENDS for phase in DAMAGE.get(kind, PHASES)]
    if FULL:
        return [
            (ranks, kind, rank, phase)
            for kind, phase in pairs
            for ranks in (2, 3, 4)
            for rank in range(ranks)
        ]
    chosen = random.Random(8)
    if not OPEN_MPI:
        pairs = [chosen.choice([pair for pair in pairs if pair[0] == kind]) for kind in ENDS]
        return [(3, kind, chosen.randrange(3), phase) for kind, phase in pairs]
    pairs += chosen.sample(pairs, 60 - len(pairs))
    made = []
    for kind, phase in pairs:
        ranks = chosen.choice((2, 3, 4))
        made.append((ranks, kind, chosen.randrange(ranks), phase))
    return made


def living(mark):
    """Processes whose command line has this mark."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, encoding="utf-8", errors="replace") as line:
                if mark in line.read():
                    found.append(path)
        except OSError:
            pass
    return found


@functools.cache
def limit_seconds():
    """For --timeout: start-up counts, so a launch must fit in it on a machine that does other
    things too."""
    with tempfile.TemporaryDirectory(prefix="slicecheck-test-") as folder:
        start = time.monotonic()
        Run(pathlib.Path(folder), "healthy").mpi(4, "", "--timeout", "60")
        return round(2 + AT_ONCE * (time.monotonic() - start), 1)


def limit(kind):
    """Arguments: no fault that ends by itself comes near its limit, however slow the disk that
    takes the report."""
    return () if kind in WAITED_FOR else ("--timeout", "60")


def listening(process):
    """Where this process listens: (address, port)."""
    own = set()
    for entry in glob.glob(f"/proc/{process}/fd/*"):
        with contextlib.suppress(OSError):
            own.add(os.readlink(entry))
    made = []
    with open("/proc/net/tcp", encoding="utf-8") as table:
        for line in table.read().splitlines()[1:]:
            words = line.split()
            address, port = words[1].split(":")
            if words[3] == "0A" and f"socket:[{words[9]}]" in own:
                octets = bytes.fromhex(address)[::-1]
                made.append((".".join(str(each) for each in octets), int(port, 16)))
    return made


def ranks_of(run):
    """The processes of a run's ranks."""
    made = []
    for path in living(str(run.report)):
        with contextlib.suppress(OSError), open(path, "rb") as line:
            if line.read().startswith(FAULTY.encode() + b"\0"):
                made.append(int(path.split("/")[2]))
    return made


def hostile(chosen):
    """What a stranger may say."""
    return chosen.choice(
        (
            b"",
            b"\n",
            b"\x04\n" * 10,
            b"0" * 32 + b" ended 0\n",
            b"x" * 100000,
            chosen.randbytes(chosen.randrange(5000)),
        )
    )


class Run:
    """A run of the program with a fault, in a folder of its own."""

    def __init__(self, folder, name):
        self.folder = folder / name
        self.folder.mkdir()
        self.temporary = self.folder / "t"
        self.temporary.mkdir()
        self.report = self.folder / "report.json"

    def launched(self, launcher, fault, *arguments, command="reshard"):
        timeout = () if "--timeout" in arguments else ("--timeout", str(limit_seconds()))
        return program.launch(
            ["env", f"SLICECHECK_FAULT={fault}", f"TMPDIR={self.temporary}", *launcher, FAULTY]
            + [command, *timeout, "--report", str(self.report), *arguments],
            self.report,
        )

    def mpi(self, ranks, fault, *arguments, flags=()):
        return self.launched(program.mpirun(ranks, *flags), fault, *arguments)

    def local(self, ranks, fault, *arguments):
        return self.launched([], fault, "--transport", "local", "--ranks", str(ranks), *arguments)

    def left(self):
        """What is left of it: processes (mpirun may end a moment before the last rank that it
        killed), and temporary files."""
        end = time.monotonic() + 5
        while living(str(self.report)) and time.monotonic() < end:
            time.sleep(0.05)
        files = list(self.temporary.glob("slicecheck*")) + list(self.folder.glob("*.part"))
        return living(str(self.report)) + [str(file) for file in files]


def merged(folder, report, *arguments):
    """What a dead run's journals say."""
    return program.launch(
        [program.PROGRAM, "report", "--from-journals", str(folder), "--report", str(report)]
        + list(arguments),
        report,
    )


class Endings(program.ProgramTest):
    def run_of(self, name="run"):
        return Run(self.folder, name)

    def assert_told(self, ended, due, rank):
        verdicts, codes, cause = due
        said = f"exit {ended.code}\n{ended.stdout}\n{ended.stderr}\n{ended.report}"
        self.assert_code(ended, codes)
        self.assertIsNotNone(ended.report, said)
        self.assertIn(ended.report["verdict"], verdicts, said)
        if cause:
            found = [f for f in ended.report["findings"] if f["cause"] == cause]
            self.assertTrue(found, said)
            self.assertIn(rank, found[0]["ranks"], said)

    def check_fault(self, number, fault):
        ranks, kind, rank, phase = fault
        run = self.run_of(f"f{number}")
        start = time.monotonic()
        ended = run.mpi(ranks, f"{kind} {rank} {phase} 1", *limit(kind))
        seconds = time.monotonic() - start
        self.assertLess(seconds, limit_seconds() + SLACK)
        if not OPEN_MPI and ended.report is None:
            self.assert_left_in_journals(run, ended, kind)
            return
        self.assert_told(ended, ENDS[kind], rank)
        self.assertEqual(run.left(), [])

    def assert_left_in_journals(self, run, ended, kind):
        self.assertIn(kind, ("kill", "exit0"), ended.stderr)
        # Now and then it returns 0 where a rank has left with 0: scripts ask the report.
        if kind == "kill":
            self.assertNotEqual(ended.code, 0)
        asked = program.ran([program.PROGRAM, "report", "--exit-code", str(run.report)])
        self.assertEqual(asked.returncode, 2)
        (folder,) = run.temporary.glob("slicecheck-journals-*")
        self.assert_ended(merged(folder, self._report(), "--exit-code"), 4, "hung")
        shutil.rmtree(folder)
        self.assertEqual(run.left(), [])

    def test_every_fault_ends_the_run_over_mpirun_with_the_truth(self):
        limit_seconds()  # while nothing else runs
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            tried = [
                (fault, pool.submit(self.check_fault, number, fault))
                for number, fault in enumerate(sample())
            ]
            for fault, result in tried:
                with self.subTest(fault=fault):
                    result.result()

    def test_threads_end_alike(self):
        for kind in ("throw", "bad_alloc", "loop", "corrupt", "truncate"):
            for phase in DAMAGE.get(kind, ("start", "reshard", "report")):
                with self.subTest(kind=kind, phase=phase):
                    run = self.run_of(f"{kind}-{phase}")
                    ended = run.local(3, f"{kind} 1 {phase} 1", *limit(kind))
                    self.assert_told(ended, ENDS[kind], 1)
                    self.assertEqual(run.left(), [])

    def test_a_rank_that_works_while_the_others_wait_is_no_fault(self):
        # Longer than the limit in all, not in a step; a step may be 64 MiB of a file.
        for kind in ("work", "write"):
            ended = self.run_of(kind).mpi(3, f"{kind} 1 reshard 2", "--timeout", "4")
            self.assert_ended(ended, 0, "passed")
            timings = {each["phase"]: each["seconds"] for each in ended.report["run"]["timings"]}
            self.assertGreater(timings["reshard"], 5)

    @needs_open_mpi
    def test_what_did_not_run_is_marked(self):
        ended = self.run_of().mpi(3, "kill 1 reshard 1")
        status = {check["id"]: check["status"] for check in ended.report["checks"]}
        self.assertEqual(status["shape"], "passed")
        self.assertEqual(status["bytes.w13"], "not-run")
        self.assertEqual(status["scalars.g2_alphas"], "not-run")
        told = {entry["rank"]: entry for entry in ended.report["ranks"]}
        self.assertEqual(told[1]["outcome"], "gone")
        self.assertEqual(told[0]["phase"], "reshard")
        self.assertIn("in phase reshard", ended.report["findings"][0]["text"])

    def test_what_was_found_before_a_hang_stands_beside_it(self):
        ended = self.run_of().mpi(3, "hang-after-damage 1 reshard 8")
        self.assert_code(ended, {4})
        self.assertEqual(ended.report["verdict"], "hung")
        causes = [finding["cause"] for finding in ended.report["findings"]]
        self.assertEqual(causes[-1], "rank-hung")
        self.assertGreater(len(causes), 1)
        self.assertIn("no rank has made progress", ended.own_lines()[0])

    def test_the_report_says_in_what_a_stuck_rank_is(self):
        for name, launch in (("mpi", Run.mpi), ("local", Run.local)):
            ended = launch(self.run_of(name), 2, "loop 1 reshard 1")
            self.assert_code(ended, {4})
            stacks = [entry.get("stack", "") for entry in ended.report["ranks"]]
            if not STACKS:
                self.assertEqual(stacks, ["", ""])
                continue
            # Of a place that has no name the file is known.
            self.assertIn("slicecheck", stacks[1])
            self.assertIn(f", in {stacks[1].split(' < ')[0]}", ended.report["findings"][0]["text"])
            self.assertIn("MPI_" if name == "mpi" else "slicecheck", stacks[0])

    def test_a_deadline_ends_a_run_that_moves_on(self):
        run = self.run_of()
        ended = run.mpi(2, "none 0 start 1", "--repeat", "1000000", "--deadline", "4")
        self.assertEqual(run.left(), [])
        self.assert_code(ended, {4})
        self.assertIn("deadline of 4 s", ended.report["findings"][0]["text"])

    def test_a_signal_ends_the_run_with_a_report(self):
        rounds = ("--repeat", "1000000", "--timeout", "60")
        for name, launch in (("mpi", Run.mpi), ("local", Run.local)):
            # A library of MPICH's, UCX, has taken the hangup.
            for kind in ("term", "int", "hup") if OPEN_MPI else ("term", "int"):
                with self.subTest(name=name, kind=kind):
                    run = self.run_of(f"{name}-{kind}")
                    ended = launch(run, 3, f"{kind} 1 reshard 1", *rounds)
                    self.assert_told(ended, ({"hung"}, {4}, None), 1)
                    checks = {check["id"]: check for check in ended.report["checks"]}
                    self.assertIn("a signal ended the run", checks["ended"]["text"])
                    self.assertEqual(ended.report["findings"], [])
                    self.assertEqual(run.left(), [])

    def test_a_run_that_is_to_outlive_its_terminal_does(self):
        run = self.run_of()
        local = ("--transport", "local", "--ranks", "3")
        ended = run.launched(["nohup"], "hup 1 reshard 1", *local)
        self.assert_ended(ended, 0, "passed")
        ended = run.launched(["nohup"], "term 1 reshard 1", *local, "--repeat", "1000000")
        self.assert_told(ended, ({"hung"}, {4}, None), 1)

    @needs_open_mpi
    def test_without_a_side_channel_rank_0_still_reports(self):
        # Which rank it is can be told by the one that reports, of itself alone.
        for rank, ranks in ((1, []), (0, [0])):
            run = self.run_of(f"run{rank}")
            ended = run.mpi(2, f"loop {rank} stock 1", "--side-channel", "off")
            self.assertEqual(ended.code, 4, ended.stderr)
            self.assertEqual(ended.report["verdict"], "hung")
            (finding,) = ended.report["findings"]
            self.assertEqual((finding["cause"], finding["ranks"]), ("rank-hung", ranks))
            self.assertEqual(ended.report["case"]["experts"], 4)

    @needs_open_mpi
    def test_ranks_listen_on_loopback_and_not_at_all_where_they_do_not_talk(self):
        # The transport's own sockets stay away; a rank lasts long enough to be looked at.
        fault, flags = "work 1 reshard 2", ("--mca", "btl", "self,vader")
        off = ("--side-channel", "off")
        for due, launch in (
            (["127.0.0.1"], lambda run: run.mpi(2, fault, "--timeout", "60", flags=flags)),
            ([], lambda run: run.mpi(2, fault, "--timeout", "60", *off, flags=flags)),
            ([], lambda run: run.local(2, fault, "--timeout", "60")),
        ):
            run = self.run_of(f"run{self.runs}")
            self.runs += 1
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                ended = pool.submit(launch, run)
                seen = []
                while not ended.done():
                    seen += [(rank, listening(rank)) for rank in ranks_of(run)]
                    time.sleep(0.05)
                self.assert_ended(ended.result(), 0, "passed")
            self.assertTrue(seen)
            for each in {rank for rank, _ in seen}:
                most = max((at for rank, at in seen if rank == each), key=len)
                self.assertEqual([address for address, _ in most], due)

    @needs_open_mpi
    def test_strangers_on_the_side_channel_change_nothing(self):
        run = self.run_of()
        chosen = random.Random(8)
        told = 0
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            # The others stand still for longer than the limit, and must hear that this one works.
            flags = ("--mca", "btl", "self,vader")
            ended = pool.submit(run.mpi, 3, "work 1 reshard 2", "--timeout", "4", flags=flags)
            with contextlib.ExitStack() as kept:
                while not ended.done():
                    for place in {at for rank in ranks_of(run) for at in listening(rank)}:
                        with contextlib.suppress(OSError):
                            made = kept.enter_context(socket.create_connection(place, 1))
                            made.sendall(hostile(chosen))
                            told += 1
                    if told % 50 == 0:
                        kept.pop_all().close()
                    time.sleep(0.01)
        self.assertGreater(told, 20)
        self.assert_ended(ended.result(), 0, "passed")
        self.assertEqual(run.left(), [])

    def test_a_process_without_a_launcher_over_mpi_is_one_rank_and_ends(self):
        run = self.run_of()
        ended = run.launched([], "", "--transport", "mpi")
        self.assert_ended(ended, 3, "refused")
        self.assertIn("does not split 1 ways", ended.own_lines()[0])
        self.assertEqual(run.left(), [])

    @needs_open_mpi
    def test_a_launcher_that_forgives_lost_ranks_is_refused(self):
        for number, (flags, told) in enumerate(
            (
                (["--enable-recovery"], "OMPI_MCA_orte_enable_recovery=1"),
                (["--max-restarts", "1"], "OMPI_MCA_orte_max_restarts=1"),
                (["--continuous"], "--continuous"),
            )
        ):
            with self.subTest(flags=flags):
                ended = self.run_of(f"run{number}").mpi(2, "", flags=flags)
                # Such a launcher returns 0 whatever its ranks return: the report has the truth.
                self.assertEqual(ended.report["exit_code"], 2)
                self.assertEqual(len(ended.own_lines()), 1)
                self.assertIn(told, ended.own_lines()[0])


class Journals(program.ProgramTest):
    def test_what_a_dead_run_left_is_merged(self):
        run = Run(self.folder, "run")
        # The process of all ranks dies: nobody is there to report.
        ended = run.local(3, "kill 1 verify 1")
        self.assertEqual((ended.code, ended.report), (-9, None))
        (folder,) = run.temporary.glob("slicecheck-journals-*")
        self.assertEqual(len(list(folder.glob("*.json"))), 3)
        told = merged(folder, self._report(), "--exit-code")
        self.assert_ended(told, 4, "hung")
        status = {check["id"]: check["status"] for check in told.report["checks"]}
        self.assertEqual(status["inputs-unchanged"], "passed")
        self.assertEqual(status["bytes.w2"], "not-run")
        self.assertEqual([entry["rank"] for entry in told.report["ranks"]], [0, 1, 2])

    def test_a_journal_that_comes_late_brings_no_folder_back(self):
        # The rank that reports takes the folder away, while others may still be writing.
        rounds = ("--repeat", "1000000", "--timeout", "60", "--deadline", "5")
        for name, launch in (("mpi", Run.mpi), ("local", Run.local)):
            run = Run(self.folder, name)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                ended = pool.submit(launch, run, 2, "none 0 start 1", *rounds)
                taken = False
                while not ended.done():
                    for folder in run.temporary.glob("slicecheck-journals-*"):
                        if len(list(folder.glob("*.json"))) == 2:
                            self.assertFalse(taken, name)
                            folder = folder.rename(run.folder / "taken")
                            taken = True
                            # A file that was being made when the folder moved is made in it.
                            while folder.exists():
                                shutil.rmtree(folder, ignore_errors=True)
                    time.sleep(0.005)
            self.assertTrue(taken, name)
            self.assert_code(ended.result(), {4})
            self.assertEqual(run.left(), [])

    def test_a_disk_that_takes_no_journal_is_no_rank_that_hangs(self):
        # A pipe that is open and full takes nothing more, for longer than the limit.
        rounds = ("--repeat", "1000000", "--timeout", "3", "--deadline", "12")
        run = Run(self.folder, "run")
        with contextlib.ExitStack() as kept, concurrent.futures.ThreadPoolExecutor(1) as pool:
            ended = pool.submit(run.mpi, 2, "none 0 start 1", *rounds)
            full = set()
            while not ended.done():
                for path in run.temporary.glob("slicecheck-journals-*/rank0.json"):
                    if path not in full:
                        pipe = run.folder / f"pipe{len(full)}"
                        os.mkfifo(pipe)
                        with contextlib.suppress(OSError):
                            end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
                            kept.callback(os.close, end)
                            os.write(end, b"x" * (1 << 16))
                            pipe.rename(path)
                            full.add(path)
                time.sleep(0.01)
        self.assertTrue(full)
        self.assert_code(ended.result(), {4})
        self.assertIn("deadline of 12 s", ended.result().report["findings"][0]["text"])
        self.assertEqual(run.left(), [])

    def test_a_folder_without_journals_is_unusable(self):
        for folder in (self.folder, self.folder / "none"):
            told = merged(folder, self._report())
            self.assertEqual((told.code, told.report), (2, None))
            self.assertIn(str(folder), told.own_lines()[0])
        (self.folder / "rank0.json").write_text("{", encoding="utf-8")
        told = merged(self.folder, self._report())
        self.assertEqual(told.code, 2)
        self.assertIn("rank0.json", told.own_lines()[0])


class Streams(program.ProgramTest):
    def shell(self, line, *, report):
        process = subprocess.run(
            ["sh", "-c", line],
            capture_output=True,
            text=True,
            timeout=program.TIME_LIMIT,
            check=False,
            cwd=self.folder,
        )
        lines = process.stderr.splitlines()
        self.assertEqual((process.returncode, len(lines)), (5, 1), f"{line}: {process.stderr}")
        self.assertEqual((self.folder / report).is_file(), report == "r.json", line)
        return lines[0]

    def test_output_that_nobody_takes_ends_with_5(self):
        run = f"{program.PROGRAM} reshard --ranks 2 --report r.json"
        for line in (f"{run} >&-", f"{run} >/dev/full", f"{program.PROGRAM} --help >/dev/full"):
            report = self.folder / "r.json"
            report.unlink(missing_ok=True)
            told = self.shell(line, report="r.json" if "--help" not in line else "none")
            self.assertIn("standard output cannot be written", told)
            if report.exists():
                made = json.loads(report.read_text(encoding="utf-8"))
                self.assertEqual((made["verdict"], made["exit_code"]), ("error", 5))

    def test_streams_that_nobody_takes_crash_nothing(self):
        for line, code in (
            ("--help >/dev/full 2>/dev/full", 5),
            ("--version >&- 2>&-", 5),
            ("audit nope --report r.json 2>/dev/full", 2),
            ("reshard --ranks 2 --report pipe --timeout 5", 5),
            ("reshard --nope --report pipe", 5),
        ):
            with self.subTest(line=line):
                pipe = self.folder / "pipe"
                if not pipe.exists():
                    os.mkfifo(pipe)
                process = subprocess.run(
                    ["sh", "-c", f"{program.PROGRAM} {line}"],
                    capture_output=True,
                    timeout=program.TIME_LIMIT,
                    check=False,
                    cwd=self.folder,
                )
                self.assertEqual(process.returncode, code, process.stderr)

    def test_a_pipe_that_is_read_gets_the_report(self):
        os.mkfifo(self.folder / "pipe")
        run = f"{program.PROGRAM} reshard --ranks 2 --report pipe"
        line = f"cat pipe > got & {run}; code=$?; wait; exit $code"
        process = subprocess.run(
            ["sh", "-c", line],
            capture_output=True,
            timeout=program.TIME_LIMIT,
            check=False,
            cwd=self.folder,
        )
        self.assertEqual(process.returncode, 0, process.stderr)
        made = json.loads((self.folder / "got").read_text(encoding="utf-8"))
        self.assertEqual(made["verdict"], "passed")

    def test_a_file_that_may_not_grow_ends_with_5(self):
        for blocks, what, left in ((1, "", "none"), (20, "--dump dump", "r.json")):
            line = f"{program.PROGRAM} reshard --ranks 2 --quiet --report r.json {what}"
            told = self.shell(f"ulimit -f {blocks}; exec {line}", report=left)
            self.assertIn("cannot be written", told)

    def test_a_report_that_no_disk_takes_ends_with_5(self):
        run = f"{program.PROGRAM} reshard --ranks 2 --quiet"
        gone = f"mkdir gone && cd gone && rmdir ../gone && {run} --report r.json"
        for line in (f"{run} --report /dev/full", gone):
            self.assertIn("cannot be written", self.shell(line, report="none"))


class Soak(program.ProgramTest):
    SMALL = ("--experts", "2", "--hidden", "128", "--intermediate", "128")

    def setUp(self):
        super().setUp()
        # A sanitizer holds back what is freed, which looks like growth.
        before = os.environ.get("ASAN_OPTIONS", "")
        os.environ["ASAN_OPTIONS"] = f"{before}:quarantine_size_mb=1"
        self.addCleanup(os.environ.update, ASAN_OPTIONS=before)

    def test_memory_is_flat_over_500_rounds(self):
        ended = self.local(2, "reshard", *self.SMALL, "--repeat", "500")
        self.assert_ended(ended, 0, "passed")
        checks = {check["id"]: check for check in ended.report["checks"]}
        self.assertEqual(checks["rounds"]["compared"], 2 * 500)
        self.assertEqual(checks["memory"]["status"], "passed")
        self.assertEqual(len(ended.report["probes"]), 1)
        self.assertEqual(ended.stderr, "")

    def test_rounds_end_by_time(self):
        ended = self.mpi(2, "reshard", *self.SMALL, "--seconds", "1")
        self.assert_ended(ended, 0, "passed")

    def test_a_round_that_differs_is_one_line(self):
        run = Run(self.folder, "run")
        ended = run.local(2, "corrupt 1 reshard 1", *self.SMALL, "--repeat", "3")
        self.assert_ended(ended, 1, "failed")
        self.assertEqual(ended.own_lines(), ["slicecheck: round 0 with seed 1 does not pass"])


if __name__ == "__main__":
    program.main()
