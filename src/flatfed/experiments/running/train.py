"""`train`: run a method on a task, in a run directory or in memory."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_type_hints

from flatfed.algorithms.spelling import PARTS, parse_method
from flatfed.core.configuration.checking import Range, range_of
from flatfed.core.configuration.config import build, parameters
from flatfed.core.configuration.settings import Settings, about_settings, defaults, dtype_name, required_settings
from flatfed.core.errors import ConfigError
from flatfed.core.method.algorithm import Algorithm, Average
from flatfed.core.method.engine import Engine
from flatfed.core.round.sampling import Sampler
from flatfed.core.task.task import Task
from flatfed.core.task.validation import Split, with_validation
from flatfed.engines.choice import EngineConfig, check_workers, chosen
from flatfed.experiments.planning.plan import Plan, kept_rounds
from flatfed.experiments.running.callbacks import Callbacks
from flatfed.experiments.running.interruption import RunInterrupted, returned
from flatfed.experiments.running.play import play
from flatfed.experiments.running.run import Run
from flatfed.experiments.spelling.belonging import refuse_idle, unusual
from flatfed.experiments.spelling.declared import WATCHED
from flatfed.experiments.spelling.methods import parse_watch
from flatfed.experiments.spelling.outside_names import sampler_of, settings_with_ids
from flatfed.flatness.measurements import Measurement
from flatfed.named_code import USER
from flatfed.outside.named_parts import with_ids
from flatfed.runs.history import Row
from flatfed.tracking.tracker import Track, check_trackers
from flatfed.tracking.tracker import chosen as chosen_trackers

WIDTH = 120


def with_settings(function: Callable[..., Run]) -> Callable[..., Run]:
    """Put the training settings into a function's signature and documentation, in the place of `**settings`."""
    signature, known = inspect.signature(function), defaults()
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    types = get_type_hints(Settings)
    settings = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=known.get(name, inspect.Parameter.empty),
            annotation=types[name],
        )
        for name in parameters(Settings)
    ]
    # Settings are declared in one place; help and editors see them here as if they were written out.
    function.__signature__ = signature.replace(parameters=[*own, *settings])  # type: ignore[attr-defined]
    function.__doc__ = (function.__doc__ or "").replace("        {settings}", _documented())
    return function


def _allowed(unit: str, allowed: Range) -> str:
    if unit:
        return f"In {unit}, {allowed}"
    return str(allowed).capitalize()


def _documented() -> str:
    """Return a line or two about each setting."""
    lines: list[str] = []
    for name, about in about_settings().items():
        text = about.text.replace("{none}", "None")
        allowed = range_of(parameters(Settings)[name])
        if allowed is not None:
            text += f" {_allowed(about.unit, allowed)}."
        if about.otherwise:
            text += f" None: {about.otherwise}."
        lines += textwrap.wrap(f"{name}: {text}", WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12)
    return "\n".join(lines)


