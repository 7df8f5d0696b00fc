"""A kit that only reads what it is given: what remains is the way into a child and back."""

from safelight.sandbox.protocol import Answer, SandboxTask

TASKS: dict[str, SandboxTask] = {"read": lambda data, _: Answer({"size": len(data)})}
