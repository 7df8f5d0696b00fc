"""How many there are of each, under all that was asked for except itself."""

from typing import Any

import pytest

from safelight.library.entry import LibraryFilter, RunStatus
from safelight.library.lists import facets
from safelight.library.lists.facets import Cell, LabelCount, facets_of

CELLS = [
    Cell("OWL", RunStatus.DONE, 5),
    Cell("HEN", RunStatus.DONE, 7),
    Cell("HEN", RunStatus.PENDING, 1),  # to be found anew
    Cell(None, RunStatus.PENDING, 4),
    Cell(None, RunStatus.FAILED, 2),
]


@pytest.mark.parametrize(
    ("wanted", "total", "labels", "statuses"),
    [
        ({}, 19, {"HEN": 8, "OWL": 5}, {"pending": 5, "running": 0, "done": 12, "failed": 2}),
        ({"label": "HEN"}, 8, {"HEN": 8, "OWL": 5}, {"pending": 1, "done": 7}),
        ({"status": RunStatus.DONE}, 12, {"HEN": 7, "OWL": 5}, {"pending": 5, "done": 12}),
        ({"status": RunStatus.FAILED}, 2, {}, {"failed": 2}),
        ({"label": "OWL", "status": RunStatus.FAILED}, 0, {}, {"done": 5, "failed": 0}),
    ],
)
def test_each_facet_is_counted_without_itself(
    wanted: dict[str, Any], total: int, labels: dict[str, int], statuses: dict[str, int]
) -> None:
    found = facets_of(CELLS, LibraryFilter(**wanted), capped=False)
    assert found.total == total
    assert {one.label: one.count for one in found.labels} == labels
    told = {str(one.status): one.count for one in found.statuses}
    assert list(told) == ["pending", "running", "done", "failed"]
    assert statuses.items() <= told.items()


def test_the_most_frequent_come_first_and_the_chosen_is_never_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(facets, "MOST_LABELS", 2)
    cells = [Cell(label, RunStatus.DONE, n) for label, n in (("A", 1), ("B", 9), ("C", 9))]
    assert facets_of(cells, LibraryFilter(), capped=True).labels == (
        LabelCount("B", 9),
        LabelCount("C", 9),
    )
    chosen = facets_of(cells, LibraryFilter("A"), capped=False)
    assert chosen.labels == (LabelCount("B", 9), LabelCount("A", 1))
