"""Calls a step away from legal: a legal one with one or two things changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .call import Call
from .calls import FAMILY, Rng, random_call
from .rulings import AUTO_PADS, COMMON, DTYPES, LISTS, OPERATIONS


def mutated_call(rng: Rng, op: str | None = None, dtype: str | None = None) -> Call:
    """A legal call with one or two things changed: refused about as often as not."""
    call = random_call(rng, op, dtype)
    for change in np.sort(rng.choice(len(MUTATIONS), 1 + (rng.random() < 0.2), replace=False)):
        call = MUTATIONS[change](rng, call) or call
    return call


def _with(call: Call, **attributes: Any) -> Call:
    return replace(call, attributes={**call.attributes, **attributes})


def _without(call: Call, name: str) -> Call:
    return replace(call, attributes={key: value for key, value in call.attributes.items() if key != name})


def _with_input(call: Call, index: int, array: np.ndarray | None) -> Call:
    return replace(call, inputs=(*call.inputs[:index], array, *call.inputs[index + 1 :]))


def _pick_input(rng: Rng, call: Call) -> tuple[int, np.ndarray]:
    """One of the tensors that are there."""
    index = int(rng.choice([i for i, array in enumerate(call.inputs) if array is not None]))
    array = call.inputs[index]
    assert array is not None
    return index, array


def _pick_list(rng: Rng, call: Call) -> str | None:
    """The name of one of the lists that are there."""
    names = [name for name, value in call.attributes.items() if isinstance(value, list) and value]
    return str(rng.choice(names)) if names else None


def _set_entry(rng: Rng, call: Call, name: str, value: Any) -> Call | None:
    """One entry of a list changed."""
    entries = list(call.attributes[name])
    if not entries:
        return None
    entries[int(rng.integers(len(entries)))] = value
    return _with(call, **{name: entries})


def _resized(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array's values over another shape: ones where it had none."""
    return np.resize(array, shape) if array.size else np.ones(shape, array.dtype)


def _move_an_extent(rng: Rng, call: Call) -> Call:
    """An extent, or an entry of a shape tensor, is one off."""
    index, array = _pick_input(rng, call)
    if array.dtype == np.int32:
        moved = array.copy()
        moved[int(rng.integers(array.size))] += int(rng.choice([-1, 1]))
        return _with_input(call, index, moved)
    shape = list(array.shape)
    axis = int(rng.integers(array.ndim))
    shape[axis] = max(shape[axis] + int(rng.choice([-1, 1])), 0)
    return _with_input(call, index, _resized(array, tuple(shape)))


def _empty_an_extent(rng: Rng, call: Call) -> Call:
    index, array = _pick_input(rng, call)
    if array.dtype == np.int32:
        emptied = array.copy()
        emptied[int(rng.integers(array.size))] = rng.choice([0, -1])
        return _with_input(call, index, emptied)
    shape = list(array.shape)
    shape[int(rng.integers(array.ndim))] = 0
    return _with_input(call, index, np.zeros(shape, array.dtype))


def _change_strides(rng: Rng, call: Call) -> Call | None:
    return _set_entry(rng, call, "strides", int(rng.choice([-1, 0, 1, 1, 2, 2, 3, 4, 5, 9])))


def _change_dilations(rng: Rng, call: Call) -> Call | None:
    return _set_entry(rng, call, "dilations", int(rng.choice([-1, 0, 1, 1, 1, 2, 2, 2, 3, 4])))


def _change_pads(rng: Rng, call: Call) -> Call | None:
    name = str(rng.choice(["pads_begin", "pads_end"]))
    return _set_entry(rng, call, name, int(rng.choice([-1, 0, 1, 2, 3, 5, 20])))


def _drop_an_attribute(rng: Rng, call: Call) -> Call:
    optional = [name for name in call.attributes if name not in LISTS]
    return _without(call, str(rng.choice(optional if optional and rng.random() < 0.7 else list(call.attributes))))


def _drop_an_input(rng: Rng, call: Call) -> Call:
    """The last one, often: it may be optional."""
    return _with_input(call, len(call.inputs) - 1 if rng.random() < 0.6 else _pick_input(rng, call)[0], None)


