"""The `flatfed` command: subcommands, and errors for people."""

from __future__ import annotations

import importlib
import io
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

import click

from flatfed import __version__
from flatfed.cli.options.values import typed_words, word_for
from flatfed.cli.output.streams import Lossy, echo, lossy_streams, show_error
from flatfed.core.configuration.checking import fault_of_text, shown
from flatfed.core.errors import ConfigError, ConfigWarning, EngineError, FlatfedError, nearest
from flatfed.experiments.running.interruption import CommandInterruption
from flatfed.machine import disk_full, no_room

COMMANDS = {
    "run": "flatfed.cli.commands.run:run",
    "compare": "flatfed.cli.commands.compare:compare",
    "study": "flatfed.cli.study.commands:study",
    "resume": "flatfed.cli.commands.resume:resume",
    "branch": "flatfed.cli.commands.branch:branch",
    "show": "flatfed.cli.commands.show:show",
    "report": "flatfed.cli.page.report:report",
    "track": "flatfed.cli.tracking.track:track",
    "dashboard": "flatfed.cli.page.dashboard:dashboard",
    "flatness": "flatfed.cli.commands.flatness:flatness",
    "landscape": "flatfed.cli.commands.landscape:landscape",
    "robustness": "flatfed.cli.commands.robustness:robustness",
    "evaluate": "flatfed.cli.commands.evaluate:evaluate",
    "export": "flatfed.cli.exporting.export:export",
    "predict": "flatfed.cli.exporting.predict:predict",
    "bundle": "flatfed.cli.exporting.bundle:bundle",
    "verify": "flatfed.cli.exporting.verify:verify",
    "list": "flatfed.cli.commands.listing:listing",
    "published": "flatfed.cli.published.command:published",
    "claims": "flatfed.cli.published.claims:claims",
    "data": "flatfed.cli.data.commands:data",
    "site": "flatfed.cli.commands.site:site",
    "deploy": "flatfed.cli.commands.deploy:deploy",
}

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


class LazyGroup(click.Group):
    """Loads a subcommand's module when it is used, and suggests the nearest for an unknown one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the subcommands in the order in which people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Load a subcommand."""
        # Not before: `flatfed --help` and the others must not wait for what this one needs.
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand, or name the nearest ones."""
        if args:
            _refuse_unknown(args[0], ctx)
        return super().resolve_command(ctx, args)


def _refuse_unknown(name: str, ctx: click.Context) -> None:
    is_option = name.startswith("-")
    if not is_option and name not in COMMANDS:
        raise click.UsageError(nearest(name, COMMANDS, "command"), ctx)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="flatfed")
def cli() -> None:
    """Sharpness-aware federated learning: train, compare, resume, and measure how flat the minima are.

    \b
      flatfed run digits feddyn+sam --alpha 0 --batch-size 16 train one method
      flatfed compare digits fedavg feddyn+sam --seeds 0,1    one table for several
      flatfed show runs/...                                   the table again
      flatfed report runs/...                                 one page with tables, curves, flatness and clients
      flatfed dashboard runs                                  the same in a browser, while runs go on
      flatfed resume runs/...                                 go on where it stopped
      flatfed track runs/... --to mlflow                      send runs to TensorBoard, MLflow or W&B
      flatfed branch runs/... --average swa                   go on from a checkpoint with SWA
      flatfed flatness runs/...                               eigenvalues, LPF, sharpness
      flatfed landscape runs/...                              the loss around the model
      flatfed export runs/... --format onnx                   the model as a file, with a model card
      flatfed predict runs/... photo.png                      classes of new images, texts or rows
      flatfed bundle runs/...                                 all that a stranger needs, in one file
      flatfed verify bundle.zip                               replay some of its rounds and compare bits
      flatfed list algorithms                                 what there is
      flatfed published --method fedasam+swa                  what papers published
      flatfed claims --paper fedgloss                         what papers claim

    Each command has its own --help. Exit codes: 0 done, 1 a run diverged, stopped or failed, 2 a mistake in what was
    asked for, 130 interrupted (and saved). FLATFED_TRACEBACK=1 in the environment shows the traceback of an error that
    flatfed did not foresee.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a mistake is one clear sentence and exit code 2, never a traceback."""
    with lossy_streams() as output, CommandInterruption() as interruption:
        code = _exit_code(arguments, interruption)
        interruption.done()
        if not _is_written(output):
            code = code or FAILED
    sys.exit(code)


def _prepare() -> None:
    """Set what every command needs."""
    # One thread per process is what makes runs exact, and idle OpenMP threads would only take time from workers.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.showwarning = _show_warning
    _print_any_character()


def _print_any_character() -> None:
    """Let characters that a terminal does not have (λ on one of ASCII) be printed as codes, not be an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _find_modules_here() -> None:
    """Let --model my_module:Net find what lies here."""
    try:
        here = str(Path.cwd())
    except OSError:
        raise ConfigError("the working directory does not exist any more; change to another one") from None
    if here not in sys.path:
        # At the end, so that a file here never takes the place of an installed package.
        sys.path.append(here)


