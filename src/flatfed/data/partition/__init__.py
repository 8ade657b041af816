"""Partitions: which client holds which samples. One file per rule, or tight family of rules.

Every module of this package is imported here, so that a new file registers itself.
"""

from __future__ import annotations

from flatfed.core.configuration.registry import import_all
from flatfed.data.partition.base import (
    CLIENTS,
    Ints,
    Partitioner,
    check_partition,
    class_counts,
    describe,
    partitions,
    summary,
)
from flatfed.data.partition.dirichlet import Dirichlet, DirichletPerClass
from flatfed.data.partition.few_classes import ByLabelShards, Pathological
from flatfed.data.partition.from_file import FromFile
from flatfed.data.partition.iid import IID
from flatfed.data.partition.long_tail import LongTail
from flatfed.data.partition.natural import Natural
from flatfed.data.partition.pachinko import PAM

__all__ = [
    "CLIENTS",
    "IID",
    "PAM",
    "ByLabelShards",
    "Dirichlet",
    "DirichletPerClass",
    "FromFile",
    "Ints",
    "LongTail",
    "Natural",
    "Partitioner",
    "Pathological",
    "check_partition",
    "class_counts",
    "describe",
    "partitions",
    "summary",
]

import_all(__name__, __path__, "partition")
