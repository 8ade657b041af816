"""The smallest form of a study: synthetic data, two rounds, a tiny network; all of its methods, in seconds."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from flatfed.core.configuration.checking import is_schedule
from flatfed.core.configuration.config import parameters
from flatfed.core.configuration.grammar import split
from flatfed.experiments.spelling.methods import parse_measurement, written
from flatfed.flatness.measurements import Measurement

DATASET, SET, SETTINGS, METHODS, REPORT = "dataset", "set", "settings", "methods", "report"
SYNTHETIC = "synthetic"
ROUNDS, CLIENTS, PER_ROUND = 2, 6, 3
SIDE, SCENE_SIDE = 8, 32
"""The sides of pictures, and of scenes with a class per pixel."""
SCENES = ("cityscapes", "idda", "camvid")
TEXTS = ("dbpedia14",)
DOMAINS = ("officehome", "pacs")
BY_NATURE = ("landmarks-user-160k", "mnist-writers", "cityscapes", "idda")
"""Data with many clients by nature, of which a few are asked for."""
CLASSES = {"cifar100": 100}
"""Data of which each client may be asked to have many classes."""
DROPPED = (
    *("weights", "new_head", "data_dir", "device", "bernoulli", "evaluate_last", "checkpoint_every", "min_replies"),
    *("validation", "clients", "per_round", "rounds", "model", "keep_checkpoints", "watch_samples", "batch_size"),
)
"""Options of which nothing is left."""
COUNTS = ("clients", "per_round", "rounds")
"""Options that become small, but still differ where the study is about them."""
FEW = {"samples": 2, "most": 8, "k": 3, "steps": 2, "clients": 2, "batches": 2, "batch": 8}
"""Parameters of measurements and pictures that cost time."""
PICTURE = {"points": 3, "samples": 16}
CORRUPTIONS = "gaussian_noise,contrast"

Content = dict[str, Any]


def smoke_of(study: Mapping[str, Any]) -> Content:
    """Return the smallest form of a study that still has all of its methods, measurements and pictures."""
    content = copy.deepcopy(dict(study))
    grid = _single_values(content.pop("grid", None) or {})
    for part in ("select", "tune"):
        content.pop(part, None)
    report = dict(content.pop(REPORT, None) or {})
    against = str(report.get("against", ""))
    settings = _few_settings(content, against)
    dataset = content.pop(DATASET, None)
    common = _options({name: value for name, value in content.items() if name not in (SETTINGS, METHODS)})
    common |= {"rounds": ROUNDS, "per_round": PER_ROUND, "evaluate_every": 1, "watch_samples": 16, "seeds": [0]}
    small: Content = {**common, METHODS: _methods(content.get(METHODS))}
    if grid:
        small["grid"] = grid
    small[SETTINGS] = {}
    for number, (name, setting) in enumerate(settings.items()):
        options = _on_synthetic(_options(setting), str(setting.get(DATASET, dataset)), content, setting)
        if against in COUNTS:
            options[against] = _counted(against, number)
        small[SETTINGS][name] = options
    small[REPORT] = _report(report, list(settings))
    return small


def _methods(methods: Any) -> Any:
    """Return the methods, those with options of their own without what costs time."""
    if not isinstance(methods, Mapping):
        return methods
    return {name: _options(entry) if isinstance(entry, Mapping) else entry for name, entry in methods.items()}


def _single_values(grid: Mapping[str, Any]) -> Content:
    """Return what is not searched but set for one method alone, where it costs nothing."""
    kept: Content = {}
    for variant, searched in grid.items():
        values = {name: value for name, value in searched.items() if _is_single(value) and name not in DROPPED}
        if values:
            kept[variant] = values
    return kept


def _is_single(values: Any) -> bool:
    return isinstance(values, list) and len(values) == 1


def _few_settings(content: Content, against: str) -> dict[str, Content]:
    """Return one setting, or two where they are compared or have different data."""
    settings = {str(name): dict(setting or {}) for name, setting in (content.get(SETTINGS) or {"all": {}}).items()}
    names = list(settings)
    chosen = names[:1]
    if against:
        chosen = names[:2]
    else:
        first = settings[names[0]].get(DATASET)
        chosen += [name for name in names[1:] if settings[name].get(DATASET) != first][:1]
    return {name: settings[name] for name in chosen}


def _options(options: Mapping[str, Any]) -> Content:
    """Return options without what costs time or needs real data."""
    kept = {name: value for name, value in options.items() if name.replace("-", "_") not in (*DROPPED, DATASET, SET)}
    named = {name: value for name, value in (options.get(SET) or {}).items() if not _is_of_data(name)}
    if "local_epochs" in kept:
        kept["local_epochs"] = min(2, int(kept["local_epochs"]))
    if "watch" in kept:
        kept["watch"] = ",".join(f"{_cheap(part.rpartition(':')[0])}:1" for part in split(str(kept["watch"]), ","))
    if named:
        kept[SET] = named
    if METHODS in kept:
        kept[METHODS] = _methods(kept[METHODS])
    return kept


def _is_of_data(name: str) -> bool:
    """Say whether a parameter is one of the data or the network, which are others here."""
    return name.startswith(("data.", "model."))


def _on_synthetic(options: Content, like: str, content: Content, setting: Content) -> Content:
    """Return the options of a setting on synthetic data like its own."""
    named: Content = {"data.like": like, "data.train": _examples(like), "data.test": 12}
    target = _given("data.target", content, setting)
    if like in DOMAINS and target is not None:
        named["data.target"] = target
    if like in BY_NATURE:
        named["data.clients"] = CLIENTS
    elif like not in (*DOMAINS, *SCENES):
        options = {**options, "clients": CLIENTS}
    if like not in TEXTS:
        named["data.size"] = SCENE_SIDE if like in SCENES else SIDE
    local_layers = setting.get("local_layers", content.get("local_layers"))
    model = _tiny(like, local_layers is not None)
    return {**options, DATASET: SYNTHETIC, "model": model, SET: {**options.get(SET, {}), **named}}


def _given(name: str, content: Content, setting: Content) -> Any:
    """Return a parameter of a setting, or of the study."""
    common = content.get(SET) or {}
    return (setting.get(SET) or {}).get(name, common.get(name))


def _examples(like: str) -> int:
    if like in SCENES:
        return 12
    return 2 * CLASSES.get(like, 30)


def _tiny(like: str, has_local_layers: bool) -> str:
    """Return a tiny network that takes the data."""
    if like in SCENES:
        return "bisenetv2"
    if like in TEXTS:
        return "textcnn"
    return "cnn-small-bn" if has_local_layers else "cnn-small"


def _counted(name: str, number: int) -> int:
    """Return a small count for a setting, another for each."""
    return {"clients": CLIENTS, "per_round": PER_ROUND, "rounds": ROUNDS}[name] + number


def _report(report: Content, settings: list[str]) -> Content:
    """Return what is reported, with cheap measurements and pictures."""
    if str(report.get("accuracy", "")).startswith("round"):
        report["accuracy"] = "final"
    # Synthetic data have no published values.
    report.pop("published", None)
    flatness = report.get("flatness")
    if flatness:
        listed = ["lambda_max"] if flatness is True else flatness
        report["flatness"] = _all_cheap(listed)
    if "figures" in report:
        report["figures"] = {name: _picture(dict(figure), settings) for name, figure in report["figures"].items()}
    return report


def _picture(figure: Content, settings: list[str]) -> Content:
    """Return a picture of few points."""
    if "settings" in figure:
        figure["settings"] = [name for name in figure["settings"] if name in settings] or settings
    if figure.get("draw") == "landscape":
        figure |= PICTURE
    if figure.get("draw") == "robustness":
        figure["corruptions"] = CORRUPTIONS
    if "measure" in figure:
        figure["measure"] = _all_cheap(figure["measure"])
    return figure


def _all_cheap(measurements: Any) -> str:
    """Return measurements, a text or a list, that take little time."""
    text = measurements if isinstance(measurements, str) else ", ".join(measurements)
    return ", ".join(_cheap(part.strip()) for part in split(text, ","))


def _cheap(text: str) -> str:
    """Return a measurement that takes little time."""
    measurement = parse_measurement(text)
    changes = {}
    for name in parameters(type(measurement)):
        value = getattr(measurement, name)
        if name in FEW and not is_schedule(value) and (value is None or value > FEW[name]):
            changes[name] = FEW[name]
    values = {name: getattr(measurement, name) for name in parameters(type(measurement))}
    return written(Measurement.registry.make(measurement.id, **(values | changes)))