def _refuse_unreadable(arguments: Sequence[str]) -> None:
    """Refuse arguments that no file could hold and no terminal show."""
    for argument in arguments:
        problem = fault_of_text(argument)
        if problem:
            raise ConfigError(f"the argument {shown(argument)} {problem}; write it in UTF-8")


def _exit_code(arguments: Sequence[str] | None, interruption: CommandInterruption) -> int:
    """Run a command and return how it ended; what it could not do is said on standard error."""
    try:
        _prepare()
        return _run(sys.argv[1:] if arguments is None else arguments)
    except (click.Abort, KeyboardInterrupt) as error:
        interruption.done()
        # Click turns the interrupt into an Abort and keeps what it said as the cause.
        echo(str(error.__cause__ or error) or "interrupted", err=True)
        return INTERRUPTED
    except Exception as error:
        if interruption.name:
            # Some libraries turn an interrupt into an error of theirs, when they are imported say.
            echo(f"interrupted ({interruption.name})", err=True)
            return INTERRUPTED
        # The last guard: whoever calls the command has no use for a traceback, and whoever mends it has.
        if os.environ.get("FLATFED_TRACEBACK"):
            raise
        echo(_unforeseen(error), err=True)
        return FAILED


def _unforeseen(error: Exception) -> str:
    """Return what is said of an error that nobody thought of, its traceback being kept in a file."""
    words = " ".join(f"{type(error).__name__}: {error}".split())
    defect = f"Error: unexpected: {words[:300]}; this is a defect of flatfed"
    text = "".join(traceback.format_exception(error))
    try:
        descriptor, path = tempfile.mkstemp(prefix="flatfed-traceback-", suffix=".txt")
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:  # noqa: PTH123  (no path)
            file.write(text)
    except OSError:
        return f"{defect}; FLATFED_TRACEBACK=1 shows the traceback"
    return f"{defect}: the traceback is in {path}"


def _run(arguments: Sequence[str]) -> int:
    """Run a command; errors that were foreseen become a sentence and a code."""
    try:
        _refuse_unreadable(arguments)
        _find_modules_here()
        # Not standalone: which error ends with which code is decided here.
        code = cli.main(args=arguments, prog_name="flatfed", standalone_mode=False)
    except click.ClickException as error:
        show_error(error)
        return BAD_INPUT
    except (FlatfedError, OSError) as error:
        echo(f"Error: {_told(error)}", err=True)
        return _code_of(error)
    return _as_code(code)


def _told(error: Exception) -> str:
    """Return what an error tells; that of a full disk names the file."""
    full = disk_full(error)
    if isinstance(error, FlatfedError) or full is None:
        return str(error)
    return no_room(full)


def _is_written(output: Lossy | None) -> bool:
    """Say whether all of standard output was written; if not, tell why."""
    if output is None:
        return True
    sys.stdout.flush()
    if output.error is None:
        return True
    if not isinstance(output.error, BrokenPipeError):  # a reader that has seen enough needs no word
        echo(f"Error: standard output could not be written: {output.error.strerror}", err=True)
    return False


def _as_code(value: object) -> int:
    """Return the exit code that a command gave; help and --version give none."""
    if isinstance(value, int):
        return value
    return 0


def _code_of(error: Exception) -> int:
    """Return the exit code of an error: a mistake in what was asked for, or something that failed on the way."""
    if isinstance(error, EngineError | OSError):
        return FAILED
    return BAD_INPUT


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    echo(f"Warning: {_worded(message)}", err=True)


def _worded(message: Warning | str) -> str:
    """Return a warning in the words of the command that is running."""
    if not isinstance(message, ConfigWarning):
        return str(message)
    words = typed_words(click.get_current_context(silent=True))
    word = word_for(message.parameter, words)
    return str(message) if word is None else message.worded(word)
