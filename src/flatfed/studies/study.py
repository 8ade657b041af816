"""A study: variants of methods, settings, parameters to search, seeds, and what is reported of them."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatfed.core.errors import PARAMETER, ConfigError, nearest
from flatfed.studies.drawing.figure import figure_faults
from flatfed.studies.parts import Fault, Reporting, Selection, Way
from flatfed.studies.tuning.ranges import Space, fault_of_range

if TYPE_CHECKING:
    from flatfed.studies.checking.check_study import Checked
    from flatfed.studies.results import StudyTable

LONGEST = 80
"""Characters of a name: it becomes a folder's."""
LONGEST_BYTES = 200
"""Bytes of it: systems take 255 with what is added for a while."""
MANY = 10_000
"""More seeds, or values of a parameter, than anybody means."""
METHODS = "methods"
"""What holds the options that single variants have in a setting."""
ONLY = "only"
"""What names the variants that a setting has, where it has not all."""
DATASET = "dataset"
ALL = "all"
"""What a grid calls every method."""
FORBIDDEN = set('/\\:*?"<>|\0')
"""What some system does not take in a folder's name."""

Options = Mapping[str, Any]
Point = tuple[tuple[str, Any], ...]
"""One choice for each parameter that is searched."""


class FaultyStudyError(ConfigError):
    """What is wrong with a study as a whole: all of it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(f"{'.'.join(way)}: {message}" for way, message in faults))
        self.faults = faults


@dataclass(frozen=True)
class Study:
    """What is trained, and what is reported of it.

    Args:
        methods: variants by name, each with its spelling: `{"no ADMM": "fedgloss(admm=false)"}`.
        settings: columns by name, each with the options in which it differs: `{"alpha 0": {"alpha": 0}}`. With `only`,
            a list of variants, a setting has these alone.
        method_options: options that a variant alone has, in every setting: `{"upper bound": {"rounds": 500}}`. They go
            before those of the setting. A setting may hold such options too, under `methods`, which go before all.
        options: what all have in common, by the names of the options of `flatfed run`; `dataset` is one of them.
        seeds: each variant is trained with each in each setting.
        grid: for a variant, or `all`, the parameters to search: `{"fedsam": {"rho": [0.01, 0.05]}}`.
        tune: for a variant, or `all`, the ranges of parameters: `{"fedsam": {"rho": {"log": (0.01, 0.5)}}}`.
        select: how the best of them is chosen.
        report: what is reported.
        title: for people.
        file: where it was read; what code it names is judged by that.
        lines: where its entries stand there.
    """

    methods: Mapping[str, str]
    options: Options
    settings: Mapping[str, Options] = field(default_factory=lambda: {"": {}})
    seeds: tuple[int, ...] = (0,)
    grid: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict)
    select: Selection = field(default_factory=Selection)
    report: Reporting = field(default_factory=Reporting)
    title: str = ""
    tune: Mapping[str, Space] = field(default_factory=dict)
    method_options: Mapping[str, Options] = field(default_factory=dict)
    file: Path | None = field(default=None, compare=False)
    lines: Mapping[Way, int] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def read(cls, file: str | Path) -> Study:
        """Read a study's file, or raise everything that is wrong with it, each with its line."""
        from flatfed.studies.reading import read_study

        return read_study(Path(file))

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Study:
        """Return the study that a mapping describes, written as a study's file is."""
        from flatfed.studies.reading import study_of

        return study_of(content)

    def check(self, jobs: int | None = None, trust: bool = False) -> Checked:
        """Try each method in each setting, and return what all takes and what is wrong: `mistakes`.

        Args:
            jobs: cells at once, for the time; None is as many as there are cores.
            trust: whether the study's file, where there is one, may name any code.
        """
        from flatfed.studies.run_study import checked_study

        return checked_study(self, jobs, trust)

    def run(
        self, folder: str | Path, jobs: int | None = None, retry_failed: bool = False, trust: bool = False
    ) -> StudyTable:
        """Train what is not finished yet in a folder, as `flatfed study run` does, and return the table.

        The report is written into the folder. What cannot be measured, reported or drawn is a warning.

        Args:
            folder: the study's folder; others may work on it at the same time.
            jobs: cells at once, each in a process; None is as many as there are cores.
            retry_failed: whether cells are tried again that have failed.
            trust: whether the study's file, where there is one, may name any code.
        """
        from flatfed.studies.run_study import run_study

        return run_study(self, Path(folder), jobs, retry_failed, trust)

    def __post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            raise FaultyStudyError(faults)

    def _faults(self) -> Iterator[Fault]:
        """Yield what is wrong with it."""
        if not self.methods:
            yield ("methods",), "there is none; name at least one, such as fedavg"
        yield from name_faults(self.methods, "methods")
        if ALL in self.methods:
            yield ("methods", ALL), f"{ALL} stands for every method in a grid; give another name"
        named = [name for name in self.settings if name or len(self.settings) > 1]
        yield from name_faults(named, "settings")
        yield from self._faults_of_only()
        yield from self._faults_of_method_options()
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            yield ("seeds",), "seeds must be different whole numbers, such as 0,1,2"
        yield from self._faults_of_grid()
        yield from self._faults_of_tuning()
        yield from self.select.faults(self.seeds if self.grid or self.tune else ())
        yield from self.report.faults(list(self.methods))
        yield from self._faults_of_against()
        yield from self._faults_of_figures()

    def _faults_of_only(self) -> Iterator[Fault]:
        """Yield what is wrong with the variants that single settings have."""
        for setting, options in self.settings.items():
            if ONLY not in options:
                continue
            way = ("settings", setting, ONLY)
            only = options[ONLY]
            if not isinstance(only, list | tuple) or not only or not all(isinstance(name, str) for name in only):
                yield way, "write the names of the methods that this setting has as a list, such as [fedavg, fedsam]"
                continue
            for variant in only:
                if variant not in self.methods:
                    yield way, nearest(variant, self.methods, "method")
            if len(set(only)) < len(only):
                yield way, "a method stands there twice"
            for variant in self.options_by_method(setting):
                if variant in self.methods and variant not in only:
                    yield ("settings", setting, METHODS, variant), f"{ONLY} does not name it; add it there"
        yield from self._faults_of_methods_without_setting()

    def _faults_of_methods_without_setting(self) -> Iterator[Fault]:
        """Yield variants that no setting has."""
        named = [options.get(ONLY) for options in self.settings.values()]
        lists = [only for only in named if isinstance(only, list | tuple)]
        # A setting without such a list has all of them; without a setting that could be read nothing is known.
        if not lists or len(lists) < len(named):
            return
        for variant in self.methods:
            if not any(variant in only for only in lists):
                yield ("methods", variant), f"no setting has it; name it under {ONLY} of one, or leave it out"

    def methods_in(self, setting: str) -> list[str]:
        """Return the variants that a setting has, in the order of the study."""
        only = self.settings[setting].get(ONLY, self.methods)
        return [variant for variant in self.methods if variant in only]

    def _faults_of_method_options(self) -> Iterator[Fault]:
        """Yield variants that there are not, and data that one alone would have."""
        places: dict[Way, Mapping[str, Options]] = {("methods",): self.method_options}
        for setting in self.settings:
            places["settings", setting, METHODS] = self.options_by_method(setting)
        for way, by_method in places.items():
            for variant, options in by_method.items():
                if variant not in self.methods:
                    yield (*way, variant), nearest(variant, self.methods, "method")
                if not isinstance(options, Mapping):
                    yield (*way, variant), "write the options that it has, such as {rounds: 5}"
                elif DATASET in options:
                    yield (*way, variant, DATASET), "all methods of a setting have the same data; make it a setting"

    def options_by_method(self, setting: str) -> Mapping[str, Options]:
        """Return the options that single variants have in one setting."""
        by_method = self.settings[setting].get(METHODS)
        return by_method if isinstance(by_method, Mapping) else {}

    def _faults_of_against(self) -> Iterator[Fault]:
        name = self.report.against
        if name and len({self.number_of(setting, name) for setting in self.settings} - {None}) < 2:
            yield ("report", "against"), f"no two settings have different numbers for {name!r:.60}; name what they set"

    def number_of(self, setting: str, name: str) -> float | None:
        """Return an option or parameter of a setting as a number; None where it is not set, or is none."""
        for options in (self.settings[setting], self.options):
            value = _named_option(options, name)
            if value is not None:
                return _as_number(value)
        return None

    def _faults_of_figures(self) -> Iterator[Fault]:
        figures = self.report.figures
        for way, message in name_faults(figures, "figures"):
            yield ("report", *way), message
        # That there are no methods at all is said elsewhere.
        wanted = figures if self.methods else {}
        for way, message in figure_faults(wanted, list(self.methods), list(self.settings), self.seeds):
            yield ("report", "figures", *way), message

    def _faults_of_grid(self) -> Iterator[Fault]:
        for variant, searched in self.grid.items():
            for name, values in searched.items():
                way = ("grid", variant, name)
                words = [str(value) for value in values]
                twice = [word for word, count in Counter(words).items() if count > 1]
                if twice:
                    yield way, f"{twice[0]} stands there twice"
                for word in words:
                    if not word.strip() or set(word) & FORBIDDEN or not word.isprintable():
                        yield way, f"{word!r:.40} cannot be the name of a folder; search other values"
        for variant in self.methods:
            longest = max((len(spelled_point(point).encode()) for point in self.points(variant)), default=0)
            if longest > LONGEST_BYTES:
                yield ("grid",), f"the parameters of {variant!r} have names and values that are too long together"

    def _faults_of_tuning(self) -> Iterator[Fault]:
        for variant, space in self.tune.items():
            if variant != ALL and variant not in self.methods:
                yield ("tune", variant), nearest(variant, [*self.methods, ALL], "method")
            for name, range in space.items():
                fault = fault_of_range(range)
                if fault:
                    yield ("tune", variant, name), fault

    def space(self, variant: str) -> Space:
        """Return the ranges in which a variant's parameters are tuned."""
        return dict(self.tune.get(ALL, {})) | dict(self.tune.get(variant, {}))

    def place(self, way: Way) -> str:
        """Return where an entry stands: a line of the file, or its name in Python."""
        return place_of(way, self.file, self.lines)

    def points(self, variant: str) -> list[Point]:
        """Return the points of a variant's grid; one that has none has one point, with nothing to choose."""
        searched = dict(self.grid.get(ALL, {})) | dict(self.grid.get(variant, {}))
        named = [[(name, value) for value in values] for name, values in searched.items()]
        return list(itertools.product(*named))

    def is_searched(self, variant: str) -> bool:
        """Say whether parameters of a variant are to be chosen."""
        return len(self.points(variant)) > 1

    def columns(self) -> Iterator[tuple[str, str]]:
        """Yield every setting with each of its variants."""
        for setting in self.settings:
            for variant in self.methods_in(setting):
                yield setting, variant


