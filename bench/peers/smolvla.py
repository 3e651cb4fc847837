"""SmolVLA as LeRobot trains it, in plain eager PyTorch: SigLIP-style vision tower, 16 language layers, action expert.

bfloat16 weights except five small fp32 projections; RMS norms and rotary positions written out; attention scores and
softmax in fp32 over K and V expanded from 5 to 15 heads. Even layers join prefix and suffix in one attention; in odd
layers the expert attends to keys and values made from the language model's. 450,046,176 parameters, of which 99,880,992
train by default, 306,471,072 with only the vision tower frozen and 392,904,096 with nothing frozen on purpose.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

VISION, VISION_HEADS, VISION_FFN, VISION_LAYERS, PATCH, IMAGE = 768, 12, 3072, 12, 16, 512
TEXT, TEXT_FFN, EXPERT, EXPERT_FFN, LAYERS, VOCABULARY = 960, 2560, 720, 2048, 16, 49280
HEADS, KV_HEADS, HEAD = 15, 5, 64
CHUNK, STATE, ACTION, SHUFFLE = 50, 32, 32, 4
CLIP_NORM = 10.0
MODES = ("default", "visionfrozen", "unfrozen")


# ---- vision tower and connector ----
class VisionLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(VISION, eps=1e-6), nn.LayerNorm(VISION, eps=1e-6)
        self.q, self.k, self.v, self.o = (nn.Linear(VISION, VISION) for _ in range(4))
        self.up, self.down = nn.Linear(VISION, VISION_FFN), nn.Linear(VISION_FFN, VISION)

    def forward(self, x):
        size, tokens, _ = x.shape
        normed = self.norm1(x)
        q, k, v = (p(normed).view(size, tokens, VISION_HEADS, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).contiguous().view(size, tokens, VISION)
        x = x + self.o(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Vision(nn.Module):
    """(B, 3, 512, 512) -> (B, 1024, 768); 86,433,024 parameters."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, VISION, PATCH, PATCH)
        self.position = nn.Embedding((IMAGE // PATCH) ** 2, VISION)
        self.layers = nn.ModuleList(VisionLayer() for _ in range(VISION_LAYERS))
        self.norm = nn.LayerNorm(VISION, eps=1e-6)
        self.register_buffer("index", torch.arange((IMAGE // PATCH) ** 2)[None], persistent=False)

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = x + self.position(self.index)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Connector(nn.Module):
    """Pixel shuffle by 4 in each direction, then one projection: (B, 1024, 768) -> (B, 64, 960)."""

    def __init__(self):
        super().__init__()
        self.projection = nn.Linear(VISION * SHUFFLE**2, TEXT, bias=False)

    def forward(self, x):
        size, tokens, width = x.shape
        side = math.isqrt(tokens)
        x = x.view(size, side, side // SHUFFLE, width * SHUFFLE).permute(0, 2, 1, 3)
        x = x.reshape(size, side // SHUFFLE, side // SHUFFLE, width * SHUFFLE**2).permute(0, 2, 1, 3)
        return self.projection(x.reshape(size, tokens // SHUFFLE**2, width * SHUFFLE**2))


# ---- language model and expert layers ----
class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + 1e-5)
        return self.weight * x.to(dtype)


class GatedMLP(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    """One decoder layer's weights; kv_in is the width that K and V are made from."""

    def __init__(self, width, inner, kv_in=None):
        super().__init__()
        kv_in = width if kv_in is None else kv_in
        self.q = nn.Linear(width, HEADS * HEAD, bias=False)
        self.k, self.v = (nn.Linear(kv_in, KV_HEADS * HEAD, bias=False) for _ in range(2))
        self.o = nn.Linear(HEADS * HEAD, width, bias=False)
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.mlp = GatedMLP(width, inner)

    def project(self, x, names="qkv"):
        """Normed input -> per-head projections (B, T, heads, 64)."""
        x = self.norm1(x).to(dtype=self.q.weight.dtype)
        return [getattr(self, n)(x).view(*x.shape[:-1], -1, HEAD) for n in names]

    def finish(self, x, attended):
        """Output projection, residual and MLP."""
        if attended.dtype != self.o.weight.dtype:
            attended = attended.to(self.o.weight.dtype)
        out = self.o(attended)
        out += x
        residual = out.clone()
        out = self.mlp(self.norm2(out))
        out += residual
        return out


def rotate(x, positions):
    """Rotary positions, the table rebuilt in fp32 at every call; x (B, T, heads, 64), positions (B, T)."""
    half, dtype = x.shape[-1] // 2, x.dtype
    x = x.to(torch.float32)
    exponents = (2.0 / x.shape[-1]) * torch.arange(half, dtype=torch.float32, device=x.device)
    timescale = 10_000.0**exponents
    radians = positions[..., None].to(torch.float32) / timescale[None, None, :].to(torch.float32)
    radians = radians[..., None, :]
    sin, cos = torch.sin(radians), torch.cos(radians)
    first, second = x.split(half, dim=-1)
    out = torch.empty_like(x)
    out[..., :half] = first * cos - second * sin
    out[..., half:] = second * cos + first * sin
    return out.to(dtype)


def attention(q, k, v, mask):
    """q (B, T, 15, 64), k v (B, S, 5, 64), mask (B, T, S) bool -> (B, T, 960)."""
    size, keys = k.shape[:2]
    expanded = (size, keys, KV_HEADS, HEADS // KV_HEADS, HEAD)
    k = k[:, :, :, None, :].expand(expanded).reshape(size, keys, HEADS, HEAD)
    v = v[:, :, :, None, :].expand(expanded).reshape(size, keys, HEADS, HEAD)
    q, k = q.to(torch.float32).transpose(1, 2), k.to(torch.float32).transpose(1, 2)
    scores = torch.matmul(q, k.transpose(2, 3))
    scores *= HEAD**-0.5
    scores = torch.where(mask[:, None, :, :], scores, torch.finfo(torch.float32).min)
    weights = F.softmax(scores, dim=-1).to(v.dtype)
    out = torch.matmul(weights, v.permute(0, 2, 1, 3)).permute(0, 2, 1, 3)
    return out.reshape(size, -1, HEADS * HEAD)


def block_mask(padding, starts_block):
    """(B, T) valid and (B, T) 'a new block starts here' -> (B, T, T): see all blocks up to one's own."""
    block = torch.cumsum(starts_block, dim=1)
    return (block[:, None, :] <= block[:, :, None]) & (padding[:, None, :] * padding[:, :, None])


class SmolVLA(nn.Module):
    name = "smolvla"

    def __init__(self, mode="default", layers=LAYERS):
        super().__init__()
        self.vision, self.connector = Vision(), Connector()
        self.embedding = nn.Embedding(VOCABULARY, TEXT)
        self.text = nn.ModuleList(Layer(TEXT, TEXT_FFN) for _ in range(layers))
        self.text_norm = RMSNorm(TEXT)
        self.lm_head = nn.Linear(TEXT, VOCABULARY, bias=False)  # untied, unused in training
        self.expert = nn.ModuleList(
            Layer(EXPERT, EXPERT_FFN, None if i % 2 == 0 else KV_HEADS * HEAD) for i in range(layers)
        )
        self.expert_norm = RMSNorm(EXPERT)
        self.to(torch.bfloat16)
        self.state_in, self.action_in = nn.Linear(STATE, TEXT), nn.Linear(ACTION, EXPERT)
        self.action_out = nn.Linear(EXPERT, ACTION)
        self.time_in, self.time_out = nn.Linear(2 * EXPERT, EXPERT), nn.Linear(EXPERT, EXPERT)
        self.freeze(mode)

    def freeze(self, mode):
        frozen = [self.lm_head, self.text_norm, self.text[-1]]
        if mode == "default":
            frozen += [self.vision, self.connector, self.embedding, self.text]
        elif mode == "visionfrozen":
            frozen += [self.vision]
        elif mode != "unfrozen":
            raise ValueError(f"unknown mode {mode!r}: one of {', '.join(MODES)}")
        for module in frozen:
            module.requires_grad_(False)

    # ---- inputs ----
    @staticmethod
    def fit_image(image):
        """Keeps the aspect ratio, pads at the top and left to 512 x 512, scales to [-1, 1]."""
        height, width = image.shape[2:]
        ratio = max(width / IMAGE, height / IMAGE)
        height, width = int(height / ratio), int(width / ratio)
        image = F.interpolate(image, size=(height, width), mode="bilinear", align_corners=False)
        image = F.pad(image, (IMAGE - width, 0, IMAGE - height, 0), value=0)
        return image * 2.0 - 1.0

    @staticmethod
    def widen(x, width):
        out = torch.zeros(*x.shape[:-1], width, dtype=x.dtype, device=x.device)
        out[..., : x.shape[-1]] = x
        return out

    def prefix(self, images, batch, state):
        size, device = state.shape[0], state.device
        parts, valid, starts = [], [], []
        for image, seen in images:
            x = self.connector(self.vision(image.to(dtype=torch.bfloat16)))
            x = x * torch.tensor(TEXT**0.5, dtype=x.dtype, device=device)
            parts.append(x)
            valid.append(seen[:, None].expand(size, x.shape[1]))
            starts += [0] * x.shape[1]
        words = self.embedding(batch["tokens"])
        parts.append(words * math.sqrt(TEXT))
        valid.append(batch["tokens_valid"])
        starts += [0] * words.shape[1]
        parts.append(self.state_in(state)[:, None, :])
        valid.append(torch.ones(size, 1, dtype=torch.bool, device=device))
        starts += [1]
        starts = torch.tensor(starts, dtype=torch.bool, device=device)[None]
        return torch.cat(parts, dim=1), torch.cat(valid, dim=1), starts.expand(size, -1)

    def suffix(self, noisy, time):
        size, device = noisy.shape[0], noisy.device
        actions = self.action_in(noisy)
        fraction = torch.linspace(0.0, 1.0, EXPERT // 2, dtype=torch.float64, device=device)
        period = 4e-3 * (4.0 / 4e-3) ** fraction
        angle = (1.0 / period * 2 * math.pi)[None, :] * time[:, None]
        embedded = torch.cat([torch.sin(angle), torch.cos(angle)], dim=1).to(dtype=actions.dtype)
        both = torch.cat([actions, embedded[:, None, :].expand_as(actions)], dim=2)
        x = self.time_out(F.silu(self.time_in(both)))
        valid = torch.ones(size, CHUNK, dtype=torch.bool, device=device)
        starts = torch.tensor([1] * CHUNK, dtype=x.dtype, device=device)
        return x, valid, starts[None].expand(size, CHUNK)

    # ---- layers ----
    def joint_layer(self, text, expert, prefix, suffix, positions, mask):
        q, k, v = (torch.cat(pair, dim=1) for pair in zip(text.project(prefix), expert.project(suffix)))
        q, k = rotate(q, positions), rotate(k, positions)
        out = attention(q, k, v, mask)
        split = prefix.shape[1]
        return text.finish(prefix, out[:, :split]), expert.finish(suffix, out[:, split:])

    def cross_layer(self, text, expert, prefix, suffix, positions, mask):
        split = prefix.shape[1]
        q, k, v = text.project(prefix)
        q, k = rotate(q, positions[:, :split]), rotate(k, positions[:, :split])
        prefix_out = attention(q, k, v, mask[:, :split, :split])
        (q,) = expert.project(suffix, "q")
        k = expert.k(k.view(*k.shape[:2], -1)).view(*k.shape[:2], -1, HEAD)
        v = expert.v(v.view(*v.shape[:2], -1)).view(*v.shape[:2], -1, HEAD)
        own = positions[:, split:]
        own = own - torch.min(own, dim=1, keepdim=True).values
        suffix_out = attention(rotate(q, own), k, v, mask[:, -suffix.shape[1] :, :split])
        return text.finish(prefix, prefix_out), expert.finish(suffix, suffix_out)

    def forward(self, batch, noise, time):
        images = []
        for image in batch["images"]:
            image = self.fit_image(image)
            images.append((image, torch.ones(image.shape[0], dtype=torch.bool, device=image.device)))
        state, actions = self.widen(batch["state"], STATE), self.widen(batch["action"], ACTION)
        if noise is None:
            noise = torch.normal(mean=0.0, std=1.0, size=actions.shape, dtype=torch.float32, device=actions.device)
        if time is None:
            beta = torch.distributions.Beta(1.5, 1.0, validate_args=False)
            time = beta.sample((actions.shape[0],)).to(device=actions.device, dtype=torch.float32) * 0.999 + 0.001
        share = time[:, None, None]
        noisy = share * noise + (1 - share) * actions
        target = noise - actions
        prefix, prefix_valid, prefix_starts = self.prefix(images, batch, state)
        suffix, suffix_valid, suffix_starts = self.suffix(noisy, time)
        valid = torch.cat([prefix_valid, suffix_valid], dim=1)
        mask = block_mask(valid, torch.cat([prefix_starts, suffix_starts], dim=1))
        positions = torch.cumsum(valid, dim=1) - 1
        for i, (text, expert) in enumerate(zip(self.text, self.expert)):
            layer = self.joint_layer if i % 2 == 0 else self.cross_layer
            prefix, suffix = layer(text, expert, prefix, suffix, positions, mask)
        self.text_norm(prefix)  # computed and not used
        out = self.expert_norm(suffix)[:, -CHUNK:].to(dtype=torch.float32)
        return F.mse_loss(target, self.action_out(out), reduction="none")

    def loss(self, batch, noise=None, time=None):
        losses = self(batch, noise, time)
        self.reported = [losses.clone().mean().item()]
        losses = losses * (~batch["action_is_pad"]).unsqueeze(-1)
        self.reported.append(losses.clone().mean().item())
        losses = losses[:, :, : batch["action"].shape[-1]]
        self.reported.append(losses.clone().mean().item())
        loss = losses.mean()
        self.reported.append(loss.item())
        return loss

    # ---- training ----
    def optimizer(self, **options):
        trained = [p for p in self.parameters() if p.requires_grad]
        return torch.optim.AdamW(trained, lr=1e-4, betas=(0.9, 0.95), weight_decay=1e-10, **options)

    def clip(self):
        return torch.nn.utils.clip_grad_norm_(self.parameters(), CLIP_NORM)

    @staticmethod
    def reads(loss, norm):
        return loss.item(), norm.item()

    @staticmethod
    def batch(
        size, cameras=2, height=480, width=640, state_dim=6, action_dim=6, words=16, device="cpu", generator=None
    ):
        """A synthetic preprocessed batch; images in [0, 1]."""

        def normal(*shape):
            return torch.randn(shape, generator=generator, device=device)

        return {
            "images": [torch.rand(size, 3, height, width, generator=generator, device=device) for _ in range(cameras)],
            "tokens": torch.randint(0, VOCABULARY, (size, words), generator=generator, device=device),
            "tokens_valid": torch.ones(size, words, dtype=torch.bool, device=device),
            "state": normal(size, state_dim),
            "action": normal(size, CHUNK, action_dim),
            "action_is_pad": torch.zeros(size, CHUNK, dtype=torch.bool, device=device),
        }


def build(mode="default", layers=LAYERS, device="cpu", **_):
    """A policy in training mode, with small random weights (PyTorch's own initialisation takes most of a minute)."""
    with torch.device("meta"):
        policy = SmolVLA(mode, layers)
    policy.to_empty(device=device)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.uniform_(-0.02, 0.02)
    policy.vision.index.copy_(torch.arange(policy.vision.index.shape[1])[None])
    return policy.train()
