"""Bodies as a vendor, or somebody who knows an address, might send them; and vendors to read them
that reach nobody."""

from hypothesis import strategies as st

from safelight.generations.providers.replicate import Replicate
from safelight.generations.providers.runware import Runware
from safelight.generations.providers.wire import Wire
from safelight.infra.injected import SystemClock

_CLOCK = SystemClock()
VENDORS_OFFLINE = (
    Runware("http://x", Wire("R", {}, _CLOCK)),
    Replicate("http://x", Wire("R", {}, _CLOCK), _CLOCK),
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
keys = st.sampled_from(
    ["data", "errors", "error", "taskUUID", "status", "id", "output", "imageURL", "code", "message",
     "taskId", "metrics", "cost", "seed", "imageBase64Data"]
)  # fmt: skip
likely = st.recursive(
    json_values | st.sampled_from(["succeeded", "failed", "error", "success", "https://x/y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=25,
)
