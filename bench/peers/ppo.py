"""PPO actor-critic as rsl_rl trains it, in plain eager PyTorch: rollout inference, returns, one mini-batch update.

Two separate MLPs with ELU; a Gaussian with one learnable, clamped deviation per action; clipped surrogate and clipped
value loss; entropy bonus; learning rate steered by the mean KL divergence (a blocking read); actor and critic clipped
apart. mjlab's G1 velocity task: 485,435 parameters.
"""

import math

import torch
from torch import nn

CLIP, ENTROPY, VALUE, GAMMA, LAMBDA, DESIRED_KL, CLIP_NORM = 0.2, 0.01, 1.0, 0.99, 0.95, 0.01, 1.0

TASKS = {  # actor observation, critic observation, actions, hidden widths
    "g1": (99, 198, 29, (512, 256, 128)),
    "go1": (48, 96, 12, (512, 256, 128)),
    "anymal-rough": (235, 235, 12, (512, 256, 128)),
    "anymal-flat": (48, 48, 12, (128, 128, 128)),
}


def mlp(width, hidden, out):
    layers = []
    for size in hidden:
        layers += [nn.Linear(width, size), nn.ELU()]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, out))


class PPO(nn.Module):
    name = "ppo"

    def __init__(self, actor_obs=99, critic_obs=198, actions=29, hidden=(512, 256, 128)):
        super().__init__()
        self.actor, self.critic = mlp(actor_obs, hidden, actions), mlp(critic_obs, hidden, 1)
        self.std = nn.Parameter(torch.ones(actions))
        self.sizes = (actor_obs, critic_obs, actions)
        self.learning_rate = 1e-3

    # ---- distribution ----
    def distribution(self, observation):
        mean = self.actor(observation)
        std = self.std.clamp(min=1e-6).expand_as(mean)
        with torch.no_grad():  # drawn in the update too, and not used there
            sample = torch.normal(mean, std)
        return mean, std, sample

    @staticmethod
    def log_probability(mean, std, action):
        variance = std**2
        log_std = std.log()
        return (-((action - mean) ** 2) / (2 * variance) - log_std - math.log(math.sqrt(2 * math.pi))).sum(dim=-1)

    # ---- collection ----
    @torch.inference_mode()
    def act(self, actor_obs, critic_obs):
        """One environment step's inference: action, mean, deviation, log-probability, value."""
        mean, std, action = self.distribution(actor_obs)
        value = self.critic(critic_obs)
        return action, mean, std, self.log_probability(mean, std, action), value

    def storage(self, envs, steps, device="cpu", generator=None):
        """Rollout storage with plausible contents, (steps, envs, .)."""
        actor_obs, critic_obs, actions = self.sizes

        def normal(width):
            return torch.randn((steps, envs, width), generator=generator, device=device)

        return {
            "actor_obs": normal(actor_obs),
            "critic_obs": normal(critic_obs),
            "action": normal(actions),
            "mean": normal(actions),
            "std": torch.ones(steps, envs, actions, device=device),
            "log_probability": -0.5 * normal(1).abs() - actions,
            "value": normal(1),
            "reward": normal(1),
            "done": torch.zeros(steps, envs, 1, dtype=torch.uint8, device=device),
            "returns": normal(1),
            "advantage": normal(1),
        }

    @staticmethod
    @torch.inference_mode()
    def store(storage, step, transition):
        for name, value in transition.items():
            storage[name][step].copy_(value)

    @torch.no_grad()
    def returns(self, storage, last_critic_obs):
        """Generalised advantage estimation, then normalised advantages."""
        last_value = self.critic(last_critic_obs).detach()
        value, reward, done, returns = (storage[k] for k in ("value", "reward", "done", "returns"))
        advantage = 0
        steps = value.shape[0]
        for t in reversed(range(steps)):
            next_value = last_value if t == steps - 1 else value[t + 1]
            alive = 1.0 - done[t].float()
            delta = reward[t] + alive * GAMMA * next_value - value[t]
            advantage = delta + alive * GAMMA * LAMBDA * advantage
            returns[t] = advantage + value[t]
        advantage = returns - value
        storage["advantage"] = (advantage - advantage.mean()) / (advantage.std() + 1e-8)

    # ---- learning ----
    FIELDS = ("actor_obs", "critic_obs", "action", "value", "returns", "advantage", "log_probability", "mean", "std")

    @classmethod
    def mini_batches(cls, storage, mini_batches, epochs):
        steps, envs = storage["value"].shape[:2]
        size = steps * envs // mini_batches
        order = torch.randperm(size * mini_batches, device=storage["value"].device)
        flat = {name: storage[name].flatten(0, 1) for name in cls.FIELDS}
        for _ in range(epochs):
            for i in range(mini_batches):
                index = order[i * size : (i + 1) * size]
                yield {name: tensor[index] for name, tensor in flat.items()}

    def steer(self, mean, std, batch):
        """Mean KL divergence from the rollout's distribution; its read blocks."""
        with torch.inference_mode():
            kl = torch.sum(
                torch.log(std / batch["std"] + 1e-5)
                + (torch.square(batch["std"]) + torch.square(batch["mean"] - mean)) / (2.0 * torch.square(std))
                - 0.5,
                dim=-1,
            )
            kl_mean = torch.mean(kl)
            if kl_mean > DESIRED_KL * 2.0:
                self.learning_rate = max(1e-5, self.learning_rate / 1.5)
            elif 0.0 < kl_mean < DESIRED_KL / 2.0:
                self.learning_rate = min(1e-2, self.learning_rate * 1.5)

    def loss(self, batch):
        mean, std, _ = self.distribution(batch["actor_obs"])
        log_probability = self.log_probability(mean, std, batch["action"])
        value = self.critic(batch["critic_obs"])
        entropy = (0.5 + 0.5 * math.log(2 * math.pi) + torch.log(std)).sum(dim=-1)
        self.steer(mean, std, batch)
        ratio = torch.exp(log_probability - torch.squeeze(batch["log_probability"]))
        surrogate = -torch.squeeze(batch["advantage"]) * ratio
        clipped = -torch.squeeze(batch["advantage"]) * torch.clamp(ratio, 1.0 - CLIP, 1.0 + CLIP)
        surrogate_loss = torch.max(surrogate, clipped).mean()
        near = batch["value"] + (value - batch["value"]).clamp(-CLIP, CLIP)
        value_loss = torch.max((value - batch["returns"]).pow(2), (near - batch["returns"]).pow(2)).mean()
        self.parts = (value_loss, surrogate_loss, entropy)
        return surrogate_loss + VALUE * value_loss - ENTROPY * entropy.mean()

    def optimizer(self, **options):
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate, **options)

    def clip(self):
        torch.nn.utils.clip_grad_norm_([*self.actor.parameters(), self.std], CLIP_NORM)
        torch.nn.utils.clip_grad_norm_(self.critic.parameters(), CLIP_NORM)

    def reads(self, _loss, _norm):
        value_loss, surrogate_loss, entropy = self.parts
        return value_loss.item(), surrogate_loss.item(), entropy.mean().item()

    def batch(self, size, generator=None, device="cpu"):
        """A mini-batch of `size` transitions."""
        return next(self.mini_batches(self.storage(size, 1, device, generator), 1, 1))


def build(task="g1", device="cpu", **_):
    return PPO(*TASKS[task]).to(device).train()


def iteration(policy, optimizer, storage, mini_batches=4, epochs=5):
    """One iteration's learning: returns, then epochs x mini-batches of updates."""
    policy.returns(storage, storage["critic_obs"][-1])
    for batch in policy.mini_batches(storage, mini_batches, epochs):
        loss = policy.loss(batch)
        for group in optimizer.param_groups:
            group["lr"] = policy.learning_rate
        optimizer.zero_grad()
        loss.backward()
        policy.clip()
        optimizer.step()
        policy.reads(loss, None)