def _change_a_length(rng: Rng, call: Call) -> Call | None:
    if (name := _pick_list(rng, call)) is None:
        return None
    entries = call.attributes[name]
    return _with(call, **{name: entries[:-1] if rng.random() < 0.5 else [*entries, int(rng.integers(0, 2))]})


def _change_a_dtype(rng: Rng, call: Call) -> Call:
    index, array = _pick_input(rng, call)
    others = [np.dtype(np.int64), np.dtype(np.float64), *DTYPES.values()]
    return _with_input(call, index, array.astype(others[int(rng.integers(len(others)))]))


def _change_every_dtype(rng: Rng, call: Call) -> Call:
    """Another row of the table of data types, or none of its rows."""
    dtypes = [np.dtype(np.float64), *DTYPES.values(), *DTYPES.values()]
    dtype = dtypes[int(rng.integers(len(dtypes)))]
    inputs = tuple(x if x is None or x.dtype == np.int32 else x.astype(dtype) for x in call.inputs)
    return replace(call, inputs=inputs)


def _change_groups(rng: Rng, call: Call) -> Call:
    groups = call.attributes.get("groups", 1)
    choices = [groups + 1, groups * 2, 1, 1, 0, -1, groups, np.int64(groups), True, 1.0, "1"]
    return _with(call, groups=choices[int(rng.integers(len(choices)))])


def _change_the_weights_format(rng: Rng, call: Call) -> Call:
    own = FAMILY[OPERATIONS[call.op].transposed]
    return _with(call, weights_format=str(rng.choice([*own * 3, *FAMILY[False], *FAMILY[True], "oix"])))


def _change_the_data_format(rng: Rng, call: Call) -> Call:
    return _with(call, data_format=str(rng.choice(["NCX", "NXC", "NCX", "NXC", "nxc", "NCHW"])))


def _change_auto_pad(rng: Rng, call: Call) -> Call:
    misspelt = ["same", "Same_Upper", "NONE", "none ", "SAME_upper", "Valid", ""]
    return _with(call, auto_pad=str(rng.choice([*AUTO_PADS, *AUTO_PADS, *misspelt])))


def _change_output_padding(rng: Rng, call: Call) -> Call | None:
    """At its limit, one below it, negative, or with a tail."""
    if "output_padding" not in OPERATIONS[call.op].adds:
        return None
    limits = [max(s, d) for s, d in zip(call.attributes["strides"], call.attributes["dilations"], strict=False)]
    entries = [0] * len(limits)
    axis = int(rng.integers(len(limits)))
    entries[axis] = int(rng.choice([limits[axis], limits[axis] - 1, limits[axis] - 1, -1, 0]))
    tail = [[], [], [0] * 9, [0, 0, 1]][int(rng.integers(4))]
    return _with(call, output_padding=entries + tail)


def _change_the_spatial_rank(rng: Rng, call: Call) -> Call:
    """All tensors and lists together, to 0, 4 or another number of spatial axes."""
    rank = len(call.attributes["strides"])
    wanted = int(rng.choice([0, 1, 1, 2, 2, 3, 3, 4]))
    first = {"NCX": 2, "NXC": 1}[call.attributes.get("data_format", "NXC")]
    weights_first = 0 if call.attributes.get("weights_format", "X")[0] == "X" else 2
    role_of = dict(enumerate(OPERATIONS[call.op].roles))
    stated = weights_first if OPERATIONS[call.op].finds == "weights" else first

    def respace(entries: list[int], start: int) -> list[int]:
        spatial = (entries[start : start + rank] + [1] * 4)[:wanted]
        return entries[:start] + spatial + entries[start + rank :]

    inputs: list[np.ndarray | None] = []
    for index, array in enumerate(call.inputs):
        if array is None or role_of[index] == "bias":
            inputs.append(array)
        elif role_of[index] == "shape":
            inputs.append(np.array(respace(array.tolist(), stated), np.int32))
        else:
            start = weights_first if role_of[index] == "weights" else first
            inputs.append(_resized(array, tuple(respace(list(array.shape), start))))
    attributes = dict(call.attributes)
    for name in attributes:
        if name.endswith("_shape"):
            attributes[name] = respace(attributes[name], stated)
        elif isinstance(attributes[name], list):
            attributes[name] = respace(attributes[name], 0)
    return Call(call.op, tuple(inputs), attributes)


