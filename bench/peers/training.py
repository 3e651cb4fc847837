"""One LeRobot training step around any replica: forward, backward, clip, optimizer, zero-grad, blocking reads."""


def update(policy, optimizer, batch, stamp=lambda: None):
    """Returns what the step reads back (loss and gradient norm before clipping, as Python floats). `stamp` is called at
    the start, after the forward, after the backward and at the end."""
    stamp()
    loss = policy.loss(batch)
    stamp()
    loss.backward()
    stamp()
    norm = policy.clip()
    optimizer.step()
    optimizer.zero_grad()
    read = policy.reads(loss, norm)
    stamp()
    return read
