"""Count the zeros at either end of a 64-bit number: one instruction, which Numba has no name for."""

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
