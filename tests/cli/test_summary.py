"""The start-up summary: what is about to be trained, before it starts; and the same in every report."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command import SMALL, Outcome, flatfed, on_terminal, read_history, read_json
from records import rewrite, unmark

NAMES = ("data", "clients", "partition", "network", "training", "method", "per round", "writes to")


def summary(outcome: Outcome) -> list[str]:
    """Return the lines of the summary, each with what was wrapped behind it."""
    lines: list[str] = []
    for line in outcome.err.splitlines():
        if line.startswith(" " * 11):
            lines[-1] += f" {line.strip()}"
        elif line.startswith((*NAMES, "methods")):
            lines.append(line)
    return lines


@pytest.mark.parametrize("columns", [80, 120])
def test_what_is_trained_is_reported_before_it_starts(columns: int) -> None:
    given = ("--alpha", "0.1", "--set", "client_opt.rho=0.25", "--lr", "0.05")
    outcome = on_terminal("run", "digits", "feddyn+sam+swa", *SMALL, *given, "--out", "out", columns=columns)
    assert outcome.code == 0, outcome.err
    # What turns while data are loaded stands before it, as often as it was drawn.
    shown = outcome.err[outcome.err.index("data       digits") :]
    before, _, _ = shown.partition("writes to  out")
    assert len(before.splitlines()) <= 13
    assert all(len(line) <= columns for line in before.splitlines())
    text = " ".join(before.split())
    for part in (
        *("digits: 1,437 examples, 10 classes; test 360", "5; min/mean/max examples 287/287/287, classes "),
        *("dirichlet(alpha=0.1, prior=uniform, size_sigma=0)", "alpha is the total over 10 classes, 0.01 for each"),
        *("logreg: 650 parameters, 2.6 kB; augmentation crop(padding=1)", "3 rounds, 2 clients per round (uniform)"),
        *("1 local epoch, batch 64, lr=0.05, weight_decay=0.0004", "weighting samples, float32, seed 0"),
        *(
            "feddyn+sam+swa: alpha=0.01, client_opt=sam(rho=0.25, space=trained)",
            "average swa(start=0.75, cycle=10, lr_low=",
        ),
        *("2 clients; model-sized vectors per client: 1 down (5.2 kB in all), 1 up (5.2 kB)", "backprops per step: 2"),
    ):
        assert part in text, before


def test_bytes_and_backprops_are_those_of_the_rounds() -> None:
    small = [*SMALL, "--model", "cnn-small-bn", "--batch-size", "full"]
    assert flatfed("run", "digits", "scaffold+sam", *small, "--out", "out").code == 0
    cost, row = read_json(Path("out/config.json"))["setting"]["cost"], read_history(Path("out"))[1]
    for way in ("down", "up"):
        assert row[f"bytes_{way}"] == pytest.approx(cost[f"bytes_{way}"], rel=0.01)
    assert row["backprops"] == 2 * int(cost["backprops_per_step"])


def test_standard_output_stays_clean() -> None:
    outcome = flatfed("run", "digits", "fedavg", *SMALL, "--json", "--out", "out")
    assert [line.split("  ")[0].strip() for line in summary(outcome)] == list(NAMES)
    assert outcome.json["methods"]


def test_a_comparison_tells_the_common_part_once_and_a_line_per_method(comparison: Path) -> None:
    methods = ("fedavg", "fedsam", "fedgmt")
    outcome = flatfed("compare", "digits", *methods, *SMALL, "--seeds", "0,4", "--out", "out")
    lines = summary(outcome)
    assert [line[:9].strip() for line in lines] == [*NAMES[:5], "methods", "writes to"]
    assert "seeds 0, 4" in lines[4]
    starts = [outcome.err.index(f"{name}: ") for name in methods]
    assert starts == sorted(starts)
    assert "fedsam: rho=0.05, space=trained, server_lr=1; 1 down, 1 up, backprops per step: 2" in " ".join(
        outcome.err.split()
    )
    assert outcome.err.index("writes to") < outcome.err.index("round 0/3")


def test_resuming_tells_it_too(run: Path, comparison: Path) -> None:
    outcome = flatfed("resume", run, "--rounds", "4")
    assert [line.split("  ")[0].strip() for line in summary(outcome)] == list(NAMES)
    assert "4 rounds, 2 clients per round" in outcome.err
    assert "methods    fedavg: server_lr=1, client_opt=sgd; 1 down, 1 up" in flatfed("resume", comparison).err


def test_a_run_from_before_it_was_recorded_is_reported_as_well(run: Path) -> None:
    config = read_json(run / "config.json")
    del config["setting"]
    config["task"] |= {"model_options": {}}
    rewrite(run / "config.json", config)
    before = summary(flatfed("show", run))
    assert before == []
    lines = summary(flatfed("resume", run, "--rounds", "4"))
    assert [line.split("  ")[0].strip() for line in lines] == list(NAMES)
    assert "## Setting" in (run / "report.md").read_text()


def test_nothing_is_reported_of_what_is_refused(run: Path) -> None:
    assert summary(flatfed("run", "digits", "fedavg", *SMALL, "--per-round", "9")) == []
    assert summary(flatfed("run", "digits", "fedavg", *SMALL, "--out", run)) == []
    assert summary(flatfed("resume", run, "--rounds", "1")) == []
    assert summary(flatfed("compare", "digits", "fedavg", *SMALL, "--out", run)) == []


def test_the_report_holds_the_setting_and_versions(run: Path, comparison: Path) -> None:
    section = (run / "report.md").read_text().partition("## Setting")[2]
    reported = (
        "**data** digits",
        "**network** logreg",
        "**method** fedsam: rho=0.05",
        "**versions** flatfed ",
        "torch ",
        "Python ",
    )
    assert all(part in section for part in reported)
    section = (comparison / "report.md").read_text().partition("## Setting")[2]
    assert section.count("**data**") == 1
    assert all(f"{method}: " in section for method in ("fedavg", "feddyn+sam", "fedsam"))
    setting = read_json(comparison / "results.json")["setting"]
    assert list(setting) == ["fedavg", "feddyn+sam", "fedsam"]
    assert setting["fedsam"]["algorithm"] == {"id": "fedsam", "rho": 0.05} | setting["fedsam"]["algorithm"]
    assert setting["fedsam"]["model"]["name"] == "logreg"
    assert set(setting["fedsam"]["versions"]) == {"flatfed", "torch", "Python"}


# The record.


def test_the_record_says_what_was_used() -> None:
    assert flatfed("run", "digits", "fedavg", "--rounds", "1", "--workers", "0", "--out", "out").code == 0
    config = read_json(Path("out/config.json"))
    assert (config["task"]["model"], config["task"]["clients"]) == ("cnn-small", 100)
    setting = config["setting"]
    sizes = {"options": {}, "parameters": 13_706, "bytes": 54_824}
    assert setting["model"] == {"name": "cnn-small", "class": "Sequential", **sizes}
    assert setting["partition"] == {"id": "dirichlet", "alpha": 0.5, "prior": "uniform", "size_sigma": 0.0}
    assert setting["augmentation"] == {"names": ["crop(padding=1)"], "default": True}
    assert setting["clients"]["count"] == 100 and setting["clients"]["examples"]["mean"] == 14.0
    assert setting["data"]["tests"] == {"test": 360}


def test_a_default_that_was_written_out_changes_nothing() -> None:
    tiny = ("--rounds", "1", "--workers", "0")
    explicit = ("--model", "cnn-small", "--clients", "100", "--augment", "crop(1)", "--per-round", "5")
    assert flatfed("run", "digits", "fedavg", *tiny, "--out", "a").code == 0
    assert flatfed("run", "digits", "fedavg", *tiny, *explicit, "--alpha", "0.5", "--seed", "1", "--out", "b").code == 0
    assert [m["seeds"] for m in flatfed("show", "a", "b", "--json").json["methods"]] == [[0, 1]]


def test_one_seed_twice_is_counted_once_on_the_command_line(run: Path) -> None:
    assert flatfed("run", "digits", "fedsam", *SMALL, "--out", "again").code == 0
    outcome = flatfed("show", run, "again", "--json")
    assert outcome.json["methods"][0]["seeds"] == [0]
    assert outcome.err == f"again repeats {run} (seed 0); it is counted once\n"
    history = Path("again/history.jsonl")
    unmark(Path("again"))
    history.write_text(history.read_text().replace('"train_loss": ', '"train_loss": 1'))
    outcome = flatfed("show", run, "again")
    assert outcome.code == 2 and outcome.out == ""
    assert f"{run} and again are both seed 0 of fedsam" in outcome.err


def test_every_value_of_a_sweep_is_named() -> None:
    for rho in ("0.01", "0.05"):
        assert flatfed("run", "digits", "fedsam", *SMALL, "--set", f"rho={rho}", "--out", rho).code == 0
    assert [m["method"] for m in flatfed("show", "0.01", "0.05", "--json").json["methods"]] == [
        "fedsam rho=0.01",
        "fedsam rho=0.05",
    ]
    assert [m["method"] for m in flatfed("show", "0.05", "--json").json["methods"]] == ["fedsam"]


def test_a_pooled_method_and_an_average_of_nothing_are_reported() -> None:
    outcome = flatfed("compare", "digits", "centralised", "fedavg+swa", *SMALL, "--out", "out")
    reported = " ".join(outcome.err.split())
    assert "centralised: client_opt=sgd; all clients' examples in one place; 1 down" in reported
    assert "which takes no model in this number of rounds; 1 down" in reported
