"""Instructions that Numba has no name for: zeros at either end of a number, memory by address.

A text is read eight bytes at a time from wherever it begins, and a place of a large table is asked for
before it is needed. Both take an address, since an array handed to an inner function is counted in and
out by Numba, with locked instructions: encoding texts ran at 39 million a second so, at 93 million with
addresses. Callers keep the arrays alive, and answer for the bounds.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def trailing_zeros(typingctx, number):
    """Zeros at the low end of an int64; 64 for 0."""

    def emit(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), emit


@intrinsic
def leading_zeros(typingctx, number):
    """Zeros at the high end of an int64; 64 for 0."""

    def emit(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), emit


_BYTE = ir.IntType(8).as_pointer()
_WORD = ir.IntType(64).as_pointer()
_INT = ir.IntType(32)


@intrinsic
def load_word(typing_context, address):
    """Eight bytes as an unsigned number, the first one lowest (on the little-endian machines Numba is for)."""

    def generate(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(arguments[0], _WORD), align=1)

    return types.uint64(types.int64), generate


@intrinsic
def prefetch(typing_context, address):
    """Have a line of memory brought near; any address will do, nothing can fail."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.VoidType(), [_BYTE, _INT, _INT, _INT])
        function = builder.module.declare_intrinsic("llvm.prefetch", [_BYTE], kind)
        to_read, to_be_kept, as_data = (ir.Constant(_INT, number) for number in (0, 3, 1))
        builder.call(function, [builder.inttoptr(arguments[0], _BYTE), to_read, to_be_kept, as_data])
        return context.get_dummy_value()

    return types.void(types.int64), generate
