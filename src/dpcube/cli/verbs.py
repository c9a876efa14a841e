"""Registry of commands: the single list for the command line, its help, its import contracts and its tests."""

from dataclasses import dataclass
from importlib import import_module

import click


@dataclass(frozen=True, slots=True)
class Verb:
    """Command: its name, its module and function, and its line in the overview, if it has one."""

    name: str
    home: str
    example: str = ""
    remark: str = ""

    def command(self) -> click.Command:
        """Import and return the click command."""
        module, _, function = self.home.partition(":")
        command: click.Command = getattr(import_module(f"dpcube.cli.{module}"), function)
        return command


SECTIONS: dict[str, tuple[Verb, ...]] = {
    "Try it": (Verb("demo", "curator.demo:demo", "demo"),),
    "Own a table": (
        Verb("domain", "curator.domain:domain", "domain TABLE -o D.toml", "then edit D.toml"),
        Verb("check", "curator.check:check", "check TABLE --domain D.toml", "private, on your terminal only"),
        Verb("plan", "analyst.plan:plan", "plan D.toml --epsilon 0.5 --rows 10000"),
        Verb("release", "curator.release:release", "release TABLE --domain D.toml --epsilon 0.5 -o R.dpcube"),
        Verb("ledger", "curator.ledger:ledger", "ledger TABLE.ledger"),
        Verb("studio", "curator.studio:studio", "studio TABLE", "all of these in your browser"),
    ),
    "Use a release": (
        Verb("info", "analyst.count:info", "info R.dpcube"),
        Verb("count", "analyst.count:count", "count R.dpcube \"age between 30 and 39 and sex = 'Female'\""),
        Verb("sql", "analyst.sql:sql", 'sql R.dpcube "SELECT sex, count(*), avg(age) FROM cube GROUP BY sex"'),
        Verb("synth", "analyst.tables:synth", "synth R.dpcube -o rows.parquet"),
        Verb("export", "analyst.tables:export"),
        Verb("plot", "analyst.plot:plot", "plot R.dpcube age income -o map.svg"),
        Verb("report", "analyst.plot:report", "report R.dpcube -o report.html"),
        Verb("registry", "analyst.registry:registry", "registry R.dpcube --ledger TABLE.ledger -o record.yaml"),
        Verb("explore", "analyst.explore:explore", "explore R.dpcube [-o cube.html]"),
        Verb("train", "analyst.learn:train", "train R.dpcube --target income -o model.json"),
        Verb("predict", "analyst.learn:predict", "predict model.json rows.csv -o classes.csv"),
        Verb("merge", "analyst.tables:merge", "merge may.dpcube june.dpcube -o all.dpcube"),
    ),
    "Link records": (
        Verb("block", "curator.block:block", "block R.dpcube --rules rules.toml --epsilon 0.5 -o B.blocks"),
        Verb("link", "curator.link:link", "link TABLE --blocks B.blocks --rules rules.toml ... --listen 7600"),
    ),
    "Trust it?": (
        Verb("coverage", "research.coverage:coverage", "coverage"),
        Verb("compare", "research.compare:compare", "compare"),
        Verb("reproduce", "research.reproduce:reproduce", "reproduce theory"),
        Verb("compile", "curator.compile:compile_verb"),
    ),
}
"""Commands by section of the overview."""

VERBS = {verb.name: verb for verbs in SECTIONS.values() for verb in verbs}


def overview() -> str:
    """Return the overview of `dpcube --help`: an example of each command, by section."""
    lines = []
    for section, verbs in SECTIONS.items():
        shown = [verb for verb in verbs if verb.example]
        heads = [f"{section}{'' if section.endswith('?') else ':'}", *[""] * len(shown)]
        for head, verb in zip(heads, shown, strict=False):
            remark = f"({verb.remark})" if verb.remark else ""
            lines.append(f"{head:15}dpcube {verb.example:30}{remark}".rstrip())
    return "\n".join(lines)


class Verbs(click.Group):
    """Click group that imports a command on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """Return the names of the commands."""
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command of a name, None if there is none."""
        return VERBS[cmd_name].command() if cmd_name in VERBS else None
