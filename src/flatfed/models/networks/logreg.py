"""Multinomial logistic regression: convex, hence a yardstick."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from flatfed.models.catalogue import model


@model("logreg")
def logreg(classes: int, in_features: int) -> nn.Module:
    """Multinomial logistic regression."""
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), head=nn.Linear(in_features, classes)))
