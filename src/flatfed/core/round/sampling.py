"""Which clients take part in a round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from flatfed.core.configuration.checking import Count, Range
from flatfed.core.configuration.config import Config
from flatfed.core.configuration.registry import Registry
from flatfed.core.errors import ConfigError
from flatfed.core.randomness import numpy_generator


class Sampler(Config):
    """Family of samplers; `attempt` counts the retries of one round."""

    registry: ClassVar[Registry[Sampler]] = Registry("sampler", old_ids={"schedule": "replay"})

    def draw(self, population: int, seed: int, round: int, attempt: int) -> list[int]:
        """Return the cohort of a round."""
        raise NotImplementedError

    def expected(self, population: int) -> float:
        """Return about how many clients take part in a round: as many as would be drawn in the first."""
        return len(self.draw(population, 0, 0, 0))

    def check(self, population: int, rounds: int) -> None:
        """Refuse what cannot be drawn from this number of clients over this number of rounds."""


class Uniform(Sampler, id="uniform"):
    """Exactly `count` clients, uniform, without replacement."""

    count: Count

    def expected(self, population: int) -> float:
        """Return how many clients take part in a round."""
        return min(self.count, population)

    def check(self, population: int, rounds: int) -> None:
        """Refuse more clients than there are."""
        if self.count > population:
            raise ConfigError(f"cannot sample {self.count} of {population} clients; ask for at most {population}")

    def draw(self, population: int, seed: int, round: int, attempt: int) -> list[int]:
        """Return the cohort of a round."""
        generator = numpy_generator(seed, "cohort", round, attempt)
        # The attempt is in the key: a retry has other clients, and a run that is played again has the same.
        return sorted(int(k) for k in generator.choice(population, self.count, replace=False))


class Bernoulli(Sampler, id="bernoulli"):
    """Each client joins independently with probability `p`; an empty draw is drawn again."""

    p: Annotated[float, Range(low=0.0, open_low=True, high=1.0)]

    def expected(self, population: int) -> float:
        """Return how many clients take part on average."""
        return self.p * population

    def draw(self, population: int, seed: int, round: int, attempt: int) -> list[int]:
        """Return the cohort of a round."""
        generator = numpy_generator(seed, "cohort", round, attempt)
        # A binomial count and a uniform choice are the same law as N coins, without N draws.
        for _ in range(1_000_000):
            count = int(generator.binomial(population, self.p))
            if count:
                return sorted(int(k) for k in generator.choice(population, count, replace=False))
        raise ConfigError(f"Bernoulli(p={self.p}) never drew a client out of {population}; choose a larger p")


class Replay(Sampler, id="replay"):
    """The given cohorts, round by round: the replay of a participation trace."""

    cohorts: Any

    def __post_init__(self) -> None:
        cohorts = tuple(_cohort(round, clients) for round, clients in enumerate(_sequence(self.cohorts)))
        object.__setattr__(self, "cohorts", cohorts)

    def check(self, population: int, rounds: int) -> None:
        """Refuse clients that do not exist and more rounds than the replay has."""
        if rounds > len(self.cohorts):
            raise ConfigError(f"the replay has {len(self.cohorts)} rounds, fewer than the {rounds} asked for")
        for round, cohort in enumerate(self.cohorts):
            low, high = min(cohort), max(cohort)
            if low < 0 or high >= population:
                outside = low if low < 0 else high
                raise ConfigError(f"replay: round {round} names client {outside}, but there are {population}")

    def expected(self, population: int) -> float:
        """Return the size of the largest cohort."""
        return max(len(cohort) for cohort in self.cohorts)

    def draw(self, population: int, seed: int, round: int, attempt: int) -> list[int]:
        """Return the cohort of a round; a retry is the same cohort again."""
        if round >= len(self.cohorts):
            raise ConfigError(
                f"the replay has {len(self.cohorts)} rounds; who would take part in the next is not known"
            )
        return sorted(self.cohorts[round])

    def to_dict(self) -> dict[str, Any]:
        """Return the cohorts, ready for JSON."""
        return {"id": self.id, "cohorts": [list(cohort) for cohort in self.cohorts]}


def _cohort(round: int, clients: Any) -> tuple[int, ...]:
    """Return the clients of a round: at least one, and none twice."""
    if not isinstance(clients, Sequence | np.ndarray | set) or isinstance(clients, str):
        raise ConfigError(f"replay: each cohort must be a list of client ids, not {clients!r:.40}")
    cohort = tuple(_client(client) for client in clients)
    if not cohort:
        raise ConfigError(f"replay: round {round} names no client")
    if len(set(cohort)) < len(cohort):
        raise ConfigError(f"replay: round {round} names a client twice")
    return cohort


def _client(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConfigError(f"replay: a client id must be a whole number, not {value!r:.40}")
    return int(value)


def _sequence(value: Any) -> Sequence[Any]:
    if isinstance(value, np.ndarray):
        return list(value)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ConfigError(f"replay: cohorts must be a list of lists of client ids, not {value!r:.40}")
    return value


def as_sampler(sampling: int | Sampler) -> Sampler:
    """Return the sampler that `sampling` names: a count is uniform without replacement."""
    if isinstance(sampling, Sampler):
        return sampling
    if isinstance(sampling, int | np.integer) and not isinstance(sampling, bool):
        return Uniform(int(sampling))
    raise ConfigError(f"sampling must be a number of clients, ff.Bernoulli or ff.Replay, not {sampling!r}")
