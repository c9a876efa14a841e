"""Click options for strategies, shared by all commands that take one."""

import click


class StrategyOption(click.Option):
    """Option whose help lists the strategies of the registry when it is printed."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help with the strategies' names."""
        from dpcube.strategies import strategy_names

        record = super().get_help_record(ctx)
        taken = ", ".join(name for name in strategy_names() if name not in self.names_left_out())
        return None if record is None else (record[0], f"{record[1]} Available: {taken}.")

    def names_left_out(self) -> tuple[str, ...]:
        """Return the names of strategies that the command refuses."""
        return ()


class ComparedOption(StrategyOption):
    """Option of a command that compares strategies; some strategies only make releases."""

    def names_left_out(self) -> tuple[str, ...]:
        """Return the names of strategies that are not compared."""
        from dpcube.strategies import NOT_COMPARED

        return NOT_COMPARED


one_strategy = click.option(
    "--strategy",
    cls=StrategyOption,
    metavar="NAME",
    help="Strategy that chooses what to measure: a name, or MODULE:CLASS of your own. The default is the first.",
)
SEVERAL = "Comma-separated strategies, each a name or MODULE:CLASS of your own. The default is all built-in ones."
some_strategies = click.option("--strategy", cls=StrategyOption, metavar="NAMES", help=SEVERAL)
compared_strategies = click.option("--strategy", cls=ComparedOption, metavar="NAMES", help=SEVERAL)


def named(strategies: str | None) -> tuple[str, ...]:
    """Return the strategies of a comma-separated list, by default the built-in ones."""
    from dpcube.strategies import BY_NAME

    return tuple(BY_NAME) if strategies is None else tuple(name.strip() for name in strategies.split(","))
