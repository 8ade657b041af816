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
ENTRIES = ("question", "papers", "stands for", "limits", "pairs", "cannot judge", "is timed", "draws printed")
OF_PAIR = ("method", "differs", "paper", "code", "page")


@dataclass(frozen=True)
class FormPair:
    """A method as its paper has it and as its authors' code has it.

    Attributes:
        method: for people: `FedGloSS`.
        differs: in what, in a sentence.
        paper: the variant that is the paper's form.
        code: the variant that is the code's form.
        page: the page in docs/algorithms that tells the difference, without its ending.
    """

    method: str
    differs: str
    paper: str
    code: str
    page: str


@dataclass(frozen=True)
class StudyWords:
    """What a study is about.

    Attributes:
        question: that it answers.
        differences: by paper, in what the study differs from it.
        stands_for: the study's setting for some of the claims'; one of the same name stands for it anyway.
        limits: what cannot be concluded from it.
        pairs: of a study of papers against code.
        cannot_judge: claims of which the study says too little, each with the reason.
        is_timed: whether its runs had the machine to themselves, so that their times can be compared.
        draws_printed: whether curves are drawn beside the papers' end points: its runs are the papers', but shorter.
    """

    question: str
    differences: Mapping[str, tuple[str, ...]]
    stands_for: Mapping[str, str]
    limits: tuple[str, ...] = ()
    pairs: tuple[FormPair, ...] = ()
    cannot_judge: Mapping[str, str] = field(default_factory=dict)
    is_timed: bool = False
    draws_printed: bool = False


def read_about(file: Path) -> StudyWords:
    """Read what is said of a study, or say what is wrong with it."""
    try:
        content = read_yaml(read_regular(file).decode("utf-8"))
        return _about(content)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from None
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
    pairs = tuple(_pair(entry) for entry in content.get("pairs") or [])
    question = " ".join(str(content["question"]).split())
    limits = _sentences(content.get("limits"))
    is_timed = _switch(content, "is timed")
    draws_printed = _switch(content, "draws printed")
    return StudyWords(question, differences, stands_for, limits, pairs, _cannot_judge(content), is_timed, draws_printed)


def _switch(content: Mapping[Any, Any], name: str) -> bool:
    """Return an entry that is on or off; off where it is not there."""
    value = content.get(name, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is true or false, not {value!r:.60}")
    return value


def _cannot_judge(content: Mapping[Any, Any]) -> dict[str, str]:
    """Return the claims that a study says too little of, each with the reason."""
    entries = content.get("cannot judge") or {}
    if not isinstance(entries, Mapping):
        raise ConfigError(
            "write claims that it cannot judge with the reason of each: {fedgf-78: the threshold is too low}"
        )
    known = [claim.id for claim in claims()]
    for name in entries:
        _refuse_unknown(str(name), known, "claim")
    return {str(name): " ".join(str(reason).split()) for name, reason in entries.items()}


def _sentences(content: Any) -> tuple[str, ...]:
    entries = content if isinstance(content, list) else [content]
    for entry in entries:
        if entry is not None and not isinstance(entry, str):
            raise ConfigError(f"a sentence is a text, not {entry!r:.60}; one with a colon is put in quotes")
    return tuple(" ".join(entry.split()) for entry in entries if entry)


def _pair(entry: Any) -> FormPair:
    if not isinstance(entry, Mapping) or set(entry) != set(OF_PAIR):
        raise ConfigError(f"a pair has {', '.join(OF_PAIR)}")
    return FormPair(**{name: " ".join(str(entry[name]).split()) for name in OF_PAIR})


def _refuse_unknown(name: str, known: Any, kind: str) -> None:
    if name not in known:
        raise ConfigError(nearest(name, known, kind))
