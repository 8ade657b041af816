"""The options of a run as a mapping: what is read, refused and merged, and which comparison it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flatfed.algorithms.base_optimisers import AdamW
from flatfed.core.configuration.settings import Settings, about_settings
from flatfed.core.errors import ConfigError
from flatfed.experiments.comparing.comparison import Comparison, Flatness
from flatfed.experiments.comparing.comparison_from_options import comparison_of, first_task, flatness_from
from flatfed.experiments.spelling.declared import OPTIONS
from flatfed.experiments.spelling.options import RunOptions, named_settings
from flatfed.named_code import NamedBy
from flatfed.tracking.mlflow_runs import MLflow

SMALL: dict[str, Any] = {"rounds": 1, "clients": 5, "per_round": 2, "model": "logreg"}

GIVEN: dict[str, tuple[Any, Any]] = {
    "rounds": (3, 3),
    "lr": ("cosine(0.1,0.01,3)", "cosine(0.1,0.01,3)"),
    "batch_size": ("full", "full"),
    "local_epochs": ("2", 2),
    "weight_decay": (1, 1.0),
    "momentum": ("0.9", 0.9),
    "base_opt": (AdamW(beta2=0.99), "adamw(beta1=0.9, beta2=0.99, eps=1e-08, keep=false)"),
    "lr_decay": (0.99, 0.99),
    "clip": (None, None),
    "weighting": ("uniform", "uniform"),
    "dtype": ("float64", "float64"),
    "precision": ("bf16", "bf16"),
    "compile": (True, True),
    "evaluate_every": (5, 5),
    "evaluate_last": (0, 0),
    "min_replies": (2, 2),
    "retries": (0, 0),
    "max_update_norm": (10, 10.0),
    "client_timeout": (1.5, 1.5),
    "exchange_timeout": (9, 9.0),
    "eval_stats": ("recalibrate", "recalibrate"),
    "vectorised": (False, False),
    "cohort_memory": ("500MB", "500MB"),
    "stop_when": (["test_accuracy >= 0.9", "update_norm<1e-3"], "test_accuracy>=0.9, update_norm<0.001"),
    "patience": ("20", 20),
    "min_delta": (0, 0.0),
    "monitor": ("test_loss : min", "test_loss:min"),
    "keep_best": (True, True),
    "lr_plateau": (
        {"factor": 0.1, "patience": 3},
        "factor=0.1, patience=3, min_lr=0.0, min_delta=0.0",
    ),
    "device": ("cpu", "cpu"),
    "clients": (20, 20),
    "per_round": (4, 4),
    "bernoulli": (0.5, 0.5),
    "sampling": ("bernoulli(0.1)", "bernoulli(0.1)"),
    "metrics": ("my_file:F1", "my_file:F1"),
    "alpha": (1, 1.0),
    "beta": ("0.3", 0.3),
    "partition": ("iid", "iid"),
    "partition_seed": (0, 0),
    "validation": (0.1, 0.1),
    "validation_split": ("global", "global"),
    "augment": ("none", False),
    "no_augment": (True, True),
    "data_dir": (Path("data"), "data"),
    "model": ("logreg", "logreg"),
    "weights": ("start.safetensors", "start.safetensors"),
    "new_head": (True, True),
    "local_layers": ("bn-stats", "bn-stats"),
    "watch": ("lambda_max:5", "lambda_max:5"),
    "watch_data": ("test", "test"),
    "watch_samples": ("all", "all"),
    "checkpoint_every": (7, 7),
    "keep_checkpoints": ("4,2", [4, 2]),
    "track": ({"mlflow": {"experiment": "flat"}}, (MLflow(experiment="flat"),)),
}
"""For every option a value as it may be given, and what is read."""


def made(
    content: dict[str, Any], methods: tuple[str, ...] = ("fedavg",), seeds: tuple[int, ...] = (0,), **how: Any
) -> Comparison:
    return comparison_of("digits", methods, seeds, RunOptions.read(content), **how)


def test_every_option_has_a_case_here_and_every_setting_an_option() -> None:
    assert GIVEN.keys() == OPTIONS.keys()
    assert {name for name, about in about_settings().items() if about.group} <= OPTIONS.keys()


@pytest.mark.parametrize("name", GIVEN)
def test_an_option_is_read(name: str) -> None:
    given, expected = GIVEN[name]
    read = RunOptions.read({name: given})
    assert dict(read.values) == {name: expected}
    assert type(read[name]) is type(expected)
    assert RunOptions.read(dict(read.values)) == read


def test_what_is_not_given_has_the_defaults_of_the_command_line() -> None:
    options = RunOptions.read({})
    assert (options["rounds"], options["lr"], options["batch_size"], options["weight_decay"]) == (100, 0.1, 64, 4e-4)
    assert (options["augment"], options["no_augment"], options["new_head"]) == (True, False, False)
    assert (options["watch_data"], options["watch_samples"]) == ("train", 2_000)
    assert (options["clients"], options["alpha"], options["keep_checkpoints"]) == (None, None, None)


def test_nothing_is_a_value_of_a_training_setting_and_says_nothing_elsewhere() -> None:
    options = RunOptions.read({"batch_size": None, "watch_samples": None, "alpha": None, "beta": 0.2})
    assert options["batch_size"] is None
    assert options["watch_samples"] == 2_000
    assert options.short == {"beta": 0.2}


def test_names_of_earlier_versions_and_dashes() -> None:
    read = RunOptions.read({"every": 2, "last": 3, "batched": True, "local_parts": "bn", "per-round": 4})
    assert dict(read.values) == {
        "evaluate_every": 2,
        "evaluate_last": 3,
        "vectorised": True,
        "local_layers": "bn",
        "per_round": 4,
    }
    assert set(Settings.renamed.values()) <= OPTIONS.keys()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"ronds": 3}, "unknown option 'ronds'; did you mean 'rounds'"),
        ({"seed": 3}, "unknown option 'seed'"),
        ({"per-round": 2, "per_round": 2}, "per-round and per_round are the same option; give one of them"),
        ({"every": 2, "evaluate_every": 2}, "every and evaluate_every are the same option"),
        ({"set": 3}, "set must hold `name: value` lines"),
        ({"set": ["rho=1"]}, "set must hold `name: value` lines"),
        ({"alpha": 1, "set": {"partition.alpha": 2}}, "^alpha 1 and partition.alpha=2 say the same thing; give one of"),
        ({"augment": "crop", "no_augment": True}, "^augment and no_augment contradict each other; give one of them"),
    ],
)
def test_what_cannot_be_meant_is_refused(content: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        RunOptions.read(content)
    assert "--" not in str(refused.value)


def test_options_are_a_mapping() -> None:
    lines: Any = ["rounds"]
    with pytest.raises(ConfigError, match="options must be `name: value` lines"):
        RunOptions.read(lines)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("rounds", 0, "0 is not a whole number of at least 1"),
        ("rounds", 2.5, "2.5 is not a whole number of at least 1"),
        ("rounds", True, "True is not a whole number of at least 1"),
        ("clients", 2**70, "is too large"),
        ("batch_size", "none", "'none' is neither 'full' nor a whole number of at least 1"),
        ("watch_samples", "full", "'full' is neither 'all' nor a whole number of at least 1"),
        ("lr", True, "True is not a number"),
        ("lr", "fast", "'fast' is not a number"),
        ("lr_decay", "decay(1,0.5)", r"'decay\(1,0.5\)' is not a number"),
        ("alpha", [1], r"\[1\] is not a number"),
        ("weighting", "equal", "'equal' is not one of 'samples', 'uniform'"),
        ("local_layers", True, "True is not one of 'bn-stats', 'bn'"),
        ("new_head", 1, "1 is neither true nor false"),
        ("vectorised", "yes", "'yes' is neither true nor false"),
        ("augment", 1, "1 is not a list of augmentations"),
        ("augment", "none,crop", "'none' stands alone"),
        ("model", 5, "5 is not text"),
        ("data_dir", True, "True is not a path"),
        ("keep_checkpoints", [1, 1], "names a number twice"),
        ("keep_checkpoints", [True], "is not a list of whole numbers"),
    ],
)
def test_a_wrong_value_is_refused_with_the_name_of_its_option(name: str, value: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: .*{reason}") as refused:
        RunOptions.read({name: value})
    assert refused.value.parameter == name
    assert refused.value.worded("--here").startswith("--here: ")


@pytest.mark.parametrize("name", ["partition", "model", "data_dir", "weights"])
def test_a_name_is_not_empty(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name} is empty; leave it out, or name one"):
        RunOptions.read({name: " "})


@pytest.mark.parametrize(
    ("content", "parameter", "message"),
    [
        ({"alpha": -1}, "alpha", "alpha must be at least 0 and at most 1e+09, not -1.0"),
        (
            {"set": {"partition.alpha": -1}},
            "partition.alpha",
            "partition.alpha must be at least 0 and at most 1e+09, not -1.0",
        ),
        ({"alpha": 1, "partition": "iid"}, "alpha", "alpha: the partition 'iid' has no alpha (it takes no parameters)"),
        ({"alpha": 1, "beta": 1}, "alpha", "alpha (a total over the classes) and beta (per class) are two ways to"),
        ({"bernoulli": 2, "per_round": None}, "bernoulli", "bernoulli must be greater than 0 and at most 1, not 2.0"),
        ({"bernoulli": 0.5}, "bernoulli", "bernoulli and per_round are two ways to sample; give one of them"),
        ({"watch": "lambda_max"}, "watch", "watch: 'lambda_max' does not say every how many rounds"),
        ({"momentum": 1}, "momentum", "momentum must be at least 0 and less than 1, not 1.0"),
        ({"rounds": None}, "rounds", "rounds must be a whole number, not None"),
    ],
)
def test_what_only_the_whole_can_tell_is_refused_by_name(content: dict[str, Any], parameter: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        made(SMALL | content)
    assert str(refused.value).startswith(message)
    assert refused.value.parameter == parameter


def merged(first: dict[str, Any], second: dict[str, Any]) -> RunOptions:
    return RunOptions.read(first).merged(second)


def test_what_is_merged_goes_before_name_by_name() -> None:
    both = merged(
        {"rounds": 5, "lr": 0.1, "set": {"rho": 1, "mu": 2}}, {"rounds": 7, "clip": 3, "set": {"rho": 4, "beta": 5}}
    )
    assert dict(both.values) == {"rounds": 7, "lr": 0.1, "clip": 3.0}
    assert dict(both.settings) == {"rho": 4, "mu": 2, "beta": 5}


@pytest.mark.parametrize(
    ("first", "second", "values", "settings"),
    [
        ({"alpha": 1}, {"beta": 2}, {"beta": 2.0}, {}),
        ({"beta": 1}, {"alpha": 0}, {"alpha": 0.0}, {}),
        ({"alpha": 1, "beta": 1}, {"alpha": 2}, {"alpha": 2.0}, {}),
        ({"alpha": 1}, {"alpha": None}, {"alpha": None}, {}),
        ({"set": {"partition.alpha": 1}}, {"alpha": 2}, {"alpha": 2.0}, {}),
        ({"set": {"partition.alpha": 1}}, {"beta": 2}, {"beta": 2.0}, {"partition.alpha": 1}),
        # A method's own parameters are no options of the partition.
        ({"set": {"beta": 100}}, {"alpha": 0}, {"alpha": 0.0}, {"beta": 100}),
        ({"set": {"alpha": 0.1}}, {"alpha": 2}, {"alpha": 2.0}, {"alpha": 0.1}),
        ({"bernoulli": 0.5}, {"per_round": 2}, {"per_round": 2}, {}),
        ({"per_round": 2}, {"bernoulli": 0.5}, {"bernoulli": 0.5}, {}),
        ({"no_augment": True}, {"augment": "crop"}, {"augment": "crop"}, {}),
        ({"augment": "crop"}, {"no_augment": True}, {"no_augment": True}, {}),
        ({"augment": "crop"}, {"no_augment": False}, {"augment": "crop", "no_augment": False}, {}),
    ],
)
def test_what_says_the_same_in_another_way_is_replaced(
    first: dict[str, Any], second: dict[str, Any], values: dict[str, Any], settings: dict[str, Any]
) -> None:
    both = merged(first, second)
    assert (dict(both.values), dict(both.settings)) == (values, settings)


def test_a_parameter_by_its_full_name_replaces_the_short_one_and_keeps_its_partition() -> None:
    both = merged({"beta": 1}, {"set": {"partition.beta": 2}})
    assert named_settings(both, ["fedavg"]).partition == {"beta": 2}
    comparison = comparison_of("digits", ["fedavg"], [0], both.merged(SMALL))
    assert (comparison.recipe.partition["id"], comparison.recipe.partition["beta"]) == ("dirichlet-per-class", 2.0)


def test_what_is_set_may_serve_many_methods() -> None:
    content = SMALL | {"set": {"rho": 0.3, "fedgloss:beta": 3, "mu": 0.5}}
    [in_brackets] = made(content, ("fedsam(rho=0.7)",)).methods
    assert in_brackets.algorithm.to_dict()["rho"] == 0.7
    [plain] = made(content, ("fedsam",)).methods
    assert plain.algorithm.to_dict()["rho"] == 0.3
    with pytest.raises(ConfigError, match="rho"):
        made(SMALL | {"set": {"roh": 0.3}}, ("fedsam",))


def test_what_is_firm_is_meant_for_these_methods() -> None:
    firm = RunOptions.read({"set": {"mu": 0.5}}, firm=True)
    with pytest.raises(ConfigError, match="mu"):
        comparison_of("digits", ["fedsam"], [0], RunOptions.read(SMALL).merged(firm))
    # What is said anew for many methods is no longer firm.
    assert firm.merged({"set": {"mu": 1}}).firm == frozenset()
    assert RunOptions.read({"set": {"mu": 1, "rho": 1}}).merged(firm).firm == {"mu"}


def test_what_decides_no_result_is_taken_too() -> None:
    content = SMALL | {
        "watch": "lambda_max:1",
        "watch_samples": "all",
        "checkpoint_every": 3,
        "keep_checkpoints": [1, 0],
    }
    comparison = made(content, seeds=(3, 4), workers=0, command="flatfed compare ...")
    about = comparison.to_dict()["about"]
    assert (about["checkpoint_every"], about["keep_checkpoints"], about["workers"]) == (3, [0, 1], 0)
    assert comparison.watch[0].sample.most is None
    assert (comparison.seeds, comparison.recipe.seed, comparison.command) == ([3, 4], 3, "flatfed compare ...")
    assert flatness_from(RunOptions.read(content)) == Flatness(None)


def test_a_comparison_that_says_how_many_take_part_needs_no_data(tmp_path: Path) -> None:
    nowhere = {"rounds": 1, "per_round": 2, "data_dir": tmp_path / "nowhere"}
    comparison = comparison_of("cifar10", ["fedavg"], [0], RunOptions.read(nowhere))
    assert comparison.sampler.to_dict() == {"id": "uniform", "count": 2}
    with pytest.raises(ConfigError, match="cifar10"):
        first_task(comparison)
    with pytest.raises(ConfigError, match="cifar10"):
        comparison_of("cifar10", ["fedavg"], [0], RunOptions.read(nowhere | {"per_round": None}))


def test_more_clients_per_round_than_there_are_are_refused_with_the_data() -> None:
    comparison = made(SMALL | {"per_round": 6})
    with pytest.raises(ConfigError, match="cannot sample 6 of 5 clients"):
        first_task(comparison)


def test_who_named_data_and_model_is_kept(tmp_path: Path) -> None:
    file = NamedBy(tmp_path / "study.yaml")
    comparison = made(SMALL, by=file, data_by=file)
    assert (comparison.by, comparison.recipe.by) == (file, file)
    code = comparison_of(
        "subprocess:getoutput", ["fedavg"], [0], RunOptions.read({"rounds": 1, "per_round": 1}), data_by=file
    )
    with pytest.raises(ConfigError, match="subprocess:getoutput"):
        first_task(code)
