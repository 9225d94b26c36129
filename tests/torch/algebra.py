# SPDX-License-Identifier: MIT
"""Cases of linear algebra with well-conditioned matrices."""

import torch

from cases import EXACT, case, x


def regular(*shape):
    """A square matrix with a dominant diagonal."""
    def draw(rng, dtype):
        return torch.from_numpy(rng.normal(size=shape)).to(getattr(torch, dtype)) + 3 * torch.eye(shape[-1], dtype=getattr(torch, dtype))
    return draw


def positive_definite(*shape):
    def draw(rng, dtype):
        a = torch.from_numpy(rng.normal(size=shape))
        return (a @ a.mT + shape[-1] * torch.eye(shape[-1])).to(getattr(torch, dtype))
    return draw


def add_factors():
    for shape in ((2, 2), (1, 1), (3, 3), (5, 3), (2, 4, 4), (7, 7)):
        for which in (0, 1):
            case("qr", [x(*shape) if shape[-1] != shape[-2] else regular(*shape)], lambda a, which=which: torch.linalg.qr(a)[which], dtypes=EXACT,
                 grad=shape[-2] >= shape[-1], loose=200, pick=(which, 2))
    for which in (0, 1):
        case("qr", [x(3, 5)], lambda a, which=which: torch.linalg.qr(a)[which], dtypes=EXACT, grad=False, loose=200, pick=(which, 2))
    for shape in ((2, 2), (1, 1), (4, 4), (2, 3, 3), (9, 9)):
        # torch's gradient treats the matrix as symmetric, this server reads only the lower triangle
        case("cholesky", [positive_definite(*shape)], lambda a: torch.linalg.cholesky(torch.tril(a) + torch.tril(a, -1).mT), dtypes=EXACT, loose=100)
        case("det", [regular(*shape)], torch.linalg.det, dtypes=EXACT, loose=400)
        case("inverse", [lambda rng, dtype, n=shape[-1]: torch.diag(torch.arange(1.0, n + 1)).to(getattr(torch, dtype))], torch.linalg.inv, dtypes=EXACT,
             loose=200, note=f"diagonal {shape}")
        case("inverse", [regular(*shape)], torch.linalg.inv, dtypes=EXACT, loose=200)


def add_solving():
    for a, b in (((2, 2), (2, 3)), ((1, 1), (1, 1)), ((4, 4), (4,)), ((2, 3, 3), (2, 3, 2)), ((6, 6), (6, 1))):
        case("solve", [regular(*a), x(*b)], torch.linalg.solve, dtypes=EXACT, loose=200)
        for upper in (False, True):
            def solved(p, q, upper=upper):
                q = q.unsqueeze(-1) if q.dim() == 1 else q
                y = torch.linalg.solve_triangular(torch.triu(p) if upper else torch.tril(p), q, upper=upper)
                return y
            if len(b) > 1:
                case("triangular_solve", [regular(*a), x(*b)], solved, {"upper": upper}, dtypes=EXACT, loose=200)
            else:
                case("triangular_solve", [regular(*a), x(*b)], lambda p, q, f=solved: f(p, q).squeeze(-1), {"upper": upper}, dtypes=EXACT, loose=200)


for add in (add_factors, add_solving):
    add()
