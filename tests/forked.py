"""Commands of `dpcube` in processes of their own that are forked from one which has imported what they need.

Each has its own memory, files, exit code and end, as if it were started; what is spared is the second of imports. What
a test says of starting, of the interpreter's options or of signals it asks of a process that it starts itself.
"""

import atexit
import json
import os
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

FORKING = """
import atexit, gc, importlib, json, os, pkgutil, socket, sys, traceback
import dpcube, pandas, pyarrow.parquet, sklearn.tree
from dpcube.cli import main

def run():
    try:
        main()
    except SystemExit as stop:
        return stop.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0

def become(asked):
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["dpcube", *asked["words"]]
    sys.modules.update(dict.fromkeys(asked["without"]))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in ((1, asked["out"]), (2, asked["err"])):
        os.dup2(os.open(path, os.O_WRONLY), number)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    code = run()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # which spares half a second in which every module is taken apart

for module in pkgutil.walk_packages(dpcube.__path__, "dpcube."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
gc.freeze()
requests = socket.socket(fileno=int(sys.argv[1]))
with requests.makefile("r") as lines:
    for line in lines:
        child = os.fork()
        if not child:
            become(json.loads(line))
        requests.sendall(b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(0)
"""


@cache
def forking() -> socket.socket:
    """The process from which commands are forked, as the socket that it listens to: started by the first that asks."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-P", "-c", FORKING, str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def dpcube(
    *words: object, cwd: Path = Path(), err: str = "", without: str = "", **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run one command to its end, with its output in files; `err` names a terminal instead for what it says beside.

    `without` names a module that is then as if it were not installed; `environment` is added to that of the tests.
    """
    with TemporaryDirectory() as kept:
        out, said = Path(kept, "out"), Path(kept, "err")
        out.touch()
        said.touch()
        given = [str(word) for word in words]
        places = {"cwd": str(cwd.resolve()), "out": str(out), "err": err or str(said)}
        missing = [without] if without else []
        asked = {**places, "words": given, "without": missing, "environment": {**os.environ, **environment}}
        code = answered(json.dumps(asked))
        return subprocess.CompletedProcess(given, code, out.read_text("utf-8"), said.read_text("utf-8"))


def answered(line: str) -> int:
    """Send a request, and wait for the exit code of its command."""
    requests, code = forking(), b""
    requests.sendall(f"{line}\n".encode())
    while not code.endswith(b"\n"):
        some = requests.recv(20)
        assert some, "the process that forks commands is gone"
        code += some
    return int(code)
