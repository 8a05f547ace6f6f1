"""An operator on the CPU: kernels of the package on the tensors' own memory.

In: the arguments as PyTorch's dispatcher hands them over, those that have their defaults left out. Out: new tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from .._arrays import allocated
from .._dtypes import DTYPES
from .._errors import Refusal
from .._operation import Operation
from .._team import thread_count
from ._fake import absent, pattern, result
from ._glue import GLUE
from ._orders import in_memory, is_contiguous, same_order, words_of
from ._schema import outputs_of
from ._tensors import array, cast, dtype_of, empty_like, flat, freed, has_row, is_freed, tensor

Kernel = Callable[..., Any]
Places = Sequence["int | None"]
_any_requires_grad = torch._C._any_requires_grad
_is_transformed = torch._C._are_functorch_transforms_active
_unpack_dual: Any = forward_ad.unpack_dual
_CPU_ONLY = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
# How many times the memory of its tensors a call of several results within `enabled()` may take between its steps, if
# it is more than FREE bytes; PyTorch's kernel takes next to none. The gradient of attention, heads of 64, by PyTorch's
# time (Zen 5, two threads): 128 to 512 keys, up to 1.8 times the memory, 0.85 to 2.2 in f32 and 1.3 to 7.3 in bf16;
# 1024 and 2048 keys, 3.5 times and more, 0.6 to 0.9 and 0.6 to 1.7.
ROOM, FREE = 2, 1 << 22
_CPU, _BELOW = torch._C.DispatchKey.CPU, torch._C._after_ADInplaceOrView_keyset


def below(kernel: Kernel, operator: Any) -> Kernel:
    """The same kernel, by the dispatcher where the glue has taken its place there."""

    def redispatched(*given: Any, **attributes: Any) -> Any:
        if GLUE.lib is None:
            return kernel(*given, **attributes)
        return operator.redispatch(_CPU_ONLY, *given, **attributes)

    return redispatched


def completed(operation: Operation) -> Callable[[Sequence[Any], dict[str, Any]], tuple[list[Any], list[Any]]]:
    """What makes of a dispatcher's arguments the inputs and attributes of an operation, defaults put back."""
    count = len(operation.inputs)
    defaults = [(name, operation.defaults.get(name)) for name in operation.attributes]

    def complete(given: Sequence[Any], attributes: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        inputs = list(given)
        while len(inputs) < count:
            inputs.append(None)
        return inputs, [attributes.get(name, default) for name, default in defaults]

    return complete


def on_cpu(operation: Operation) -> Kernel:
    """The kernel of an operator for tensors of the CPU."""
    complete, run = completed(operation), running(operation)

    def kernel(*given: Any, **attributes: Any) -> Any:
        if not GLUE.tried:
            GLUE.start()
        return run(*complete(given, attributes))

    return kernel


def running(operation: Operation) -> Kernel:
    """What runs a call on the CPU: of inputs and attributes by position, and perhaps of memory for the result.

    Of several results it is a list. `places` says where each input stands among the arguments of the operator that is
    called.
    """
    names = outputs_of(operation)
    parameters = [info.parameter for info in operation.inputs]
    stepped = hasattr(operation, "outputs")
    firsts, pointwise = [word.inputs[0] for word in words_of(operation)], _is_pointwise(operation)
    in_turn = range(len(parameters))

    def run(inputs: list[Any], attributes: list[Any], into: Any = None, places: Places = in_turn) -> Any:
        try:
            back = None
            if not stepped:  # arrays are permuted in a fraction of the time that tensors are
                inputs = [_array(name, value) for name, value in zip(parameters, inputs)]
            if not all(inputs[at] is None or is_contiguous(inputs[at]) for at in firsts):
                call = in_memory(operation, inputs, attributes)
                inputs, attributes, back = call.inputs, call.attributes, call.back
            order = None
            if pointwise and not _plain(inputs):
                order = same_order(flat(inputs))
                inputs = inputs if order is None else [None if one is None else one.permute(order) for one in inputs]
            arrays = tuple([_array(name, value) for name, value in zip(parameters, inputs)] if stepped else inputs)
            if isinstance(into, list):
                return _into(operation, arrays, attributes, into, places)
            if into is not None and back is None and order is None:
                made = array("out", into, written=True)
                operation.call(arrays, tuple(attributes), made, None, None)
                if GLUE.asked():
                    GLUE.tell(operation, arrays, attributes, (made,), places)
                return into
            if stepped and (len(names) > 1 or not _plain(inputs)):
                return _of_steps(operation, inputs, arrays, attributes, back, places)
            made = operation.call(arrays, tuple(attributes), None, None, None)
            if GLUE.asked():
                GLUE.tell(operation, arrays, attributes, (made,), places)
            found = tensor(made)
        except Refusal as refusal:
            raise operation.refused(refusal) from None
        except RuntimeError:  # of PyTorch, which does not turn a tensor whose memory is freed
            for name, value in zip(parameters, inputs):
                if any(map(is_freed, flat([value]))):
                    raise operation.refused(freed(name)) from None
            raise
        if order is not None:
            return found.permute(sorted(range(len(order)), key=order.__getitem__))
        return found.permute(back[names[0]]) if back and names[0] in back else found

    return run


def _is_pointwise(operation: Any) -> bool:
    """Whether all tensors of an operation have one and the same run of axes, whose order is nothing to it."""
    tensors = [
        tuple(info.axes.items()) for info in getattr(operation, "arrays_", ()) if info.role in ("input", "output")
    ]
    return len(set(tensors)) == 1 and len(tensors[0]) == 1 and bool(tensors[0][0][1]) and len(operation.outputs) == 1


def _array(name: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return array(name, value)
    if isinstance(value, (list, tuple)):
        return [array(name, part) for part in value] if flat([value]) else np.asarray(value, np.int32)
    return value


def _plain(inputs: Sequence[Any]) -> bool:
    return all(value.is_contiguous() for value in inputs if isinstance(value, torch.Tensor))


def _of_steps(
    operation: Any, inputs: list[Any], arrays: Sequence[Any], attributes: list[Any], back: Any, places: Places
) -> Any:
    """A call of several outputs, or of one whose memory is ordered as an input's is."""
    taken, values = operation.arrays(arrays), tuple(attributes)
    meant = operation.resolved(taken, operation.completed(values, [None] * len(operation.outputs)))
    names, row = outputs_of(operation), operation.rows[meant.row][1]
    like = pattern(operation, inputs, meant.outputs[names[0]].shape)
    if like is not None:
        found = {names[0]: empty_like(like, dtype_of(names[0], row[names[0]]))}
        outputs: tuple[Any, ...] = (array("out", found[names[0]], written=True),)
    else:  # in the order of axes, whatever that of the inputs is, as tensors without data have it
        present = [name for name in names if name not in meant.absent]
        outputs = tuple([allocated(meant.outputs[name].shape, DTYPES[row[name]]) for name in present])
        found = dict(zip(present, map(tensor, outputs)))
    operation.call(arrays, values, outputs if len(outputs) > 1 else outputs[0], None, None)
    if GLUE.asked():
        known = dict(zip(found, outputs))
        GLUE.tell(operation, arrays, attributes, [known.get(name) for name in names], places)
    tensors = [found[name] if name in found else absent(torch.device("cpu")) for name in names]
    turned = [made.permute(back[name]) if back and name in back else made for name, made in zip(names, tensors)]
    return turned[0] if len(turned) == 1 else tuple(turned)


def _into(
    operation: Any, arrays: Sequence[Any], attributes: list[Any], into: list[torch.Tensor], places: Places
) -> tuple[torch.Tensor, ...]:
    """A call of several outputs, each of which has memory already."""
    outputs = [array("out", one, written=True) for one in into]
    _refuse_room(operation, arrays, attributes, outputs)
    operation.call(arrays, tuple(attributes), tuple(outputs), None, None)
    if GLUE.asked():
        GLUE.tell(operation, arrays, attributes, outputs, places)
    return tuple(into)


def _refuse_room(operation: Any, arrays: Sequence[Any], attributes: list[Any], outputs: Sequence[Any]) -> None:
    """Refuse a call that needs much more memory between its steps than it has tensors: PyTorch's kernel needs none."""
    given = operation.arrays(arrays)
    named = {info.name: value for info, value in zip(operation.inputs, given) if value is not None}
    meant = operation.resolved(given, operation.completed(tuple(attributes), outputs))
    plan = operation.planned_steps(meant, {**named, **operation.written(meant, outputs)})
    _, size = plan.workers(thread_count(plan, None))
    own = sum(value.nbytes for value in (*named.values(), *outputs))
    if size > max(ROOM * own, FREE):
        raise Refusal("memory", "out", f"{size} bytes between steps", f"at most {ROOM} times the {own} of all tensors")


def faked(operation: Operation) -> Kernel:
    """The kernel of an operator for tensors without data."""
    complete = completed(operation)

    def kernel(*given: Any, **attributes: Any) -> Any:
        try:
            return result(operation, *complete(given, attributes))
        except Refusal as refusal:
            raise operation.refused(refusal) from None

    return kernel


def elsewhere(operation: Operation) -> Kernel:
    """What refuses tensors of any other device."""
    parameters = [info.parameter for info in operation.inputs]

    def kernel(*given: Any, **attributes: Any) -> Any:
        for name, value in zip(parameters, given):
            for part in flat([value]):
                dense = part.layout is torch.strided and not part.is_nested and not part.is_quantized
                if part.device.type != "cpu" or not dense:
                    kind = "nested tensors" if part.is_nested else part.dtype if part.is_quantized else part.layout
                    got = f"a tensor of {kind} on {part.device}"
                    raise operation.refused(Refusal(f"{name}-device", name, got, "a dense tensor of the CPU"))
        kind = f"{parameters[0]}-kind"
        raise operation.refused(Refusal(kind, parameters[0], "no tensor", "at least one tensor", wrong_kind=True))

    return kernel


def shortened(operation: Operation, on_cpu: Kernel, recorded: Kernel | None, general: Any) -> Kernel:
    """The kernel at the place of autograd: straight to that of the CPU where tracing asks for nothing.

    `recorded` is the same with its gradient noted, without the layers that PyTorch puts around it for all operators.
    """

    def kernel(keyset: Any, *given: Any, **attributes: Any) -> Any:
        if forward_ad._current_level >= 0:
            _refuse_tangents(operation, given)
        if (keyset & _BELOW).highestPriorityTypeId() == _CPU:
            if not (torch.is_grad_enabled() and _any_requires_grad(*given)):
                return on_cpu(*given, **attributes)
            if recorded is not None:
                return recorded(*given, attributes)
        if _is_transformed() and torch.is_grad_enabled():
            _refuse_transforms(operation, given)
        return general.call_boxed(keyset, *given, **attributes)

    return kernel


def _refuse_tangents(operation: Operation, given: Sequence[Any]) -> None:
    """Operators have no derivatives of forward mode: PyTorch would take them to be 0."""
    for info, value in zip(operation.inputs, given):
        if any(_unpack_dual(part).tangent is not None for part in flat([value])):
            expected = "a tensor without one: operators have gradients, but no derivatives of forward mode"
            raise operation.refused(
                Refusal(f"{info.parameter}-tangent", info.parameter, "a tensor with a tangent", expected)
            )


def _refuse_transforms(operation: Operation, given: Sequence[Any]) -> None:
    """PyTorch has no way to register an operator's gradient for `torch.func`."""
    for info, value in zip(operation.inputs, given):
        if any(part.requires_grad for part in flat([value])):
            expected = "a tensor that autograd differentiates: operators have gradients, but none under torch.func"
            got = "a tensor that torch.func differentiates"
            raise operation.refused(Refusal(f"{info.parameter}-transform", info.parameter, got, expected))


def autocast(operation: Operation, operator: Kernel) -> Kernel:
    """The kernel of an operator under autocast: products in the lower type, all else in f32 where types are mixed."""
    lowers = bool(operation.fast or getattr(operation, "contractions", ()))

    def kernel(*given: Any, **attributes: Any) -> Any:
        wanted: torch.dtype | None = torch.get_autocast_dtype("cpu")
        if not lowers:
            wanted = None if has_row(operation, given) else torch.float32
        with torch.autocast("cpu", enabled=False):
            return operator(*[cast(value, wanted) for value in given], **attributes)

    return kernel
