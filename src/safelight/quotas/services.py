"""Quotas opened: what routes ask for, and who adds up."""

from functools import partial

from safelight.infra.base import Base, Feature
from safelight.infra.queue.handlers import upkeep
from safelight.quotas import repo
from safelight.quotas.jobs import FOLD
from safelight.quotas.limits import QuotaLimits


def open_quotas(base: Base) -> Feature:
    return Feature(
        services=(QuotaLimits(base.units),),
        handlers=(upkeep(FOLD, partial(repo.fold, base.db)),),
    )
