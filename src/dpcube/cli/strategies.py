"""The option that names a strategy, for every verb that takes one."""

import click


class StrategyOption(click.Option):
    """An option whose help lists the strategies that it takes: asked of the registry when help is printed."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help, the names added."""
        from dpcube.strategies import strategy_names

        record = super().get_help_record(ctx)
        taken = ", ".join(name for name in strategy_names() if name not in self.names_left_out())
        return None if record is None else (record[0], f"{record[1]} There are: {taken}.")

    def names_left_out(self) -> tuple[str, ...]:
        """Return the names of strategies that the verb refuses."""
        return ()


class ComparedOption(StrategyOption):
    """The same for a verb that compares strategies, of which some only make releases."""

    def names_left_out(self) -> tuple[str, ...]:
        """Return the names of strategies that are not compared."""
        from dpcube.strategies import NOT_COMPARED

        return NOT_COMPARED


one_strategy = click.option(
    "--strategy",
    cls=StrategyOption,
    metavar="NAME",
    help="What to measure: a name, or MODULE:CLASS of your own; the first unless given.",
)
SEVERAL = "Comma-separated strategies, each a name or MODULE:CLASS of your own; those built in unless given."
some_strategies = click.option("--strategy", cls=StrategyOption, metavar="NAMES", help=SEVERAL)
compared_strategies = click.option("--strategy", cls=ComparedOption, metavar="NAMES", help=SEVERAL)


def named(strategies: str | None) -> tuple[str, ...]:
    """Return the strategies of a comma-separated list, those built in unless there is one."""
    from dpcube.strategies import BY_NAME

    return tuple(BY_NAME) if strategies is None else tuple(name.strip() for name in strategies.split(","))
