"""Run every benchmark in one go: `make bench`, or `python -m benchmarks`."""

from importlib.util import find_spec

from benchmarks import adaptive, answers, counting, engines, noise, release, sql, startup, synthesize, theory

servers = [engines] if all(map(find_spec, ("ibis", "psycopg", "pgserver", "pyspark"))) else []
for benchmark in (counting, *servers, noise, release, adaptive, answers, sql, synthesize, theory, startup):
    print(f"## {benchmark.__name__.removeprefix('benchmarks.')}")
    for line in benchmark.run():
        print(line)
    print(flush=True)
