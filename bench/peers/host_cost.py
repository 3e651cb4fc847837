"""What the host spends per call of the framework: a narrow transformer whose arithmetic is negligible, and small loops.

Seconds per call, with autograd recording, as a step spends them. Forward cost comes from a real (if tiny) model,
because a loop of empty calls costs less than calls made by modules.
"""

import torch

from . import act, op_class
from .timing import Clock, statistic


class Tiny(torch.nn.Module):
    """ACT's transformer layers, 16 wide: about 300 forward calls whose kernels take next to nothing."""

    def __init__(self):
        super().__init__()
        self.encoder = act.Encoder(layers=12, width=16, ffn=16)

    def forward(self, x, position):
        return self.encoder(x, position).sum()


def host_costs(device, rounds=15):
    """{name: statistic}; op_s, view_s, backward_op_s, call_s, item_s, optimizer_tensor_s, optimizer_fixed_s."""
    clock = Clock(device)
    model = Tiny().to(device).train()
    x, position = (torch.randn(4, 1, 16, device=device) for _ in range(2))
    loss, forward_ops, forward_views = op_class.count(lambda: model(x, position))
    _, backward_ops, _ = op_class.count(loss.backward)
    forward, backward = [], []
    one, other, grad = (
        torch.ones(1, device=device),
        torch.ones(1, device=device),
        torch.ones(4, 4, device=device, requires_grad=True),
    )
    call, view, item, small, large = [], [], [], [], []
    few, many = ([torch.nn.Parameter(torch.zeros(8, device=device)) for _ in range(n)] for n in (1, 129))
    optimizers = [torch.optim.AdamW(p) for p in (few, many)]
    for p in few + many:
        p.grad = torch.zeros_like(p)

    _, all_ops, _ = op_class.count(optimizers[1].step)
    optimizer_ops = all_ops // len(many)

    def views():
        grad.view(2, 8).t().unsqueeze(0)

    def calls():
        with torch.no_grad():
            for _ in range(200):
                torch.mul(one, other)

    for i in range(rounds + 2):
        model.zero_grad()
        times = []
        clock.drain()
        times.append(clock.once(lambda: times.append(model(x, position))))
        loss, forward_s = times[0], times[1]
        backward_s = clock.once(loss.backward)
        measured = (
            (forward, forward_s),
            (backward, backward_s),
            (view, clock.once(views, 200) / 3),
            (call, clock.once(calls) / 200),
            (item, clock.once(one.item, 100)),
            (small, clock.once(optimizers[0].step, 5)),
            (large, clock.once(optimizers[1].step, 2)),
        )
        if i >= 2:
            for values, seconds in measured:
                values.append(seconds)
    view_s = sorted(view)[len(view) // 2]
    return {
        "op_s": statistic([(s - forward_views * view_s) / forward_ops for s in forward]),
        "view_s": statistic(view),
        "backward_op_s": statistic([s / backward_ops for s in backward]),
        "call_s": statistic(call),
        "item_s": statistic(item),
        "optimizer_tensor_ops": optimizer_ops,
        "optimizer_tensor_s": statistic([(b - a) / 128 for a, b in zip(small, large)]),
        "optimizer_fixed_s": statistic([max(0.0, a - (b - a) / 128) for a, b in zip(small, large)]),
    }
