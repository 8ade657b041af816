"""Write the reference of the Python names, from their signatures and docstrings: docs/api.md."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import flatfed as ff
import flatfed.testing
from flatfed.algorithms import Algorithm, Average, ClientOptimiser
from flatfed.core.configuration.base_optimiser import BaseOptimiser
from flatfed.core.configuration.config import Config, parameters
from flatfed.core.configuration.registry import required_parameters
from flatfed.core.configuration.schedules import Schedule
from flatfed.experiments.measuring.laboratory import Laboratory

PAGE = Path(__file__).parent / "api.md"
HEAD = """\
# Python reference

<!-- made by `make index` from signatures and docstrings -->

All names of `import flatfed as ff`, from their docstrings. How they are used together: [from Python](python.md).
"""
SECTIONS: dict[str, Sequence[str]] = {
    "Tasks": ("Task", "Partition", "Ragged", "Roster", "Local"),
    "Losses and metrics": (
        "token_cross_entropy",
        "causal_cross_entropy",
        "model_loss",
        "Classification",
        "Regression",
        "TokenClassification",
        "CausalLanguageModel",
        "Shown",
    ),
    "By name": ("dataset", "DataSet", "partition", "task", "hugging_face", "compare", "Compared", "Preprocessing"),
    "Training": ("make", "train", "resume", "branch", "load_run", "Run", "Callbacks", "Plateau", "RunInterrupted"),
    "Who takes part": ("Uniform", "Bernoulli", "Replay"),
    "Out again": ("bundle", "verify"),
    "Measuring": ("laboratory",),
    "Studies": ("Study",),
    "Where clients run": ("EngineConfig", "InProcess", "Processes", "Ray"),
    "Trackers": ("Tracker", "TensorBoard", "MLflow", "WandB"),
    "For authors of methods": ("Algorithm", "ClientOptimiser", "Average", "BaseOptimiser", "Schedule", "Message"),
    "Errors": ("FlatfedError", "ConfigError", "CheckpointError", "EngineError"),
}
"""Where each public name stands; those of the registries have tables."""
FAMILIES: dict[str, tuple[type[Config], str]] = {
    "Methods": (Algorithm, "algorithms/{id}.md"),
    "Client optimisers": (ClientOptimiser, "algorithms/client-optimisers.md"),
    "Base optimisers": (BaseOptimiser, "base-optimisers.md"),
    "Weight averaging": (Average, "algorithms/{id}.md"),
    "Schedules": (Schedule, "schedules.md"),
}
PARTS = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")
ENTRY = re.compile(r"^    (\*{0,2}\w+): (.*)$")


# --- docstrings ---------------------------------------------------------------------------------------------------


def words_of(thing: Any) -> str:
    """Return a docstring as Markdown: paragraphs, and a list for each part such as `Args:`."""
    lines: list[str] = []
    in_part = False
    for line in (inspect.getdoc(thing) or "").splitlines():
        part, entry = PARTS.match(line), ENTRY.match(line)
        if part is not None:
            in_part = True
            lines += [f"*{part[1]}*", ""]
        elif in_part and entry is not None:
            lines.append(f"- `{entry[1]}`: {entry[2]}")
        elif in_part and line.startswith("        "):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return "\n".join(_with_blocks(lines)).strip()


def _with_blocks(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines, those of a prompt fenced: Markdown would take them for quotations."""
    is_open = False
    for line in lines:
        is_code = line.lstrip().startswith((">>>", "... "))
        if is_code != is_open:
            yield "```python" if is_code else "```"
        is_open = is_code
        yield line
    if is_open:
        yield "```"


# --- signatures ---------------------------------------------------------------------------------------------------


def signature_of(name: str, thing: Any) -> str:
    """Return how something is called: names and defaults, a line for each where there are many."""
    try:
        given = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return name
    words = list(_arguments([p for p in given if p.name != "self"]))
    whole = f"{name}({', '.join(words)})"
    return whole if len(whole) <= 90 else f"{name}(\n    " + ",\n    ".join(words) + ",\n)"


