"""The model card: what the run's record, its history and kept measurements say of a model, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.core.task.task import VALIDATION
from flatfed.data.tables.preprocessing import KEY as PREPROCESSING
from flatfed.experiments.exporting.card_loading import how_to_load
from flatfed.experiments.exporting.card_numbers import (
    NOT_MEASURED,
    by_class,
    clients_spread,
    flatness_lines,
    test_lines,
)
from flatfed.experiments.exporting.exported_model import ExportedModel
from flatfed.experiments.exporting.processor_files import what_reads_inputs
from flatfed.experiments.planning.setting import HELD_OUT
from flatfed.reports.page.citing import references_of
from flatfed.runs.environment import read_environment

Config = Mapping[str, Any]
HIDDEN = ("id", "cohort_memory", "device", "retries", "client_timeout", "exchange_timeout")
"""Settings that decide no result where nothing goes wrong."""
USUAL = {"space": "trained"}
"""Options that say something only of a model with adapters, and there only with another value."""
CARD_MARK = b"\n\n## The model\n\n- File: `"
"""What each card has near its top."""


@dataclass(frozen=True)
class CardFile:
    """The file that a card is of.

    Args:
        format: `safetensors`, `torch`, `onnx` or `hf`.
        name: of the file or folder.
        note: what was found when it was checked.
        raw_inputs: whether an ONNX graph prepares its inputs itself.
        files: the names of what a folder holds.
    """

    format: str
    name: str
    note: str = ""
    raw_inputs: bool = False
    files: tuple[str, ...] = ()


def model_card(exported: ExportedModel, file: CardFile) -> str:
    """Return the card as Markdown."""
    sections = {
        "The model": _model(exported, file),
        "How to load it": how_to_load(exported, file.format, file.name, file.raw_inputs),
        "Data": _data(exported),
        "Method": _method(exported),
        "Settings": _settings(exported.config),
        "Accuracy": test_lines(exported),
        "By class": by_class(exported),
        "Spread over clients": clients_spread(exported),
        "Flatness": flatness_lines(exported),
        "Limits": _limits(exported),
        "How to cite": _citing(exported.config),
    }
    parts = [f"# {exported.config['method']} on {exported.task.name}"]
    for title, lines in sections.items():
        parts += [f"## {title}", "\n".join(lines)]
    front = _front_matter() if file.format == "hf" else ""
    return front + "\n\n".join(parts) + "\n"


def is_card(path: Path) -> bool:
    """Return whether a file is a card that was written here."""
    return path.is_file() and CARD_MARK in path.read_bytes()[:1000]


def _front_matter() -> str:
    """Return what the hub of Hugging Face reads at the top of a card."""
    return "---\nlibrary_name: transformers\ntags:\n- federated-learning\n- flatfed\n---\n\n"


def _model(exported: ExportedModel, file: CardFile) -> Iterator[str]:
    about = exported.config.get("setting", {}).get("model", {})
    count = sum(parameter.numel() for parameter in exported.model.parameters())
    yield f"- File: `{file.name}` ({file.format}), {str(exported.dtype).removeprefix('torch.')}"
    yield f"- Network: {about.get('name', type(exported.model).__name__)}{_options(about.get('options'))}"
    yield f"- Parameters: {count:,}"
    yield f"- Weights: {_whose(exported)}"
    yield f"- Rounds behind it: {exported.round} of {exported.config['settings']['rounds']} (run {exported.status})"
    if file.format == "hf":
        yield f"- Reads inputs: {what_reads_inputs(file.files)}"
    if file.note:
        yield f"- Checked: {file.note}"
    made = read_environment(exported.path) if exported.path is not None else {}
    versions = {"Python": made.get("python"), **made.get("packages", {})}
    known = [f"{name} {version}" for name, version in versions.items() if version]
    if known:
        yield f"- Trained with: {', '.join(known)}"


def _whose(exported: ExportedModel) -> str:
    average = exported.config["average"]
    if exported.client is not None:
        return f"{exported.weights}, with the layers and statistics that client {exported.client} keeps"
    if average is None:
        return "the global model"
    if exported.weights == "global":
        return f"the last global model, not the average ({average['id']}) that was evaluated"
    return f"the weight average ({average['id']}) that was evaluated"


def _data(exported: ExportedModel) -> Iterator[str]:
    setting = exported.config.get("setting", {})
    data, clients = setting.get("data", {}), setting.get("clients", {})
    yield f"- Data set: {data.get('name', exported.task.name)}{_options(data.get('options'))}"
    yield f"- Training examples: {_trained_on(exported)}; classes: {_known(data.get('classes'))}"
    if exported.class_names:
        yield f"- Classes: {', '.join(exported.class_names)}"
    tests = [f"{name} {count:,}" for name, count in _test_counts(exported).items()]
    yield f"- Test examples: {', '.join(tests) or 'none'}"
    yield f"- Clients: {_known(clients.get('count'))}; examples per client: {_range(clients.get('examples'))}"
    yield f"- Classes per client: {_range(clients.get('classes'))}"
    partition = setting.get("partition")
    if partition:
        yield f"- Partition: {partition['id']}{_options(partition)}"
    augmentation = setting.get("augmentation", {}).get("names") or ["none"]
    yield f"- Augmentation: {', '.join(map(str, augmentation))}"
    yield f"- Preparation of inputs: {_preparation(exported)}"
    digest = exported.config.get("task", {}).get("data_sha256")
    if digest:
        yield f"- SHA-256 of the examples: `{digest}`"


def _trained_on(exported: ExportedModel) -> str:
    """Return how many examples the clients train on, and how many of theirs are held out; a data set may have more."""
    task = exported.task
    count = f"{sum(task.samples(client) for client in range(task.population)):,}"
    if not _holds_out(exported):
        return count
    return f"{count} trained on, {len(task.test_sets[VALIDATION]):,} held out for validation"


def _test_counts(exported: ExportedModel) -> dict[str, int]:
    """Return the sizes of the test sets; examples that were held out of training are counted with that."""
    counts = exported.config.get("setting", {}).get("data", {}).get("tests", {})
    return {name: count for name, count in counts.items() if name != VALIDATION or not _holds_out(exported)}


def _holds_out(exported: ExportedModel) -> bool:
    """Say whether the validation set is of the clients' examples, and none of the user's own beside them."""
    config = exported.config
    # Earlier versions recorded only the rule: of a task of Python's, or of a recipe.
    rules = config.get(VALIDATION), config.get("task", {}).get(VALIDATION)
    return HELD_OUT in config.get("setting", {}).get("data", {}) or any(rules)


def _preparation(exported: ExportedModel) -> str:
    if exported.task.prepare is not None:
        return f"`{exported.task.prepare!r}`"
    return "the run's preprocessing of rows" if PREPROCESSING in exported.config else "none"


def _method(exported: ExportedModel) -> Iterator[str]:
    config = exported.config
    algorithm = dict(config["algorithm"])
    optimiser = algorithm.pop("client_opt", None)
    yield f"- Method: {algorithm['id']}{_options(algorithm)}"
    if isinstance(optimiser, dict):
        yield f"- Client optimiser: {optimiser['id']}{_options(optimiser)}"
    average = config["average"]
    yield f"- Weight averaging: {'none' if average is None else average['id'] + _options(average)}"
    yield f"- Clients per round: {config['sampler']['id']}{_options(config['sampler'])}"


def _settings(config: Config) -> Iterator[str]:
    yield "| setting | value |"
    yield "|---|---|"
    for name, value in config["settings"].items():
        if name not in HIDDEN:
            yield f"| {name} | {'–' if value is None else value} |"


def _limits(exported: ExportedModel) -> Iterator[str]:
    """Yield what follows from the record about how far the numbers carry."""
    settings = exported.config["settings"]
    if exported.status != "finished":
        reason = f": {exported.reason}" if exported.reason else ""
        yield f"- The run is {exported.status}{reason}."
    yield f"- One run with seed {settings['seed']}: nothing here says how much other seeds differ."
    if not exported.task.test_sets:
        yield "- There was no test set: how well it generalises was not measured."
    elif "validation" not in exported.task.test_sets:
        yield (
            "- No examples were held out for validation: where settings were chosen by the test set, its numbers "
            "are too good."
        )
    if exported.class_names:
        yield f"- It knows {len(exported.class_names)} classes and gives every input one of them."
    if settings.get("eval_stats") == "batch-stats" and any("running_mean" in name for name in exported.tensors()):
        yield (
            "- The accuracy was measured with the statistics of each test batch; in inference mode the model uses "
            "running ones, for which it was not measured."
        )
    if exported.client is not None:
        yield (
            f"- Layers or statistics of client {exported.client} are in it: it is made for that client's data, and "
            "the numbers above are not of it."
        )
    if str(exported.dtype) != f"torch.{settings['dtype']}":
        yield f"- It was trained and measured in {settings['dtype']}, and is written in another type."
    if exported.weights == "global" and exported.config["average"] is not None:
        yield "- The accuracy above is that of the weight average, unless it says global."


def _citing(config: Config) -> Iterator[str]:
    for reference in references_of([config]):
        yield f"- {reference['of']}: {reference['text']}"


def _options(values: Any) -> str:
    """Return options in brackets; nothing where there are none."""
    if not isinstance(values, dict):
        return ""
    said = {name: value for name, value in values.items() if name != "id" and USUAL.get(name) != value}
    given = [f"{name}={_plain(value)}" for name, value in said.items() if value not in (None, "")]
    return f" ({', '.join(given)})" if given else ""


def _plain(value: Any) -> Any:
    """Return a value for a card that others read: of a path on this machine only the name."""
    return Path(value).name if isinstance(value, str) and value.startswith("/") else value


def _known(value: Any) -> str:
    return NOT_MEASURED if value is None else f"{value:,}"


def _range(summary: Mapping[str, float] | None) -> str:
    if not summary:
        return NOT_MEASURED
    return f"{summary['min']:g} to {summary['max']:g}, mean {summary['mean']:.4g}"
