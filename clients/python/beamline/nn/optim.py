# SPDX-License-Identifier: MIT
"""Optimisers, as expressions: a step assigns parameters and what is remembered, and computes all of it in one request."""
from __future__ import annotations

from ..dtype import dtypes, least_upper_dtype
from ..tensor import Tensor
from ..views import Snapshot
from .state import get_parameters


def check_range(what: str, value: float, below: float | None = None) -> None:
    """Raise ValueError if a setting of an optimiser is negative, or not below a bound."""
    if not value >= 0 or below is not None and not value < below:
        raise ValueError(f"Invalid {what}: {value}; it must be at least 0" + (f" and below {below}" if below is not None else ""))


class Optimizer:
    """What they share.  params: Tensors, each once; lr: a number, which ``lr`` holds as a Tensor of shape (1,) that can be assigned."""

    def __init__(self, params: list, lr: float, device=None, fused=False):
        if isinstance(params, Tensor) or not hasattr(params, "__iter__"):
            raise TypeError(f"params argument given to the optimizer should be a list of Tensors, but got {type(params).__name__}")
        params = list(params)
        for each in params:
            if not isinstance(each, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(each).__name__}")
            if each.requires_grad is not False and not each.is_floating_point():
                raise ValueError(f"optimizer can only optimize Tensors of floats, but one of the params is {each.shape} {each.dtype}")
            if each.requires_grad is None:
                each.requires_grad = True
        self.params = dedup([each for each in params if each.requires_grad])
        if not self.params:
            raise ValueError("optimizer must have at least one param")
        self.buffers = dedup([each for each in params if not each.requires_grad])
        self.device, self.fused = device or self.params[0].expr.device, fused
        if not isinstance(lr, Tensor):
            check_range("learning rate", lr)
            lr = Tensor([float(lr)], device=self.device, dtype=least_upper_dtype(dtypes.default_float, dtypes.float32), requires_grad=False)
        self.lr = lr

    def _new_optim_param(self) -> list:
        return [Tensor.zeros(*each.shape, dtype=each.dtype, device=each.expr.device, requires_grad=False) for each in self.params]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for each in self.params:
            each.grad = None

    def step(self) -> None:
        """Change the parameters by their gradients.  If the request fails, the parameters and the state of the optimiser keep their values."""
        before = Snapshot(get_parameters(self))
        try:
            Tensor.realize(*self.schedule_step())
        except BaseException:
            before.restore()
            raise

    def schedule_step(self) -> list:
        """The same without computing it: the Tensors to realize."""
        if not Tensor.training:
            raise RuntimeError(f"Tensor.training={Tensor.training}, Tensor.training must be enabled to use the optimizer.\n"
                               "- help: Consider setting Tensor.training=True before calling Optimizer.step().")
        missing = [each for each in self.params if each.grad is None]
        if missing:
            raise RuntimeError(f"a parameter, {missing[0].shape} {missing[0].dtype}, has no gradient: call backward() before step()")
        changes, extra = self._step(self.params, [each.grad for each in self.params])
        for each, change in zip(self.params, changes):
            each.assign(self._apply(each.detach(), change.reshape(each.shape)).cast(each.dtype))
        return extra + self.params + self.buffers

    def _apply(self, param: Tensor, change: Tensor) -> Tensor:
        return param - change

    def _step(self, params: list, grads: list) -> tuple:
        """(what to take away from each, the Tensors that are remembered)"""
        raise NotImplementedError


def dedup(tensors: list) -> list:
    return list({id(each): each for each in tensors}.values())


class OptimizerGroup(Optimizer):
    """Several optimisers as one."""

    def __init__(self, *optimizers: Optimizer):  # pylint: disable=super-init-not-called
        self.optimizers = optimizers
        self.params = [each for one in optimizers for each in one.params]
        self.buffers = [each for one in optimizers for each in one.buffers]

    def __getitem__(self, i: int) -> Optimizer:
        return self.optimizers[i]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for each in self.optimizers:
            each.zero_grad()

    def schedule_step(self) -> list:
        """The Tensors of all of them to realize."""
        return [each for one in self.optimizers for each in one.schedule_step()]