def _named_option(options: Options, name: str) -> Any:
    """Return an option by its name, or a parameter that stands under `set`, perhaps for one variant; None for none."""
    plain = {key.replace("-", "_"): value for key, value in options.items()}
    given = plain.get("set")
    if isinstance(given, Mapping):
        plain = {str(key).rpartition(":")[2]: value for key, value in given.items()} | plain
    return plain.get(name, plain.get(name.replace("-", "_")))


def _as_number(value: Any) -> float | None:
    """Return a number that may be written as a word, as YAML takes 1e-3; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def place_of(way: Way, file: Path | None = None, lines: Mapping[Way, int] | None = None) -> str:
    """Return the line of an entry, or of the nearest around it; without a file its name."""
    if file is None:
        return ".".join(way) or "study"
    numbers = lines or {}
    while way and way not in numbers:
        way = way[:-1]
    return f"{file}, line {numbers.get(way, 1)}"


def name_faults(names: Iterable[str], of: str) -> Iterator[Fault]:
    """Yield what is wrong with names that are to be folders, one beside the other."""
    seen: dict[str, str] = {}
    for name in names:
        fault = _fault_of_name(name)
        if fault:
            yield (of, name), fault
        # Some systems take capitals for small letters, and write accents in another way.
        same = unicodedata.normalize("NFC", name).casefold()
        if same in seen:
            yield (of, name), f"the names {seen[same]!r} and {name!r} are the same folder on some systems; change one"
        seen[same] = name


def _fault_of_name(name: str) -> str:
    """Return why no folder can have a name, or nothing."""
    if set(name) & FORBIDDEN or not name.isprintable():
        return f"the name {name!r} holds a character that a folder cannot have; leave it out"
    if not name.strip() or name != name.strip() or name.startswith(".") or name.endswith("."):
        return f"the name {name!r} is empty, or begins or ends with a space or a point"
    if len(name) > LONGEST or len(name.encode()) > LONGEST_BYTES:
        return f"the name {name[:30]!r}... is longer than {LONGEST} characters"
    return ""


def log_range(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return numbers from `low` to `high` with equal ratios: 0.01, 0.1, 1 for three."""
    if not 0 < low < high < math.inf or not 2 <= count <= MANY:
        raise ConfigError(
            f"{PARAMETER} of a log range needs 0 < low < high and 2 to {MANY:,} numbers", parameter="grid"
        )
    ratio = math.log(high / low) / (count - 1)
    inner = [float(f"{low * math.exp(ratio * number):.6g}") for number in range(1, count - 1)]
    return (low, *inner, high)


def spelled_point(point: Point) -> str:
    """Return a point as people write it, which is its folder's name too: `rho=0.05,beta=10`."""
    return ",".join(f"{name.replace(':', '.')}={value}" for name, value in point)
