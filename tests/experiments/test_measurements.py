"""Measurements as they are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatfed.core.configuration.config import parameters
from flatfed.core.errors import ConfigError
from flatfed.experiments.spelling.methods import parse_measurement, parse_measurements, written
from flatfed.flatness.measurement import Measurement
from flatfed.flatness.measurements.curvature import LambdaMax, SpectrumOf
from flatfed.flatness.measurements.rises import LowPass, SharpnessOf

IDS = sorted(id for id, cls in Measurement.registry.items() if cls.__module__.startswith("flatfed."))


def test_these_can_be_measured() -> None:
    assert {"lambda_max", "lambda_ratio", "spectrum", "trace", "lpf", "sharpness", "adaptive_sharpness"} <= set(IDS)
    assert {"loss", "parameter_norm", "local_global", "client_lambda", "client_divergence", "discrepancy"} <= set(IDS)
    assert {"incompatibility", "friendly_rate", "tracking_error", "perturbation_gap", "feature_norm"} <= set(IDS)
    assert {"client_accuracy"} <= set(IDS)


def test_the_papers_values_are_the_defaults() -> None:
    lpf, tracking = LowPass(), parse_measurement("tracking_error")
    assert (lpf.sigma, lpf.samples) == (0.01, 100)
    assert (tracking.batches, tracking.batch) == (10, 512)
    assert parse_measurement("incompatibility").clients == 50
    assert SpectrumOf().k == 50


@pytest.mark.parametrize("id", IDS)
def test_every_one_is_read_by_its_name_and_written_so(id: str) -> None:
    made = parse_measurement(id)
    assert made == Measurement.registry[id]()
    assert written(made) == id
    assert parse_measurement(id.replace("_", "-")) == made
    assert parse_measurement(f" {id}() ") == made
    assert Measurement.registry.from_dict(made.to_dict()) == made


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("lpf(samples=20)", LowPass(samples=20)),
        ("lpf( sigma = 0.02 , samples = 20 )", LowPass(sigma=0.02, samples=20)),
        ("lpf(0.02)", LowPass(sigma=0.02)),
        ("lpf(0.02, 20)", LowPass(0.02, 20)),
        ("lpf(0.02, seed=3)", LowPass(0.02, seed=3)),
        ("lpf(sigma=1e-3)", LowPass(sigma=1e-3)),
        ("sharpness(1)", SharpnessOf(rho=1.0)),
        ("lambda_max(mode=power)", LambdaMax(mode="power")),
        ("lambda-max (power)", LambdaMax(mode="power")),
    ],
)
def test_values_by_name_and_by_place(text: str, made: Measurement) -> None:
    assert parse_measurement(text) == made


def test_several_with_commas_between_them() -> None:
    actual = parse_measurements("lambda_max, lpf(samples=20, sigma=0.02),trace(5) ,")
    assert actual == [LambdaMax(), LowPass(0.02, 20), parse_measurement("trace(samples=5)")]


@given(
    sigma=st.floats(0, 1e6),
    samples=st.integers(1, 10**6),
    seed=st.integers(0, 2**40),
    tolerance=st.floats(1e-300, 1e3),
    mode=st.sampled_from(["lanczos", "power"]),
)
def test_what_is_written_is_read_again(sigma: float, samples: int, seed: int, tolerance: float, mode: str) -> None:
    made = [LowPass(sigma, samples, seed), LambdaMax(mode, tolerance, seed=seed)]  # type: ignore[arg-type]
    assert [parse_measurement(written(one)) for one in made] == made
    assert parse_measurements(",".join(map(written, made))) == made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lamda_max", "unknown measurement 'lamda_max'; did you mean 'lambda_max'"),
        ("nonsense", "unknown measurement 'nonsense'"),
        ("lpf(smples=3)", "lpf: unknown parameter 'smples'; did you mean 'samples'"),
        ("parameter_norm(3)", "parameter_norm takes"),
        ("sharpness(1, 2, 3)", "sharpness takes 2 values: rho, steps"),
        ("lpf(samples=0)", "lpf: samples must be at least 1, not 0"),
        ("lpf(samples=2.5)", "lpf: samples must be a whole number"),
        ("lpf(samples=many)", "lpf: samples must be a whole number, not 'many'"),
        ("lpf(sigma=-1)", "lpf: sigma must be at least 0"),
        ("lpf(sigma=nan)", "lpf: sigma must be a finite number"),
        ("lpf(sigma=)", "lpf: sigma must be"),
        ("sharpness(rho=0)", "sharpness: rho must be greater than 0"),
        ("lambda_max(mode=qr)", "lambda_max: mode must be one of 'lanczos', 'power'"),
        ("lambda_max(tolerance=0)", "tolerance must be greater than 0"),
        ("spectrum(k=0)", "spectrum: k must be at least 1"),
        ("discrepancy(clients=0)", "discrepancy: clients must be at least 1"),
        ("lpf(samples=3", "is not a measurement such as"),
        ("lpf samples=3", "is not a measurement such as"),
        ("lpf(samples=3))", "is not a measurement such as"),
        ("lpf((3)", "is not a measurement such as"),
        ("", "is not a measurement such as"),
    ],
)
def test_what_cannot_be_read(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_measurement(text)
    assert words in str(error.value)


@pytest.mark.parametrize("text", ["lpf(0.1, sigma=0.2)", "lpf(samples=3, samples=4)"])
def test_a_value_that_is_given_twice(text: str) -> None:
    with pytest.raises(ConfigError, match="twice"):
        parse_measurement(text)


def test_every_parameter_is_documented_by_a_default() -> None:
    for id in IDS:
        assert Measurement.registry[id].__doc__
        assert set(parameters(Measurement.registry[id])) == set(parse_measurement(id).to_dict()) - {"id"}
