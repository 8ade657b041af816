"""Before the first round: who is there, and whom a run cannot be begun or resumed with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from flatfed.core.errors import ConfigError, EngineError, FlatfedError
from flatfed.core.method.envelope import Envelope
from flatfed.engines.sites.transport import Answer, NoAnswer, Pulse
from flatfed.experiments.federating.federate import federate
from flatfed.site.data import SiteData
from sites.bench import NAMES, Direct, data_of, federated, pool, service_in, services_in, wanted


class Told(Direct):
    """Real services; what some of them say of themselves in the roll call is changed."""

    def __init__(self, direct: Direct, changes: Mapping[str, Any]) -> None:
        super().__init__(direct.services)
        self.changes = changes

    def ask(
        self, requests: Mapping[str, bytes], seconds: float, limit: int, pulse: Pulse
    ) -> Iterator[tuple[str, Answer]]:
        for address, answer in super().ask(requests, seconds, limit, pulse):
            change = self.changes.get(address)
            if change is not None and Envelope.from_bytes(requests[address]).kind == "hello":
                answer = change(Envelope.from_bytes(answer)) if callable(change) else change
            yield address, answer


def facts(**changes: Any) -> Any:
    return lambda envelope: Envelope(envelope.kind, {**envelope.facts, **changes}).to_bytes()


def without(name: str) -> Any:
    return lambda envelope: Envelope(
        envelope.kind, {key: value for key, value in envelope.facts.items() if key != name}
    ).to_bytes()


def refused(direct: Direct, changes: Mapping[str, Any], home: Path, **options: Any) -> str:
    with pytest.raises(FlatfedError) as caught:
        federated(Told(direct, changes), "fedavg", home / "run", roll_call_seconds=0.01, **options)
    assert not (home / "run").exists()
    text = str(caught.value)
    assert "\n" not in text
    assert text.isprintable()
    return text


def test_another_flatfed_is_refused(home: Path) -> None:
    text = refused(services_in(home), {"b": facts(code="f" * 64)}, home)
    assert text.startswith("the site b has another flatfed (ffffffffffff) than the server")
    assert text.endswith("install the same release on both")


def test_other_classes_are_refused(home: Path) -> None:
    direct = services_in(home)
    other = SiteData(pool(9, classes=4), [torch.arange(20)])
    direct.services["b"] = service_in(home, "b", other)
    text = refused(direct, {}, home)
    assert "the sites a and b have different data: classes is 3 and 4" in text


def test_two_sites_of_one_name_are_refused(home: Path) -> None:
    direct = services_in(home)
    direct.services["d"] = direct.services["b"]
    assert "two nodes say that they are the site b; stop one of them" in refused(direct, {}, home)


def test_a_site_that_does_not_answer_is_named(home: Path) -> None:
    direct = services_in(home)
    del direct.services["b"]
    text = refused(direct, {"c": NoAnswer("cannot be reached")}, home)
    assert "did not answer the roll call within 0.01 s" in text
    assert text.startswith("b")
    assert "c" in text.partition(" did not")[0]


def test_a_reason_that_was_heard_once_is_told(home: Path) -> None:
    """The last call is cut short by the end of the time; what was heard before helps more."""
    heard = iter(["is `flatfed site run` there?"])

    def answer(envelope: Envelope) -> Answer:
        return NoAnswer(next(heard, "no reply within 1 s"))

    direct = Told(services_in(home), {"b": answer})
    with pytest.raises(EngineError) as caught:
        federated(direct, "fedavg", home / "run", roll_call_seconds=0.6)
    assert "(heard from others: is `flatfed site run` there?" in str(caught.value)


BAD: dict[str, Any] = {
    "garbage": b"\0\1\2",
    "no-name": without("site"),
    "no-data": without("data"),
    "endless": facts(counts=[1e999]),
    "negative": facts(counts=[-1]),
    "nobody": facts(counts=[]),
    "words": facts(counts="many"),
    "deep": lambda envelope: b"flatfed\x01\x00\x01\x00\x00" + b"[" * 65536,
    "arithmetic": facts(arithmetic=[1]),
    "refusal": lambda envelope: Envelope("refused", {"reason": "busy \x1b[2J \ud800"}).to_bytes(),
}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD.keys())
def test_a_site_that_answers_with_something_else_is_not_there(answer: Any, home: Path) -> None:
    text = refused(services_in(home), {"b": answer}, home)
    assert text.startswith("b did not answer the roll call")
    assert "heard from others" in text


def test_sites_that_are_not_expected_are_left_out_and_told_once(home: Path) -> None:
    said: list[str] = []
    direct = services_in(home)
    with pytest.raises(EngineError, match="d did not answer"):
        federate(wanted("fedavg", home / "run", sites=("a", "d"), roll_call_seconds=1.2), direct, None, said.append)
    assert len([text for text in said if "the site b answered, but is not among those" in text]) == 1
    run = federated(direct, "fedavg", home / "run", sites=("a",), sampling=0, rounds=1)
    assert run.history[0]["clients"] == [0, 1]


def test_other_arithmetic_is_told_and_refused_where_bits_are_asked_for(home: Path) -> None:
    changes = {"b": facts(arithmetic={"torch": "9.9\x1b"})}
    said: list[str] = []
    federate(wanted("fedavg", home / "first", rounds=1), Told(services_in(home), changes), None, said.append)
    assert any("to rounding" in text and "b: " in text for text in said)
    assert all(text.isprintable() for text in said)
    assert "arithmetic differs" in refused(services_in(home), changes, home, exact=True)


@pytest.mark.parametrize("sites", [(), ("a", "a")])
def test_names_that_cannot_be_called(sites: tuple[str, ...], home: Path) -> None:
    with pytest.raises(ConfigError):
        federated(services_in(home), "fedavg", home / "run", sites=sites)


def test_what_is_wrong_here_is_found_before_anybody_is_called(home: Path) -> None:
    class Silent(Direct):
        def addresses(self) -> list[str]:
            raise AssertionError("called")

    nobody = Silent({})
    with pytest.raises(ConfigError, match="fedavgg"):
        federated(nobody, "fedavgg", home / "run")
    with pytest.raises(ConfigError, match="no run in"):
        federated(nobody, "fedavg", home / "run", resume=True)
    with pytest.raises(ConfigError, match="rounds"):
        federated(nobody, "fedavg", home / "run", rounds=0)
    federated(services_in(home), "fedavg", home / "run", rounds=1)
    with pytest.raises(ConfigError, match="holds a run already"):
        federated(nobody, "fedavg", home / "run")


def test_a_run_is_resumed_with_the_sites_it_was_begun_with(home: Path) -> None:
    federated(services_in(home), "fedavg", home / "run", rounds=1)
    direct = services_in(home)
    with pytest.raises(FlatfedError, match=r"was begun with .* and now the sites are"):
        federated(direct, "fedavg", home / "run", resume=True, sites=("a", "b"))
    whole = data_of("b")
    direct.services["b"] = service_in(home, "b", SiteData(whole.pool, [whole.parts[0][:-1]]))
    with pytest.raises(FlatfedError, match="put them back, or begin a new run"):
        federated(direct, "fedavg", home / "run", resume=True)
    run = federated(services_in(home), "fedavg", home / "run", resume=True, resume_rounds=2)
    assert (run.status, len(run.history)) == ("finished", 2)


def test_the_roll_is_recorded(home: Path) -> None:
    run = federated(services_in(home), "fedavg", home / "run", rounds=1)
    assert run.directory is not None
    roll = json.loads(run.directory.config["about"]["roll"])
    assert [site["site"] for site in roll["sites"]] == list(NAMES)
    assert [site["examples"] for site in roll["sites"]] == [data_of(name).counts for name in NAMES]
    assert roll["to_rounding"] == []
