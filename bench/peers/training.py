"""One LeRobot training step around any replica: forward, backward, clip, optimizer, zero-grad, blocking reads."""


def update(policy, optimizer, batch):
    """Returns what the step reads back (loss and gradient norm before clipping, as Python floats)."""
    loss = policy.loss(batch)
    loss.backward()
    norm = policy.clip()
    optimizer.step()
    optimizer.zero_grad()
    return policy.reads(loss, norm)
