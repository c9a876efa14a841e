"""Set intersection in one run: our equality path beside the libraries that it stands on, used by themselves.

    python -m benchmarks.link_intersection [RECORDS...]

Two parties bring so many records each (10,000 and 100,000 unless said), half of them in common. Of each way: processor
time and bytes of both parties together, for a record of either. Ours are whole processes, with TLS, padding to equal
sizes and rows told at the end, between a start and an end of a session; libraries are timed without starting Python,
importing and writing their items to a file. `spu` by itself runs as two processes over Unix sockets, whose bytes are
counted on the way; `openmined-psi` by itself in one process, its messages counted as they would be sent. Needs the
engine (DPCUBE_LINK_ENGINE, or `dpcube link --install-engine`) and `openmined-psi`.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.linkage import two_parties
from dpcube.link.secure import engine_python

SIZES = (10_000, 100_000)
BY_ITSELF = """
import json, resource, sys
from pathlib import Path
import spu.libspu as ls
from spu import psi
folder, count, name, rank = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
desc = ls.link.Desc()
desc.id = "alone"
desc.recv_timeout_ms = 600_000
desc.connect_retry_times, desc.connect_retry_interval_ms = 600, 500
for place in (0, 1):
    desc.add_party(f"p{place}", f"unix:{folder}/{'own' if place == rank else 'relay'}{place}")
items = range(rank * count // 2, rank * count // 2 + count)
(folder / f"in{rank}").write_text("\\n".join(["item", *(f"{i:032x}" for i in items), ""]))
link = ls.link.create_brpc(desc, rank)
how = {"bucket_size": count} if name == "PROTOCOL_KKRT" else {}
if name == "PROTOCOL_ECDH":  # which has no curve unless told
    how = {"ecdh_params": psi.EcdhParams(curve=psi.EllipticCurveType.CURVE_FOURQ)}
protocol = psi.PsiProtocolConfig(getattr(psi.PsiProtocol, name), receiver_rank=0, broadcast_result=True, **how)
given = psi.InputParams(path=str(folder / f"in{rank}"), selected_keys=["item"], keys_unique=True)
out = psi.OutputParams(path=str(folder / f"out{rank}"), disable_alignment=True)
before = resource.getrusage(resource.RUSAGE_SELF)
psi.psi_execute(psi.PsiExecuteConfig(protocol, given, out), link)
after = resource.getrusage(resource.RUSAGE_SELF)
cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
found = len((folder / f"out{rank}").read_text().split()) - 1
(folder / f"told{rank}").write_text(json.dumps({"cpu": cpu, "found": found}))
"""
Spent = dict[str, float]


class CountingRelay:
    """Carries what connects to one Unix socket to another, and counts the bytes of both directions."""

    def __init__(self, place: Path, onward: Path) -> None:
        self.carried, self._onward = 0, onward
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            incoming, outgoing = self._listener.accept()[0], socket.socket(socket.AF_UNIX)
            while outgoing.connect_ex(str(self._onward)):
                time.sleep(0.05)
            for ends in ((incoming, outgoing), (outgoing, incoming)):
                threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while part := source.recv(1 << 16):
                self.carried += len(part)
                sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # a party has ended


def spu_by_itself(count: int, name: str) -> Spent:
    """Run a set intersection of `spu` between two processes."""
    with TemporaryDirectory() as folder:
        relays = [CountingRelay(Path(folder, f"relay{rank}"), Path(folder, f"own{rank}")) for rank in (0, 1)]
        command = [str(engine_python()), "-I", "-c", BY_ITSELF, folder, str(count), name]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
        running = [subprocess.Popen([*command, str(rank)], **quiet) for rank in (0, 1)]  # type: ignore[call-overload]
        for process in running:
            process.wait()
        told = [json.loads(Path(folder, f"told{rank}").read_text()) for rank in (0, 1)]
    assert all(one["found"] == count - count // 2 for one in told)
    return {"cpu": sum(one["cpu"] for one in told), "bytes": sum(relay.carried for relay in relays)}


def openmined_by_itself(count: int) -> Spent:
    """Run `openmined-psi`, both parties in this process, on the messages that would be sent."""
    import private_set_intersection.python as psi

    begun = time.process_time()
    client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
    ours, theirs = ([f"{i:032x}" for i in range(start, start + count)] for start in (0, count // 2))
    setup = server.CreateSetupMessage(0.0, count, theirs, psi.DataStructure.RAW)
    request = client.CreateRequest(ours)
    response = server.ProcessRequest(request)
    assert len(client.GetIntersection(setup, response)) == count - count // 2
    cpu = time.process_time() - begun
    return {"cpu": cpu, "bytes": sum(len(one.SerializeToString()) for one in (setup, request, response))}


def ways() -> dict[str, Callable[[int], Spent]]:
    """Return the ways, ours first."""
    return {
        "`dpcube link`, the engine's KKRT": lambda count: two_parties({"engine": "spu", "rows": count}),
        "`dpcube link`, `openmined-psi`": lambda count: two_parties({"engine": "openmined", "rows": count}),
        "`spu` RR22": lambda count: spu_by_itself(count, "PROTOCOL_RR22"),
        "`spu` KKRT": lambda count: spu_by_itself(count, "PROTOCOL_KKRT"),
        "`spu` ECDH": lambda count: spu_by_itself(count, "PROTOCOL_ECDH"),
        "`openmined-psi`": openmined_by_itself,
    }


def main() -> None:
    sizes = tuple(map(int, sys.argv[1:])) or SIZES
    print(
        "| | " + " | ".join(f"{n:,}: records a second, bytes each" for n in sizes) + " | beyond the first, a second |"
    )
    print("|---" * (len(sizes) + 2) + "|")
    for name, run in ways().items():
        spent = [run(count) for count in sizes]
        each = zip(sizes, spent, strict=True)
        cells = [f"{2 * n / one['cpu']:,.0f}, {one['bytes'] / (2 * n):.0f}" for n, one in each]
        more = 2 * (sizes[-1] - sizes[0]) / (spent[-1]["cpu"] - spent[0]["cpu"]) if len(sizes) > 1 else float("nan")
        print("| " + " | ".join([name, *cells, f"{more:,.0f}"]) + " |", flush=True)


if __name__ == "__main__":
    main()
