"""Which couriers there are: one line each."""

from collections.abc import Callable, Mapping
from typing import Final

from safelight.errors import ConfigurationError
from safelight.infra.injected import Clock
from safelight.objects.notifications.couriers.base import (
    SETTING,
    Courier,
    CourierAddress,
    parse_address,
)
from safelight.objects.notifications.couriers.cloudflare import open_cloudflare
from safelight.objects.notifications.couriers.sqs import open_sqs

OpenCourier = Callable[[CourierAddress, Mapping[str, str], Clock], Courier]
COURIERS: Final[Mapping[str, OpenCourier]] = {
    "cloudflare-queue": open_cloudflare,
    "sqs": open_sqs,
}


def open_courier(url: str, aws: Mapping[str, str], clock: Clock) -> Courier:
    address = parse_address(url)
    if address.kind not in COURIERS:
        kinds = " or ".join(f"{kind}://" for kind in COURIERS)
        raise ConfigurationError(f"{SETTING}: begin it with {kinds}.")
    return COURIERS[address.kind](address, aws, clock)