class LARS(Optimizer):
    """Stochastic gradient descent whose rate follows the norms of each parameter and its gradient."""

    def __init__(self, params: list, lr=0.001, momentum=0.9, weight_decay=1e-4, ns_steps=0, ns_params=None, nesterov=False,
                 classic=True,
                 pre_wd=True, tcoef=0.001, device=None, fused=False):
        super().__init__(params, lr, device, fused)
        check_range("momentum value", momentum)
        check_range("weight_decay value", weight_decay)
        if nesterov and not momentum:
            raise ValueError("Nesterov momentum requires a momentum")
        self.momentum, self.wd, self.ns_steps, self.ns_params = momentum, weight_decay, ns_steps, ns_params
        self.nesterov, self.classic, self.pre_wd, self.tcoef = nesterov, classic, pre_wd, tcoef
        self.b = self._new_optim_param() if momentum else []

    def _step(self, params: list, grads: list) -> tuple:
        changes = []
        for i, (t, g) in enumerate(zip(params, grads)):
            t, g = t.detach(), g.detach()
            ratio: Tensor | float = 1.0
            if self.tcoef != 0:
                r1, r2 = t.square().sum().sqrt(), g.square().sum().sqrt()
                ratio = (r1 > 0).where((r2 > 0).where(self.tcoef * r1 / (r2 + self.wd * r1), 1.0), 1.0)
            if self.pre_wd and self.wd > 0:
                g = g + self.wd * t
            if self.classic:
                g = g * ratio * self.lr
            if self.momentum:
                self.b[i].assign(self.momentum * self.b[i] + g)
                g = (g + self.momentum * self.b[i]) if self.nesterov else self.b[i]
            if self.ns_steps:
                g = g.reshape(g.shape[0], -1).newton_schulz(self.ns_steps, self.ns_params).reshape(g.shape)
            if not self.pre_wd and self.wd > 0:
                t = t * (1.0 - self.wd * self.lr)
                changes.append(params[i].detach() - t + (g if self.classic else g * ratio * self.lr))
                continue
            changes.append(g if self.classic else g * ratio * self.lr)
        return [each.cast(t.dtype) for each, t in zip(changes, params)], self.b


def SGD(params: list, lr=0.001, momentum=0.0, weight_decay=0.0, nesterov=False, classic=False, device=None, fused=False) -> LARS:
    """Stochastic gradient descent; classic: the momentum takes the rate in, as in Caffe."""
    return LARS(params, lr, momentum, weight_decay, 0, None, nesterov, classic=classic, pre_wd=True, tcoef=0.0, device=device,
                fused=fused)


def Muon(params: list, lr=0.001, momentum=0.95, weight_decay=0.1, ns_steps=5, ns_params=(3.4445, -4.775, 2.0315), nesterov=True,
         device=None,
         fused=False) -> LARS:
    """Momentum, made orthogonal by Newton-Schulz steps: for matrices.  https://kellerjordan.github.io/posts/muon/"""
    return LARS(params, lr, momentum, weight_decay, ns_steps, ns_params, nesterov, classic=False, pre_wd=False, tcoef=0.0,
                device=device,
                fused=fused)


class LAMB(Optimizer):
    """Adam whose rate follows the norms of each parameter and its change; with adam=True, AdamW."""

    def __init__(self, params: list, lr=0.001, b1=0.9, b2=0.999, eps=1e-6, weight_decay=0.0, adam=False, device=None,
                 fused=False):
        super().__init__(params, lr, device, fused)
        check_range("b1 (the first of betas)", b1, 1.0)
        check_range("b2 (the second of betas)", b2, 1.0)
        check_range("epsilon value", eps)
        check_range("weight_decay value", weight_decay)
        self.b1, self.b2, self.eps, self.wd, self.adam = b1, b2, eps, weight_decay, adam
        self.b1_t, self.b2_t = (Tensor.ones((1,), dtype=dtypes.float32, device=self.device, requires_grad=False)
                                for _ in range(2))
        self.m, self.v = self._new_optim_param(), self._new_optim_param()

    def _step(self, params: list, grads: list) -> tuple:
        self.b1_t.assign(self.b1_t * self.b1)
        self.b2_t.assign(self.b2_t * self.b2)
        scale1, scale2 = 1.0 / (1.0 - self.b1_t), 1.0 / (1.0 - self.b2_t)  # divided once, not for each element
        changes = []
        for i, (t, g) in enumerate(zip(params, grads)):
            t, g = t.detach(), g.detach()
            self.m[i].assign((self.b1 * self.m[i] + (1.0 - self.b1) * g).cast(self.m[i].dtype))
            self.v[i].assign((self.b2 * self.v[i] + (1.0 - self.b2) * (g * g)).cast(self.v[i].dtype))
            m_hat, v_hat = self.m[i] * scale1, self.v[i] * scale2
            up = (m_hat / (v_hat.sqrt() + self.eps)).reshape(t.shape) + self.wd * t
            ratio: Tensor | float = 1.0
            if not self.adam:
                r1, r2 = t.square().sum().sqrt(), up.square().sum().sqrt()
                ratio = (r1 > 0).where((r2 > 0).where(r1 / r2, 1.0), 1.0)
            changes.append((self.lr * ratio * up).cast(t.dtype))
        return changes, [self.b1_t, self.b2_t] + self.m + self.v


def AdamW(params: list, lr=0.001, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01, device=None, fused=False) -> LAMB:
    """Adam with weight decay beside the gradient."""
    return LAMB(params, lr, b1, b2, eps, weight_decay, adam=True, device=device, fused=fused)


def Adam(params: list, lr=0.001, b1=0.9, b2=0.999, eps=1e-8, device=None, fused=False) -> LAMB:
    """Adam.  https://arxiv.org/abs/1412.6980"""
    return LAMB(params, lr, b1, b2, eps, 0.0, adam=True, device=device, fused=fused)
