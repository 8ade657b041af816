"""What people say of a published study: `about.yaml` beside its file. Sentences stand there, numbers never do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flatfed.core.configuration.values import read_yaml
from flatfed.core.errors import ConfigError, nearest
from flatfed.machine import read_regular
from flatfed.published.claims import claims
from flatfed.published.claims.claim_file import settings as claim_settings
from flatfed.published.numbers import papers as known_papers

FILE = "about.yaml"
CANNOT_RUN = "impossible.yaml"
"""The file beside the studies that says which claims cannot be run here, and why."""
ENTRIES = (
    "question",
    "papers",
    "stands for",
    "limits",
    "pairs",
    "cannot judge",
    "is timed",
    "draws printed",
    "rate by test accuracy",
    "finds",
    "in the README",
)
OF_FINDING = ("what", "of", "against")
OF_PAIR = ("method", "differs", "paper", "code", "paper side", "code side", "page")
POINTS = "points"
"""What a pair may have besides."""


@dataclass(frozen=True)
class FormPair:
    """A method as a paper has it and as code has it.

    Attributes:
        method: for people: `FedGloSS`.
        differs: in what, in a sentence.
        paper: the variant that is the paper side.
        code: the variant that is the code side.
        paper_side: whose the paper side is: a paper's, or our reading.
        code_side: whose the code side is: the authors' own, or that of others.
        page: the page in docs/algorithms that tells the difference, without its ending.
        points: how the points of that page begin that tell it.
    """

    method: str
    differs: str
    paper: str
    code: str
    paper_side: str
    code_side: str
    page: str
    points: tuple[str, ...] = ()


@dataclass(frozen=True)
class AddedPart:
    """Two methods whose difference says what a part of one of them adds.

    Attributes:
        what: for people, without a number: `SAM at the clients`.
        of: the variant that has it.
        against: the variant that has it not.
    """

    what: str
    of: str
    against: str


@dataclass(frozen=True)
class StudyWords:
    """What a study is about.

    Attributes:
        question: that it answers.
        differences: by paper, in what the study differs from it.
        stands_for: the study's setting for some of the claims'; one of the same name stands for it anyway.
        limits: what cannot be concluded from it, and how values were chosen; what weighs most comes first.
        pairs: of a study of papers against code.
        cannot_judge: claims of which the study says too little, each with the reason.
        is_timed: whether its runs had the machine to themselves, so that their times can be compared.
        draws_printed: whether curves are drawn beside the papers' end points: its runs are the papers', but shorter.
        rate_by_test: whether its learning rate was chosen by test accuracy, of other runs.
        finds: differences that say what parts of methods add, in the order of the page.
        in_readme: whether the README shows it, rather than the study with the most methods.
    """

    question: str
    differences: Mapping[str, tuple[str, ...]]
    stands_for: Mapping[str, str]
    limits: tuple[str, ...] = ()
    pairs: tuple[FormPair, ...] = ()
    cannot_judge: Mapping[str, str] = field(default_factory=dict)
    is_timed: bool = False
    draws_printed: bool = False
    rate_by_test: bool = False
    finds: tuple[AddedPart, ...] = ()
    in_readme: bool = False


def read_about(file: Path) -> StudyWords:
    """Read what is said of a study, or say what is wrong with it."""
    try:
        content = read_yaml(read_regular(file).decode("utf-8"))
        return _about(content)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from None
    except ConfigError as error:
        raise error.within(str(file)) from None


def read_cannot_run(root: Path) -> dict[str, str]:
    """Return the claims that cannot be run here, each with the reason; none where the file is not there."""
    file = root / CANNOT_RUN
    if not file.is_file():
        return {}
    try:
        content = read_yaml(read_regular(file).decode("utf-8"))
        if not isinstance(content, Mapping):
            raise ConfigError("write claims with the reason of each: {fedsam-45: its data are not to be had}")
        return read_reasons(content)
    except ConfigError as error:
        raise error.within(str(file)) from None


def _about(content: Any) -> StudyWords:
    if not isinstance(content, Mapping):
        raise ConfigError("write `question:`, `papers:` and what else there is to say")
    for name in content:
        _refuse_unknown(str(name), ENTRIES, "entry")
    differences = {str(paper): _sentences(said) for paper, said in (content.get("papers") or {}).items()}
    for paper in differences:
        _refuse_unknown(paper, known_papers(), "paper")
    stands_for = {str(theirs): str(ours) for theirs, ours in (content.get("stands for") or {}).items()}
    for theirs in stands_for:
        _refuse_unknown(theirs, claim_settings(), "setting of claims")
    if not content.get("question"):
        raise ConfigError("the question is missing")
    return StudyWords(
        question=" ".join(str(content["question"]).split()),
        differences=differences,
        stands_for=stands_for,
        limits=_sentences(content.get("limits")),
        pairs=tuple(_pair(entry) for entry in content.get("pairs") or []),
        cannot_judge=_reasons(content, "cannot judge"),
        is_timed=_switch(content, "is timed"),
        draws_printed=_switch(content, "draws printed"),
        rate_by_test=_switch(content, "rate by test accuracy"),
        finds=tuple(_finding(entry) for entry in content.get("finds") or []),
        in_readme=_switch(content, "in the README"),
    )


def _switch(content: Mapping[Any, Any], name: str) -> bool:
    """Return an entry that is on or off; off where it is not there."""
    value = content.get(name, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is true or false, not {value!r:.60}")
    return value


def _reasons(content: Mapping[Any, Any], entry: str) -> dict[str, str]:
    """Return some claims, each with the reason why a study says too little of it."""
    entries = content.get(entry) or {}
    if not isinstance(entries, Mapping):
        raise ConfigError(f"write under `{entry}` claims with their reasons: {{fedgf-78: the threshold is too low}}")
    return read_reasons(entries)


def read_reasons(entries: Mapping[Any, Any]) -> dict[str, str]:
    """Return reasons by the claim that they are of."""
    known = [claim.id for claim in claims()]
    for name in entries:
        _refuse_unknown(str(name), known, "claim")
    return {str(name): " ".join(str(reason).split()) for name, reason in entries.items()}


def _finding(entry: Any) -> AddedPart:
    if not isinstance(entry, Mapping) or set(entry) != set(OF_FINDING):
        raise ConfigError(f"a finding has {', '.join(OF_FINDING)}")
    return AddedPart(**{name: " ".join(str(entry[name]).split()) for name in OF_FINDING})


def _sentences(content: Any) -> tuple[str, ...]:
    entries = content if isinstance(content, list) else [content]
    for entry in entries:
        if entry is not None and not isinstance(entry, str):
            raise ConfigError(f"a sentence is a text, not {entry!r:.60}; one with a colon is put in quotes")
    return tuple(" ".join(entry.split()) for entry in entries if entry)


def _pair(entry: Any) -> FormPair:
    if not isinstance(entry, Mapping) or set(entry) - {POINTS} != set(OF_PAIR):
        raise ConfigError(f"a pair has {', '.join(OF_PAIR)}, and it may have {POINTS}")
    words = {name.replace(" ", "_"): " ".join(str(entry[name]).split()) for name in OF_PAIR}
    return FormPair(**words, points=_sentences(entry.get(POINTS)))


def _refuse_unknown(name: str, known: Any, kind: str) -> None:
    if name not in known:
        raise ConfigError(nearest(name, known, kind))
