"""What becomes of a generation when a webhook comes. Pure, like decide.py.

A webhook may be repeated, late, about nobody, or a lie by somebody who knows the address: each of
these changes nothing, and is told once.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import assert_never

from safelight.generations.change import GenerationChange
from safelight.generations.lifecycle import (
    IGNORED,
    Generation,
    Task,
    TaskStatus,
    webhook_accepted,
    webhook_ignored,
)
from safelight.generations.providers.base import (
    Accepted,
    Finished,
    ProviderTrouble,
    Refused,
    Report,
    TaskUnknown,
)
from safelight.infra.history import Line

Told = Collection[tuple[str | None, str]]  # artifact and reason of each that was ignored


def heard(
    generation: Generation,
    reports: Sequence[Report],
    named: str | None,
    *,
    chooses_ids: bool,
    told: Told = (),
    now: int,
) -> GenerationChange:
    """`named` is the artifact its address names."""
    if named is not None and generation.task(named) is None:
        named = None  # anybody's words, which have no place in our history
    change = GenerationChange(generation)
    if not reports:
        change = change.noted(webhook_ignored(generation.id, named, "it tells of no task"))
    for report in reports:
        task = _meant(change.after, report, named, chooses_ids=chooses_ids)
        change = _reported(change, task, report, named)
    return replace(change, lines=news(change.lines, told)).concluded(now)


def hinted(generation: Generation, named: str | None) -> GenerationChange:
    """Something happened, says somebody who knows the address and cannot be told from others: what
    they say is not believed, but the provider can be asked."""
    change = GenerationChange(generation)
    task = generation.task(named) if named else None
    if task is None or task.status is not TaskStatus.SUBMITTED or task.provider_task_id is None:
        return change
    return change.with_work(task)


def news(lines: Sequence[Line], told: Told) -> tuple[Line, ...]:
    """Without what was said before, however often a webhook is repeated."""
    seen, found = set(told), []
    for line in lines:
        if line.type == IGNORED:
            what = (line.data["artifactId"], line.data["reason"])
            if what in seen:
                continue
            seen.add(what)
        found.append(line)
    return tuple(found)


def _meant(
    generation: Generation, report: Report, named: str | None, *, chooses_ids: bool
) -> Task | None:
    """By the id in the body; else by the address, where the body's id is the vendor's own choice
    (and perhaps not known yet) or is missing."""
    for task in generation.tasks:
        ids = (task.provider_task_id, *task.former_ids)
        if report.task_id is not None and report.task_id in ids:
            return task
    if named is not None and (chooses_ids or report.task_id is None):
        return generation.task(named)
    return None


def _reported(
    change: GenerationChange, task: Task | None, report: Report, named: str | None
) -> GenerationChange:
    generation = change.after
    if task is None:
        reason = "it names no task of this generation"
        return change.noted(webhook_ignored(generation.id, named, reason))
    if reason := _nothing_new(task, report):
        return change.noted(webhook_ignored(generation.id, task.artifact_id, reason))
    outcome = report.outcome
    match outcome:
        case Finished():
            change = change.noted(webhook_accepted(generation, task.artifact_id))
            return change.with_delivery(task, outcome)
        case Refused():
            return change.with_failure(task, outcome.error)
        case Accepted() | ProviderTrouble() | TaskUnknown():
            known = replace(task, provider_task_id=task.provider_task_id or report.task_id)
            return replace(change, after=generation.with_task(known))
        case _:
            assert_never(outcome)


def _nothing_new(task: Task, report: Report) -> str:
    """Why it brings nothing, if so."""
    if task.status.over:
        return "its task is over"
    if task.status is TaskStatus.STREAMING:
        return "its task has been delivered before"
    if isinstance(report.outcome, Refused) and report.task_id in task.former_ids:
        return "the task has been submitted anew since"
    return ""