def _change_one_rank(rng: Rng, call: Call) -> Call:
    """One tensor has an axis of 1 too many, or too few."""
    index, array = _pick_input(rng, call)
    fewer = rng.random() < 0.5 and array.shape[0] > 0
    return _with_input(call, index, np.asarray(array[0]) if fewer else array[np.newaxis])


def _make_huge(rng: Rng, call: Call) -> Call | None:
    """At the limits of s64 and beyond: a huge stride can be legal, and so can a huge pad that auto_pad ignores."""
    if (name := _pick_list(rng, call)) is None:
        return None
    huge = [2**62, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64 + 1]
    return _set_entry(rng, call, name, huge[int(rng.integers(len(huge)))])


def _change_a_kind(rng: Rng, call: Call) -> Call | None:
    """An entry, or a whole list, that is no integer or no list."""
    if (name := _pick_list(rng, call)) is None:
        return None
    entries = call.attributes[name]
    if rng.random() < 0.3:
        whole = [entries[0], str(entries), {"0": 1}, np.array(entries, np.float64)]
        return _with(call, **{name: whole[int(rng.integers(len(whole)))]})
    wrong = [True, float(entries[0]), str(entries[0]), None, np.float32(1), np.bool_(True), [1], np.int32(1)]
    return _set_entry(rng, call, name, wrong[int(rng.integers(len(wrong)))])


def _change_a_container(rng: Rng, call: Call) -> Call | None:
    """Tuples, integer arrays and NumPy's integers are lists and integers too."""
    if (name := _pick_list(rng, call)) is None or not all(type(entry) is int for entry in call.attributes[name]):
        return None
    entries = call.attributes[name]
    if any(abs(entry) > 2**31 - 1 for entry in entries):
        return _with(call, **{name: tuple(entries)})
    same = [tuple(entries), np.array(entries, np.int64), np.array(entries, np.int32), [np.int64(e) for e in entries]]
    return _with(call, **{name: same[int(rng.integers(len(same)))]})


def _add_an_attribute(rng: Rng, call: Call) -> Call:
    """One of another operation's, or nobody's."""
    names = [*COMMON - set(LISTS), "output_padding", "dst_shape", "weights_shape", "stride"]
    missing = sorted(set(names) - set(call.attributes))
    name = str(rng.choice(missing))
    rank = len(call.attributes["strides"])
    value = {"groups": 1, "auto_pad": "none", "data_format": "NXC", "weights_format": "XIO"}.get(name, [0] * rank)
    return _with(call, **{name: value})


def _misstate_the_shape(rng: Rng, call: Call) -> Call | None:
    """dst_shape or weights_shape, the attribute: an entry off by one, which counts where no tensor is given."""
    name = OPERATIONS[call.op].shape_name
    if not isinstance(call.attributes.get(name), list):
        return None
    entries = call.attributes[name]
    index = int(rng.integers(len(entries)))
    off = [*entries[:index], entries[index] + int(rng.choice([-1, 1])), *entries[index + 1 :]]
    return _with(call, **{name: off})


# In this order: first what needs a legal call, last what leaves little to work on. Repeated: what often stays legal.
MUTATIONS: tuple[Callable[[Rng, Call], Call | None], ...] = (
    _change_output_padding, _change_output_padding, _add_an_attribute, _change_the_spatial_rank, _misstate_the_shape,
    _change_strides, _change_strides, _change_dilations, _change_dilations, _change_pads, _change_pads, _change_groups,
    _change_the_weights_format, _change_the_data_format, _change_auto_pad, _change_auto_pad, _move_an_extent,
    _empty_an_extent, _change_a_dtype, _change_every_dtype, _change_one_rank, _drop_an_input, _make_huge, _make_huge,
    _change_a_container, _change_a_container, _change_a_container, _change_a_kind, _change_a_length, _drop_an_attribute,
)  # fmt: skip
