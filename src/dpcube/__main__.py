"""`python -m dpcube` is the `dpcube` command."""

from dpcube.cli import main

main()
