"""Options shared by several commands: groups in the help, comma-separated lists, and a configuration file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from flipproof.errors import InputError, Parameter, Way, nearest

Command = TypeVar("Command", bound=Callable[..., Any])

#: Groups of options, in the order of the help.
DATA, MODEL, ADVERSARY, CLUSTER = "Data", "Learner", "Adversary", "Cluster"
REQUIREMENT, OUTPUT, EVIDENCE = "Requirement", "Output", "Evidence"


#: Options whose names differ from the parameters of the library.
OPTIONS = {
    "allowed": "--allow",
    "kind": "--format",
    "max_changes": "--max-flips",
    "methods": "--method",
    "n_jobs": "--jobs",
    "parameters": "--set",
    "rows": "--row",
    "target_range": "--range",
}

#: Parameters of learners with options of their own; `--set` sets the others.
LEARNER_OPTIONS = ("noise", "clip", "prior", "prior_weight", "classes", "n_jobs")

#: Options without a value, in place of a field of the layout of text files.
FLAGS = {"header": "--no-header", "quotes": "--no-quotes"}


def in_words_of_options(error: InputError) -> str:
    """Return the message of an error, with options in place of parameters."""

    def option_of(parameter: Parameter | Way) -> str:
        if isinstance(parameter, Way):
            return parameter.in_a_shell
        if parameter.owner:
            return _refusing_option(parameter)
        if parameter.of_learner:
            return f"--set {parameter}"
        if parameter.of_layout and parameter.name in FLAGS:
            return FLAGS[parameter.name]
        name = OPTIONS.get(parameter.name, f"--{parameter.name.replace('_', '-')}")
        return f"{name} {parameter.value}" if parameter.value else name

    return error.worded(option_of)


def _refusing_option(parameter: Parameter) -> str:
    """Return the option that sets a parameter of a learner; parameters of other classes and functions as in Python."""
    from flipproof.learners.names import LEARNERS, LEARNERS_IN_BLOCKS, REGRESSORS

    if parameter.owner not in {*LEARNERS.values(), *LEARNERS_IN_BLOCKS.values(), *REGRESSORS.values()}:
        return str(parameter)
    if parameter.name in LEARNER_OPTIONS:
        return OPTIONS.get(parameter.name, f"--{parameter.name.replace('_', '-')}")
    return f"--set {parameter.name}"


class GroupedOption(click.Option):
    """An option that belongs to a group in the help."""

    def __init__(self, *arguments: Any, group: str = OUTPUT, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose help shows its options in groups, and that takes a value for an option only once."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse options that are given twice, but take one value: the last one would win in silence."""
        given = self.make_parser(ctx).parse_args(args=list(args))[2] if not ctx.resilient_parsing else []
        for parameter in dict.fromkeys(given):
            takes_one = isinstance(parameter, click.Option) and not (parameter.multiple or parameter.is_flag)
            if takes_one and given.count(parameter) > 1:
                learners = " To compare learners, use 'flipproof compare'." if parameter.name == "learner" else ""
                raise click.UsageError(f"{parameter.opts[0]} is given twice, but takes one value.{learners}", ctx)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, one section per group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = None if isinstance(parameter, click.Argument) else parameter.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(parameter, "group", OUTPUT), []).append(record)
        groups[OUTPUT] = groups.pop(OUTPUT)  # last, because it ends in --help
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


def option(*names: str, group: str = OUTPUT, **settings: object) -> Callable[[Command], Command]:
    """Return an option of a group."""
    return click.option(*names, cls=GroupedOption, group=group, **settings)


def together(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Combine several decorators into one; the first is the outermost."""

    def decorate(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def split_at_commas(_context: click.Context, _parameter: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
    """Split all values at commas."""
    return tuple(part.strip() for value in given for part in value.split(",") if part.strip())


def read_config(context: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    """Read the defaults of a command from a TOML file: from the top level and from the table of the command."""
    if path is None:
        return None
    try:
        stored = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise click.BadParameter(f"cannot read {str(path)!r}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{str(path)!r} is not a TOML file: {error}.") from error
    command = context.info_name or ""
    own = stored.get(command, {})
    if not isinstance(own, dict):
        raise click.BadParameter(f"in {str(path)!r}, {command} must be a table, [{command}].")
    common = {key: value for key, value in stored.items() if not isinstance(value, dict)}
    context.default_map = dict(_defaults(context, path, {**common, **own}))
    return path


def _defaults(context: click.Context, path: Path, given: dict[str, object]) -> Iterable[tuple[str, Any]]:
    parameters = {
        name.removeprefix("--"): parameter
        for parameter in context.command.params
        for name in parameter.opts
        if name.startswith("--") and parameter.name != "config"
    }
    for key, value in given.items():
        name = key.replace("_", "-")
        if name not in parameters:
            raise click.BadParameter(
                f"{str(path)!r} contains {key!r}, which is not an option of {context.command_path!r}."
                f"{nearest(name, parameters)}"
            )
        parameter = parameters[name]
        takes_many = getattr(parameter, "multiple", False)
        if isinstance(value, dict) or (isinstance(value, list) and not takes_many):
            raise click.BadParameter(f"in {str(path)!r}, {key!r} must be one value.")
        yield parameter.name or name, [value] if takes_many and not isinstance(value, list) else value


common_options = together(
    option("--json", "as_json", is_flag=True, help="Print JSON instead of text."),
    option("--quiet", "-q", is_flag=True, help="Show no progress and no warnings."),
    option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=read_config,
        help="TOML file with options by their long names, at the top level or in a table named after the command. "
        "Options on the command line take precedence.",
    ),
)
