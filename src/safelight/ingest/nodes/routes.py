"""The machines that receive uploads, for operators: which there are, and giving one up."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from safelight.accounts.guard import AsOperator
from safelight.http.described import Described
from safelight.http.frame import provided
from safelight.ingest.nodes.answers import GivenUpAnswer, NodesAnswer
from safelight.ingest.nodes.give_up import Nodes
from safelight.ingest.nodes.show import show_node

router = APIRouter(tags=["operator"], route_class=Described)

NodesDep = Annotated[Nodes, provided(Nodes)]


class GiveUpBody(BaseModel):
    """How many uploads are lost by it, as the list says, so that nobody gives up blindly."""

    model_config = ConfigDict(extra="forbid")

    uploads: Annotated[int, Field(ge=0, le=2**60)]


@router.get(
    "/api/v1/admin/nodes",
    summary="Which machines there are, and what waits for them",
    response_model=NodesAnswer,
)
async def nodes(caller: AsOperator, nodes: NodesDep) -> dict[str, Any]:
    """Those that are missing come first. A node is an ingest directory and what runs beside it."""
    del caller
    return {"items": [show_node(node) for node in await nodes.all()]}


@router.post(
    "/api/v1/admin/nodes/{node_id}/give-up",
    summary="Wait no longer for a machine",
    response_model=GivenUpAnswer,
)
async def give_up(
    node_id: str, body: GiveUpBody, caller: AsOperator, nodes: NodesDep
) -> dict[str, Any]:
    """Its uploads that are not stored become FAILED (`MACHINE_LOST`) and are told of. Refused while
    it is alive, and when `uploads` is not how many they are."""
    failed = await nodes.give_up(node_id, body.uploads, caller.as_actor())
    return {"id": node_id, "uploads": failed}
