"""The `flatfed` command: subcommands, and errors for people."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import click

from flatfed import __version__
from flatfed.core.errors import EngineError, FlatfedError, nearest

COMMANDS = {
    "run": "flatfed.cli.commands.run:run",
    "compare": "flatfed.cli.commands.compare:compare",
    "resume": "flatfed.cli.commands.resume:resume",
    "branch": "flatfed.cli.commands.branch:branch",
    "show": "flatfed.cli.commands.show:show",
    "flatness": "flatfed.cli.commands.flatness:flatness",
    "landscape": "flatfed.cli.commands.landscape:landscape",
    "robustness": "flatfed.cli.commands.robustness:robustness",
    "evaluate": "flatfed.cli.commands.evaluate:evaluate",
    "list": "flatfed.cli.commands.listing:listing",
    "data": "flatfed.cli.data.commands:data",
}

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


class LazyGroup(click.Group):
    """Loads a subcommand's module when it is used, and suggests the nearest for an unknown one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the subcommands in the order in which people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Load a subcommand."""
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand, or name the nearest ones."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise click.UsageError(nearest(args[0], COMMANDS, "command"), ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="flatfed")
def cli() -> None:
    """Sharpness-aware federated learning: train, compare, resume, and measure how flat the minima are.

    \b
      flatfed run digits feddyn+sam --alpha 0 --batch-size 16 train one method
      flatfed compare digits fedavg feddyn+sam --seeds 0,1    one table for several
      flatfed show runs/...                                   the table again
      flatfed resume runs/...                                 go on where it stopped
      flatfed branch runs/... --average swa                   go on from a checkpoint with SWA
      flatfed flatness runs/...                               eigenvalues, LPF, sharpness
      flatfed landscape runs/...                              the loss around the model
      flatfed list algorithms                                 what there is

    Each command has its own --help. Exit codes: 0 done, 1 a run diverged, stopped or failed, 2 a mistake in what was
    asked for, 130 interrupted (and saved).
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a mistake is one clear sentence and exit code 2, never a traceback."""
    # One thread a process is what makes runs exact, and idle OpenMP threads would only take time from workers.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.showwarning = _show_warning
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # so that --model my_module:Net finds what lies here
    try:
        code = cli.main(args=arguments, prog_name="flatfed", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(BAD_INPUT)
    except FlatfedError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(FAILED if isinstance(error, EngineError) else BAD_INPUT)
    except (click.Abort, KeyboardInterrupt) as error:
        # Click turns the interrupt into an Abort and keeps what it said as the cause.
        click.echo(str(error.__cause__ or error) or "interrupted", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(FAILED)
    except OSError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(FAILED)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    click.echo(f"Warning: {message}", err=True)
