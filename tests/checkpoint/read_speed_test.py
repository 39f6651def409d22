"""A shard of 1 GB, warm, is read at 0.7 of the speed of `cat` to /dev/null or faster: medians of
interleaved runs of both. A reading of what memory holds waits for nothing but a processor, so a run
whose processor time falls short of its wall time was disturbed by others and counts for neither; a
machine that gives no undisturbed rounds measures nothing, and the test is not run (77)."""

import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

READER = os.environ["SLICECHECK_READ_SPEED"]
SIZE = 1 << 30
ROUNDS, ROUNDS_MAX = 7, 70
UNDISTURBED = 0.9
DUE = 0.7
NOT_RUN = 77


def timed(command):
    """Wall seconds, and whether nothing disturbed the run."""
    start = time.monotonic()
    with open(os.devnull, "wb") as nothing:
        process = subprocess.Popen(command, stdout=nothing)
        _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command} ended with {process.returncode}")
    return wall, used.ru_utime + used.ru_stime >= UNDISTURBED * wall


def write_shard(shard):
    half = SIZE // 2
    header = (
        f'{{"a":{{"dtype":"U8","shape":[{half}],"data_offsets":[0,{half}]}},'
        f'"b":{{"dtype":"U8","shape":[{half}],"data_offsets":[{half},{SIZE}]}}}}'
    ).encode()
    shard.write(struct.pack("<Q", len(header)) + header)
    block = os.urandom(1 << 20)
    for _ in range(SIZE // len(block)):
        shard.write(block)
    shard.flush()


def main():
    cat, reader = [], []
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as shard:
        write_shard(shard)
        for number in range(ROUNDS_MAX):
            cat_wall, cat_alone = timed(["cat", shard.name])
            reader_wall, reader_alone = timed([READER, shard.name])
            if cat_alone and reader_alone and number > 0:  # the first round warms
                cat.append(cat_wall)
                reader.append(reader_wall)
            if len(cat) == ROUNDS:
                break
    print(f"{len(cat)} of {number + 1} rounds were undisturbed, {ROUNDS} are due")
    if len(cat) < ROUNDS:
        return NOT_RUN
    ratio = statistics.median(cat) / statistics.median(reader)
    print(
        f"cat {SIZE / statistics.median(cat) / 1e9:.2f} GB/s, "
        f"reader {SIZE / statistics.median(reader) / 1e9:.2f} GB/s, ratio {ratio:.2f}, due {DUE}"
    )
    return 0 if ratio >= DUE else 1


if __name__ == "__main__":
    sys.exit(main())
