"""From a release to a model: the estimates that it allows enter, a trained model leaves."""

from collections.abc import Iterable

from dpcube.core.domain import Domain
from dpcube.learn.class_tables import ClassTables, class_tables
from dpcube.learn.features import Features
from dpcube.learn.model import model_of_tables
from dpcube.learn.model_file import TrainedModel
from dpcube.learn.origin import Origin
from dpcube.learn.quality import quality
from dpcube.models import Estimate

ESTIMATES_TRIED = ("balanced", "posterior")
"""Estimates of one tree: where a release allows both, the one is learnt from that states smaller errors by class."""


def train(domain: Domain, target: str, estimates: Iterable[Estimate], origin: Origin) -> TrainedModel:
    """Return the default model of a target, learnt from the estimate that states the least errors of its tables."""
    features = Features.of(domain, target)
    tables = [class_tables(estimate, domain.axis(target), features) for estimate in estimates]
    best = tables[0] if len(tables) == 1 else min(tables, key=ClassTables.stated)
    model = model_of_tables(best)
    return TrainedModel(domain, target, model, origin, quality(model, best).as_dict())
