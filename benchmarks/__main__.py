"""Run every benchmark of speed: `make bench`, or `python -m benchmarks`."""

from benchmarks import answers, counting, noise, release, startup

for benchmark in (counting, noise, release, answers, startup):
    print(f"## {benchmark.__name__.removeprefix('benchmarks.')}")
    for line in benchmark.run():
        print(line, flush=True)
    print()