def _arguments(given: Sequence[inspect.Parameter]) -> Iterator[str]:
    is_marked = False
    for parameter in given:
        if parameter.kind is parameter.VAR_POSITIONAL:
            is_marked = True
        elif parameter.kind is parameter.KEYWORD_ONLY and not is_marked:
            is_marked = True
            yield "*"
        yield _argument(parameter)


def _argument(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    if parameter.default is parameter.empty:
        return f"{stars}{parameter.name}"
    return f"{parameter.name}={shown(parameter.default)}"


def shown(value: Any) -> str:
    """Return a default as one would write it, and the same on every machine."""
    if isinstance(value, Config):
        return f"{type(value).__name__}()"
    if isinstance(value, str):
        return json.dumps(value)
    text = getattr(value, "__name__", None) or repr(value)
    return "..." if " at 0x" in text or text.startswith("<") else text


# --- entries ------------------------------------------------------------------------------------------------------


def entry(name: str, thing: Any) -> str:
    """Return the part of the page about one name; what nobody makes by hand has attributes, and is not called."""
    words = words_of(thing)
    is_called = not inspect.isclass(thing) or "*Attributes*" not in words or "*Args*" in words
    signature = f"```python\n{signature_of(name, thing)}\n```\n\n" if is_called else ""
    text = f"\n### {name}\n\n{signature}{words}\n"
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        members = "".join(member(thing, own) for own in vars(thing) if not own.startswith("_"))
        text += f"\n*What it has*\n{members}" if members else ""
    return text


def member(cls: type, name: str) -> str:
    """Return an entry for a public method or property of a class that says something of itself."""
    raw = inspect.getattr_static(cls, name)
    is_alias = getattr(raw, "__name__", name) != name
    if isinstance(raw, property):
        return f"\n- `{name}`: {_indented(words_of(raw))}\n"
    if is_alias or not (inspect.isfunction(raw) or isinstance(raw, classmethod | staticmethod)):
        return ""
    bound = getattr(cls, name)
    return f"\n- `{_on_one_line(signature_of(name, bound))}`: {_indented(words_of(bound))}\n"


def _on_one_line(signature: str) -> str:
    return " ".join(signature.split()).replace("( ", "(").replace(",)", ")").replace(", )", ")")


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ").replace("\n  \n", "\n\n")


def family(base: type[Config], page: str) -> str:
    """Return the table of a registry's classes."""
    rows = ["| class | parameters | |", "|---|---|---|"]
    for id, cls in sorted(base.registry.items()):
        if cls.__module__.startswith("flatfed."):
            line = (inspect.getdoc(cls) or "").partition("\n")[0].replace("|", "\\|")
            rows.append(f"| [`ff.{cls.__name__}`]({page.format(id=id)}) | {_parameters(cls)} | {line} |")
    return "\n".join(rows) + "\n"


def _parameters(cls: type[Config]) -> str:
    required = set(required_parameters(cls))
    words = [name if name in required else f"{name}={shown(getattr(cls, name, None))}" for name in parameters(cls)]
    return " ".join(f"`{word}`" for word in words).replace("|", "\\|")


def page() -> str:
    """Return the page as it is now."""
    text = HEAD
    for title, names in SECTIONS.items():
        text += f"\n## {title}\n" + "".join(entry(f"ff.{name}", getattr(ff, name)) for name in names)
        if title == "Measuring":
            text += entry("Laboratory", Laboratory)
    for title, (base, where) in FAMILIES.items():
        text += f"\n## {title}\n\n{family(base, where)}"
    text += "\n## flatfed.testing\n\n" + words_of(flatfed.testing).partition("\n")[0] + "\n"
    for name in flatfed.testing.__all__:
        text += entry(name, getattr(flatfed.testing, name))
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else f"{PAGE} is out of date; run `make index`")
    PAGE.write_text(page(), encoding="utf-8")
