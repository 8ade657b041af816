"""The options that say where clients run, and what they come to."""

from __future__ import annotations

from typing import Any

from flatfed.cli.options.groups import Decorator, option, together
from flatfed.cli.options.values import Number, Whole

OPTIONS = ("engine", "address", "resources", "minimum", "patience")


def engine_options(workers: str, default: str | None = None) -> Decorator:
    """Return --workers, with what is said of it, and the options of engines beyond this machine."""
    return together(
        option("--workers", workers, Whole(0, "auto"), default),
        option(
            "--engine",
            "Where clients run: `ray` is a Ray cluster; flatfed list engines. Results stay the same.  [default: as "
            "--workers says]",
            str,
            group="engine",
        ),
        option(
            "--address",
            "Of the Ray cluster: `local` starts Ray here, `auto` is the one that this machine belongs to, or "
            "HOST:PORT.  [default: local]",
            str,
            group="engine",
        ),
        option(
            "--resources",
            "What each worker takes of a Ray node, such as CPU=1,GPU=0.5.  [default: CPU=1]",
            str,
            group="engine",
        ),
        option(
            "--minimum",
            "With fewer workers than this on a Ray cluster the run waits.  [default: 1]",
            Whole(1),
            group="engine",
        ),
        option(
            "--patience",
            "For this many seconds; then it stops, with a checkpoint.  [default: 120]",
            Number(),
            group="engine",
        ),
    )


def take_engine(params: dict[str, Any]) -> None:
    """Put the engine in the place of the number of workers, and its options away."""
    from flatfed.core.errors import ConfigError
    from flatfed.engines.choice import named_engine

    given = {name: params.pop(name) for name in OPTIONS}
    id = given.pop("engine")
    if id is not None:
        params["workers"] = named_engine(id, workers=params["workers"], **given)
        return
    for name, value in given.items():
        if value is not None:
            raise ConfigError(f"--{name} belongs to an engine; add --engine ray")
