"""Data sets, partitions over clients, normalisation and augmentation.

`load("digits")` gives a `Pool`; `Dirichlet(alpha=0.1).split(labels, clients, seed)` says which client holds
which of its samples.
"""

from flatfed.data.catalogue import datasets, load, source
from flatfed.data.partition import (
    IID,
    PAM,
    ByLabelShards,
    Dirichlet,
    DirichletPerClass,
    FromFile,
    LongTail,
    Natural,
    Partitioner,
    Pathological,
    check_partition,
    describe,
    partitions,
)
from flatfed.data.storage.pool import Normalise, Pool

__all__ = [
    "IID",
    "PAM",
    "ByLabelShards",
    "Dirichlet",
    "DirichletPerClass",
    "FromFile",
    "LongTail",
    "Natural",
    "Normalise",
    "Partitioner",
    "Pathological",
    "Pool",
    "check_partition",
    "datasets",
    "describe",
    "load",
    "partitions",
    "source",
]