@with_settings
def train(
    task: Task,
    algorithm: Algorithm | str,
    *,
    sampling: int | str | Sampler,
    workers: int | Literal["auto"] = "auto",
    engine: str | EngineConfig | Engine | None = None,
    out: str | Path | None = None,
    average: Average | None = None,
    checkpoint_every: int | None = None,
    keep_checkpoints: Sequence[int] = (),
    watch: str | None = None,
    watch_data: str = "train",
    watch_samples: int | None = WATCHED,
    track: Track = None,
    validation: Any = None,
    validation_split: Split = "client",
    on_round: Callable[[Row], None] | Callbacks | None = None,
    **settings: Any,
) -> Run:
    """Train `task` with `algorithm` and return the run; after Ctrl-C, what was reached, as `interrupted`.

    Args:
        task: what is learnt.
        algorithm: the method, from `ff.make(id, ...)` or its class, or a spelling such as `"fedgloss+sam+swa"`; a class
            of your own also by its import path, `"my_package.my_file:MyMethod"`, as every part that is named here.
        sampling: number of clients per round (uniform without replacement), `ff.Bernoulli`, `ff.Replay`, or a text
            such as `"bernoulli(0.1)"`.
        workers: worker processes; 0 runs in this one, `"auto"` is the number of usable cores.
        engine: where clients run: None goes by `workers`; an id (`"ray"`), a configuration (`ff.Ray(address="auto")`),
            or an engine of your own. Results do not depend on it.
        out: run directory to make; None keeps everything in memory.
        average: `ff.SWA(...)` or another average of global models.
        checkpoint_every: save after every n rounds (default: about every 30 seconds, and at the end).
        keep_checkpoints: rounds after which a checkpoint is written and never removed: `(400, 800)`.
        watch: measurements of the evaluated model while it trains, `"lambda_max:50,lpf:100"` (every 50 and 100 rounds),
            into the rows' `watch`; they change nothing else.
        watch_data: over which examples: all clients' (`"train"`) or a test set's.
        watch_samples: at most this many of them, drawn once; None is all.
        track: trackers that the run is sent to while it trains: `"mlflow"`, `"tensorboard,wandb"`, or configurations
            such as `ff.MLflow(experiment="flat")`, also several in a list. They need `out`, and change nothing else.
        validation: examples to select by, in place of the test set: a share of the clients' (`0.1`), which are held out
            of training, or your own, a pair of tensors or a torch Dataset. Metrics are `validation_loss` and so on.
        validation_split: hold out a share of each client's examples (`"client"`), or of all together (`"global"`).
        on_round: called with each history row; or `ff.Callbacks(on_evaluation=..., on_checkpoint=..., on_end=...)`.
        {settings}
    """
    if not isinstance(task, Task):
        raise ConfigError(f"task must be an ff.Task, not {type(task).__name__}")
    share = validation if isinstance(validation, int | float) else None
    given = settings | {"validation_split": validation_split}
    refuse_idle(unusual(given), settings | {"validation": share})
    algorithm, average = _method(algorithm, average)
    task, held_out = with_validation(task, validation, validation_split)
    if out is not None and not algorithm.id:
        name = type(algorithm).__name__
        raise ConfigError(f'{name} has no id, so its run could not be resumed; write class {name}(..., id="my-method")')
    where = chosen(engine, workers)
    trackers = chosen_trackers(track)
    check_trackers(trackers, has_directory=out is not None)
    checked_settings = _settings(settings)
    check_workers(where, checked_settings)
    plan = Plan(
        task,
        algorithm,
        checked_settings,
        sampler_of(sampling),
        average,
        where,
        checkpoint_every,
        watch=parse_watch(watch and with_ids(watch, [Measurement.registry], USER), watch_data, watch_samples),
        keep_checkpoints=kept_rounds(keep_checkpoints),
        track=trackers,
        validation=held_out,
    )
    plan.check()
    try:
        return play(plan, Path(out) if out is not None else None, on_round)
    except RunInterrupted as interrupted:
        return returned(interrupted)


def _settings(given: dict[str, Any]) -> Settings:
    """Return the settings; one that has no default must be given."""
    missing = [name for name in required_settings() if name not in given]
    if missing:
        # Of the type that Python itself raises for an argument that is missing.
        raise TypeError(f"train() needs {' and '.join(missing)}")
    if "dtype" in given:
        given = given | {"dtype": dtype_name(given["dtype"])}
    return build(Settings, settings_with_ids(given, USER))


def _method(algorithm: Algorithm | str, average: Average | None) -> tuple[Algorithm, Average | None]:
    """Return the algorithm and the average, which a spelling names both."""
    if not isinstance(average, Average | None):
        raise ConfigError(f"average must be ff.SWA(...) or another average, not {average!r:.60}")
    if isinstance(algorithm, Algorithm):
        return algorithm, average
    if not isinstance(algorithm, str):
        raise ConfigError(f"algorithm must come from ff.make(id, ...) or be a spelling, not {algorithm!r:.60}")
    spelled = parse_method(with_ids(algorithm, PARTS, USER))
    if spelled.average is not None and average is not None:
        raise ConfigError(f"{algorithm!r} names an average, and average={average!r:.60} is set; give one of the two")
    return spelled.algorithm, spelled.average or average
