"""Three hosts on one machine, out of network and UTS namespaces: a reshard across them, and one
that loses a link, a rank, or a rank's answer in the middle. Where namespaces are not allowed: not
run."""

import os
import shutil
import stat
import subprocess
import sys
import unittest.mock

import program
from endings_test import FAULTY

# Seconds without progress: connections between hosts take their time.
TIMEOUT = 8

UP = """#!/bin/sh
set -e
P=$1; N=$2
ip netns add ${P}sw
for b in data ctl; do ip -n ${P}sw link add $b type bridge; ip -n ${P}sw link set $b up; done
echo "127.0.0.1 localhost" > hosts; : > resolv
for i in $(seq 0 $N); do
  h=$P$i; a=$i; [ $i = 0 ] && a=100
  ip netns add $h
  ip netns exec $h sh -c 'echo 3 > /proc/sys/net/ipv4/tcp_retries2'
  ip -n $h link set lo up
  for n in "eth0 d$i data 10.231.7.$a/24" "ctl0 c$i ctl 10.231.8.$a/24"; do
    set -- $n
    ip -n $h link add $1 type veth peer name $2 netns ${P}sw
    ip -n $h addr add $4 dev $1; ip -n $h link set $1 up
    ip -n ${P}sw link set $2 master $3; ip -n ${P}sw link set $2 up
  done
  echo "10.231.7.$a $h" >> hosts
done
"""

AGENT = """#!/bin/sh
d=$(dirname "$(readlink -f "$0")"); h=$1; shift
exec ip netns exec "$h" unshare --uts sh -c '
  mount --bind "$1/hosts" /etc/hosts && mount --bind "$1/resolv" /etc/resolv.conf &&
  hostname "$2" && shift 2 && exec sh -c "$*"' agent "$d" "$h" "$@"
"""

DOWN = """#!/bin/sh
P=$1
for n in $(ip netns list | awk '{print $1}' | grep -E "^$P(sw|[0-9]+)\\$"); do
  for p in $(ip netns pids $n); do kill -9 $p 2>/dev/null; done
  ip netns del $n
done
rm -rf /dev/shm/vader_segment.$P[0-9]* "${TMPDIR:-/tmp}"/ompi.$P[0-9]*
"""


class Hosts(program.ProgramTest):
    def setUp(self):
        super().setUp()
        # Ends in a letter: the prefix of one run never begins another's.
        self.prefix = f"s{os.getpid() % 10000}h"
        for name, text in (("up", UP), ("agent", AGENT), ("down", DOWN)):
            path = self.folder / name
            path.write_text(text, encoding="utf-8")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.addCleanup(self.script, "down", self.prefix)
        made = self.script("up", self.prefix, "3")
        self.assertEqual(made.returncode, 0, made.stderr)

    def script(self, name, *arguments):
        return subprocess.run(
            [str(self.folder / name), *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def reshard(self, fault="", command=""):
        return self.across(f"reshard --timeout {TIMEOUT}", fault, command)

    def across(self, arguments, fault="", command=""):
        """A run with one rank a host."""
        report = self._report()
        temporary = self.folder / f"t{self.runs}"
        temporary.mkdir()
        agent = self.folder / "agent"
        hosts = ",".join(f"{self.prefix}{i}:1" for i in (1, 2, 3))
        environment = dict(
            SLICECHECK_FAULT=fault,
            SLICECHECK_FAULT_COMMAND=command,
            TMPDIR=str(temporary),
            OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        )
        line = (
            f"exec mpirun --timeout 50 --mca plm_rsh_agent {agent} --mca pml ob1 "
            "--mca btl tcp,self,vader --mca btl_tcp_if_include 10.231.7.0/24 "
            "--mca oob_tcp_if_include 10.231.8.0/24 --mca oob_tcp_keepalive_time 2 "
            "--mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3 "
            f"--mca mpi_yield_when_idle 1 --bind-to none -H {hosts} "
            f"{FAULTY} {arguments} --report {report}"
        )
        with unittest.mock.patch.dict(os.environ, environment):
            ended = program.launch([str(agent), f"{self.prefix}0", line], report)
        self.assertEqual(list(temporary.glob("slicecheck*")), [])
        return ended

    def test_a_reshard_across_hosts_passes(self):
        ended = self.reshard()
        self.assert_passed(ended)
        hosts = {entry["host"] for entry in ended.report["ranks"]}
        self.assertEqual(hosts, {f"{self.prefix}{i}" for i in (1, 2, 3)})

    def test_a_host_that_is_cut_off_ends_the_run(self):
        ended = self.reshard("command 1 reshard 1", "ip link set eth0 down")
        self.assertEqual(ended.code, 4, ended.stderr)
        self.assertEqual(ended.report["verdict"], "hung")
        self.assertEqual(ended.report["findings"][0]["cause"], "rank-hung")

    def test_a_killed_rank_is_named(self):
        ended = self.reshard("kill 2 reshard 1")
        self.assertEqual(ended.code, 137, ended.stderr)
        self.assertEqual(ended.report["verdict"], "hung")
        self.assertEqual(ended.report["findings"][0]["cause"], "rank-lost")
        self.assertIn(2, ended.report["findings"][0]["ranks"])

    def test_a_stopped_rank_is_named_also_when_it_is_rank_0(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                ended = self.reshard(f"stop {rank} reshard 1")
                self.assertEqual(ended.code, 4, ended.stderr)
                finding = ended.report["findings"][0]
                self.assertEqual((finding["cause"], finding["ranks"]), ("rank-hung", [rank]))

    def test_a_sound_cluster_of_hosts_passes_and_one_with_a_slow_link_is_told_from_it(self):
        smoke = "cluster --level smoke"
        ended = self.across(smoke)
        self.assert_ended(ended, 0, "passed")
        told = {check["id"]: check["text"] for check in ended.report["checks"]}
        self.assertIn("3 ranks on 3 hosts", told["launch.hosts"])
        slow = "tc qdisc add dev eth0 root tbf rate 80mbit burst 64k latency 400ms"
        made = subprocess.run(
            ["ip", "netns", "exec", f"{self.prefix}3", *slow.split()],
            capture_output=True,
            check=False,
        )
        if made.returncode != 0:
            self.skipTest(f"no link can be slowed down here: {made.stderr}")
        ended = self.across(smoke)
        self.assert_ended(ended, 1, "failed")
        (finding,) = [f for f in ended.report["findings"] if f["severity"] == "error"]
        self.assertEqual((finding["cause"], finding["ranks"]), ("slow-link", [2]))


def allowed():
    """True where this process may make namespaces and links in them."""
    if not shutil.which("ip") or not shutil.which("unshare"):
        return False
    name = f"sp{os.getpid() % 10000}p"
    steps = (
        f"ip netns add {name}",
        f"ip -n {name} link add data type bridge",
        f"ip -n {name} link add one type veth peer name two",
        f"ip netns exec {name} unshare --uts hostname {name}",
    )
    tried = subprocess.run(["sh", "-c", " && ".join(steps)], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return tried.returncode == 0


if __name__ == "__main__":
    if not (program.codes_are_known() and allowed()):
        print("not run: no network namespaces here, or a launcher that is not Open MPI's")
        sys.exit(77)
    program.main()
