"""Cost of the secure step between two processes on loopback: pairs compared a second, and bytes a pair.

Figures are of both parties together, in processor time. Each case runs at two sizes, so that the start of the engine
(imports, keys, the first oblivious transfers) is reported apart from the cost of further pairs. Needs the engine
(DPCUBE_LINK_ENGINE, or `dpcube link --install-engine`).
"""

import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dpcube.core.arrays import Ints
from dpcube.link.program import Comparison, Program
from dpcube.link.secure import (
    await_peer,
    engine_python,
    open_listener,
    reach_peer,
    secure_matches,
    shared_key,
    write_shared_key,
)

TEXT, NUMBER = Comparison("text", 128, 1, dice=(4, 5)), Comparison("number", 1, 1, tolerance=2)
PROGRAMS = {
    "one number, all pairs": Program((NUMBER,), 1),
    "one text of 128 bits, all pairs": Program((TEXT,), 1),
    "two texts, a number, an exact column, weighed": Program((TEXT, TEXT, NUMBER, Comparison("exact", 1, 1)), 3),
}
EDGES = 256, 512


def run() -> Iterator[str]:
    for name, program in PROGRAMS.items():
        small, large = (two_parties({"program": name, "rows": edge}) for edge in EDGES)
        yield line(
            name, small, large, [edge * edge for edge in EDGES], f"pairs ({len(program.comparisons)} comparisons)"
        )


def line(name: str, small: dict[str, float], large: dict[str, float], counts: list[int], unit: str) -> str:
    more = counts[1] - counts[0]
    rate = more / (large["cpu"] - small["cpu"])
    sent = f"{(large['bytes'] - small['bytes']) / more:6.0f} bytes each" if "bytes" in large else ""
    start = max(0.0, small["cpu"] - counts[0] / rate)
    walls = f", {large['wall']:5.1f} s and {large['memory']:.1f} GB for {counts[1]:,}" if "wall" in large else ""
    return f"{name:<48} {rate:9,.0f} {unit} a second of processor time, {start:4.1f} s to start{walls} {sent}"


def two_parties(case: dict[str, Any]) -> dict[str, float]:
    """Run a case between two processes; return processor time and bytes of both, and the time it took."""
    with TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        write_shared_key(Path(folder, "key"))
        port = free.getsockname()[1]
        free.close()
        cases = [json.dumps({**case, "role": role, "port": port, "key": f"{folder}/key"}) for role in ROLES]
        running = [
            subprocess.Popen([sys.executable, "-m", "benchmarks.linkage", one], stdout=subprocess.PIPE, text=True)
            for one in cases
        ]
        made = [json.loads(process.communicate()[0]) for process in running]
    added = {name: sum(one[name] for one in made) for name in ("cpu", "bytes")}
    return {**added, "wall": made[0]["wall"], "memory": max(one["memory"] for one in made)}


ROLES = ("listener", "connector")


def party(case: dict[str, Any]) -> dict[str, float]:
    """One side of a case, in a process of its own."""
    key, port, rows = shared_key(case["key"]), case["port"], case["rows"]
    draw = np.random.default_rng(ROLES.index(case["role"]))
    program = PROGRAMS[case["program"]]
    features = simulated(draw, program, rows)
    if case["role"] == "listener":
        channel = await_peer(open_listener("127.0.0.1", port), key)
    else:
        channel = reach_peer("127.0.0.1", port, key)
    begun = time.monotonic()
    with channel:
        secure_matches(channel, program, [features], [(0, 0)])
        sent = channel.bytes_sent
    wall = time.monotonic() - begun
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "cpu": sum(u.ru_utime + u.ru_stime for u in used),
        "bytes": sent,
        "wall": wall,
        "memory": used[1].ru_maxrss / 2**20,
    }


def simulated(draw: np.random.Generator, program: Program, rows: int) -> Ints:
    columns = [np.ones((rows, 1), int)]
    for one in program.comparisons:
        bits = draw.random((rows, one.columns)) < 0.3
        columns.append(bits.astype(int) if one.kind == "text" else draw.integers(0, 50, (rows, one.columns)))
    return np.concatenate(columns, axis=1).astype(np.int64)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(party(json.loads(sys.argv[1]))))
    else:
        os.environ.setdefault("DPCUBE_LINK_ENGINE", str(engine_python()))
        for result in run():
            print(result, flush=True)
