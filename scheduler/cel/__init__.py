"""CEL, the language of device selectors, with the environment that Kubernetes gives it."""

from scheduler.cel.errors import CostLimitError, EffortError, EvaluationError
from scheduler.cel.program import CompileError, DeviceView, Evaluation, Program, compile, compile_further
from scheduler.cel.quantity import Quantity, QuantityError
from scheduler.cel.version import Version, VersionError

__all__ = [
    "CompileError",
    "CostLimitError",
    "DeviceView",
    "EffortError",
    "Evaluation",
    "EvaluationError",
    "Program",
    "Quantity",
    "QuantityError",
    "Version",
    "VersionError",
    "compile",
    "compile_further",
]
