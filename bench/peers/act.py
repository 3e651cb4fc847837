"""ACT (action chunking with transformers) as LeRobot trains it, in plain eager PyTorch.

Post-norm transformer in (tokens, batch, channels) layout over ResNet-18 feature maps whose batch norms are frozen and
run as separate element-wise operations; a VAE encoder over the action chunk; L1 + 10 KL loss with two blocking reads.
With state and action size 6 it has 51,597,190 parameters, whatever the number of cameras.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, FFN, LATENT, CHUNK = 512, 8, 3200, 32, 100
DROPOUT, KL_WEIGHT, CLIP_NORM = 0.1, 10.0, 10.0


class FrozenBatchNorm(nn.Module):
    """Statistics and affine are buffers; five per-channel operations, then one multiply and one add over the map."""

    def __init__(self, channels):
        super().__init__()
        self.register_buffer("weight", torch.ones(channels))
        self.register_buffer("bias", torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def forward(self, x):
        weight, bias, mean, variance = (
            t.reshape(1, -1, 1, 1) for t in (self.weight, self.bias, self.mean, self.variance)
        )
        scale = weight * (variance + 1e-5).rsqrt()
        shift = bias - mean * scale
        return x * scale + shift


def conv(c_in, c_out, kernel, stride):
    return nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1, self.norm1 = conv(c_in, c_out, 3, stride), FrozenBatchNorm(c_out)
        self.conv2, self.norm2 = conv(c_out, c_out, 3, 1), FrozenBatchNorm(c_out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if stride != 1 or c_in != c_out:
            self.shortcut = nn.Sequential(conv(c_in, c_out, 1, stride), FrozenBatchNorm(c_out))

    def forward(self, x):
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        y += x if self.shortcut is None else self.shortcut(x)
        return self.relu(y)


class ResNet18(nn.Module):
    """(B, 3, H, W) -> (B, 512, ceil(H/32), ceil(W/32)); 11,166,912 parameters in 20 convolutions."""

    def __init__(self):
        super().__init__()
        blocks, c_in = [], 64
        for c_out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [BasicBlock(c_in, c_out, stride), BasicBlock(c_out, c_out, 1)]
            c_in = c_out
        self.trunk = nn.Sequential(
            conv(3, 64, 7, 2), FrozenBatchNorm(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), *blocks
        )

    def forward(self, image):
        return self.trunk(image)


def feed_forward(width, ffn):
    return nn.Linear(width, ffn), nn.Dropout(DROPOUT), nn.Linear(ffn, width)


class EncoderLayer(nn.Module):
    def __init__(self, width, ffn):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, HEADS, dropout=DROPOUT)
        self.up, self.drop, self.down = feed_forward(width, ffn)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop1, self.drop2 = nn.Dropout(DROPOUT), nn.Dropout(DROPOUT)

    def forward(self, x, position, padding=None):
        placed = x + position
        attended, _ = self.attention(placed, placed, x, key_padding_mask=padding)
        x = self.norm1(x + self.drop1(attended))
        return self.norm2(x + self.drop2(self.down(self.drop(F.relu(self.up(x))))))


class Encoder(nn.Module):
    def __init__(self, layers=4, width=WIDTH, ffn=FFN):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(width, ffn) for _ in range(layers))

    def forward(self, x, position, padding=None):
        for layer in self.layers:
            x = layer(x, position, padding)
        return x


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attention = nn.MultiheadAttention(WIDTH, HEADS, dropout=DROPOUT)
        self.cross_attention = nn.MultiheadAttention(WIDTH, HEADS, dropout=DROPOUT)
        self.up, self.drop, self.down = feed_forward(WIDTH, FFN)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.drops = nn.ModuleList(nn.Dropout(DROPOUT) for _ in range(3))

    def forward(self, x, memory, query_position, memory_position):
        placed = x + query_position
        attended, _ = self.self_attention(placed, placed, x)
        x = self.norms[0](x + self.drops[0](attended))
        attended, _ = self.cross_attention(x + query_position, memory + memory_position, memory)
        x = self.norms[1](x + self.drops[1](attended))
        return self.norms[2](x + self.drops[2](self.down(self.drop(F.relu(self.up(x))))))


def sine_table(length, width):
    """(length, width) fixed 1-D sine positions."""
    rate = 10000.0 ** (-2.0 * (torch.arange(width) // 2) / width)
    angle = torch.arange(length)[:, None] * rate
    table = torch.empty(length, width)
    table[:, 0::2], table[:, 1::2] = angle[:, 0::2].sin(), angle[:, 1::2].cos()
    return table


def sine_map(features):
    """(1, 512, H, W) 2-D sine positions, rebuilt at every forward from the feature map's size."""
    half = WIDTH // 2
    ones = torch.ones_like(features[0, :1])
    rows, columns = ones.cumsum(1, dtype=torch.float32), ones.cumsum(2, dtype=torch.float32)
    rows = rows / (rows[:, -1:, :] + 1e-6) * (2 * math.pi)
    columns = columns / (columns[:, :, -1:] + 1e-6) * (2 * math.pi)
    period = 10000 ** (2 * (torch.arange(half, dtype=torch.float32, device=features.device) // 2) / half)
    columns, rows = columns.unsqueeze(-1) / period, rows.unsqueeze(-1) / period
    columns = torch.stack((columns[..., 0::2].sin(), columns[..., 1::2].cos()), dim=-1).flatten(3)
    rows = torch.stack((rows[..., 0::2].sin(), rows[..., 1::2].cos()), dim=-1).flatten(3)
    return torch.cat((rows, columns), dim=3).permute(0, 3, 1, 2)


def as_tokens(feature_map):
    """(B, C, H, W) -> (H W, B, C)."""
    return feature_map.permute(2, 3, 0, 1).reshape(-1, feature_map.shape[0], feature_map.shape[1])


class ACT(nn.Module):
    name = "act"

    def __init__(self, state_dim=6, action_dim=6):
        super().__init__()
        self.backbone = ResNet18()
        self.vae_class = nn.Embedding(1, WIDTH)
        self.vae_state, self.vae_action = nn.Linear(state_dim, WIDTH), nn.Linear(action_dim, WIDTH)
        self.vae_encoder = Encoder()
        self.vae_out = nn.Linear(WIDTH, 2 * LATENT)
        self.register_buffer("vae_position", sine_table(2 + CHUNK, WIDTH).unsqueeze(0))
        self.latent_in, self.state_in = nn.Linear(LATENT, WIDTH), nn.Linear(state_dim, WIDTH)
        self.image_in = nn.Conv2d(512, WIDTH, 1)
        self.position_1d = nn.Embedding(2, WIDTH)
        self.encoder = Encoder()
        self.decoder = DecoderLayer()
        self.decoder_norm = nn.LayerNorm(WIDTH)
        self.query = nn.Embedding(CHUNK, WIDTH)
        self.head = nn.Linear(WIDTH, action_dim)

    def encode_actions(self, batch):
        size = batch["state"].shape[0]
        row = self.vae_class.weight.unsqueeze(0).expand(size, 1, WIDTH)
        tokens = torch.cat((row, self.vae_state(batch["state"]).unsqueeze(1), self.vae_action(batch["action"])), dim=1)
        position = self.vae_position.clone().detach()
        seen = torch.full((size, 2), False, device=tokens.device)
        padding = torch.cat((seen, batch["action_is_pad"]), dim=1)
        out = self.vae_encoder(tokens.permute(1, 0, 2), position.permute(1, 0, 2), padding)[0]
        parameters = self.vae_out(out)
        return parameters[:, :LATENT], parameters[:, LATENT:]

    def forward(self, batch):
        mean, log_variance = self.encode_actions(batch)
        latent = mean + log_variance.div(2).exp() * torch.randn_like(mean)
        tokens = [self.latent_in(latent), self.state_in(batch["state"])]
        positions = list(self.position_1d.weight.unsqueeze(1))
        for image in batch["images"]:
            features = self.backbone(image)
            position = sine_map(features).to(dtype=features.dtype)
            features = self.image_in(features)
            tokens.extend(list(as_tokens(features)))
            positions.extend(list(as_tokens(position)))
        tokens, positions = torch.stack(tokens, dim=0), torch.stack(positions, dim=0)
        memory = self.encoder(tokens, positions)
        queries = torch.zeros((CHUNK, tokens.shape[1], WIDTH), dtype=positions.dtype, device=positions.device)
        out = self.decoder_norm(self.decoder(queries, memory, self.query.weight.unsqueeze(1), positions))
        return self.head(out.transpose(0, 1)), mean, log_variance

    def loss(self, batch):
        predicted, mean, log_variance = self(batch)
        error = F.l1_loss(batch["action"], predicted, reduction="none")
        valid = ~batch["action_is_pad"].unsqueeze(-1)
        count = (valid.sum() * error.shape[-1]).clamp_min(1)
        l1 = (error * valid).sum() / count
        self.last_l1 = l1.item()
        kl = (-0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp())).sum(-1).mean()
        self.last_kl = kl.item()
        return l1 + kl * KL_WEIGHT

    def optimizer(self, **options):
        """AdamW with LeRobot's two groups: everything else, backbone."""
        backbone = [p for n, p in self.named_parameters() if n.startswith("backbone.") and p.requires_grad]
        rest = [p for n, p in self.named_parameters() if not n.startswith("backbone.") and p.requires_grad]
        groups = [{"params": rest}, {"params": backbone, "lr": 1e-5}]
        return torch.optim.AdamW(groups, lr=1e-5, weight_decay=1e-4, **options)

    def clip(self):
        return torch.nn.utils.clip_grad_norm_(self.parameters(), CLIP_NORM)

    @staticmethod
    def reads(loss, norm):
        return loss.item(), norm.item()

    @staticmethod
    def batch(size, cameras=2, height=480, width=640, state_dim=6, action_dim=6, device="cpu", generator=None):
        """A synthetic preprocessed batch (normalised images in NCHW)."""

        def normal(*shape):
            return torch.randn(shape, generator=generator, device=device)

        return {
            "images": [normal(size, 3, height, width) for _ in range(cameras)],
            "state": normal(size, state_dim),
            "action": normal(size, CHUNK, action_dim),
            "action_is_pad": torch.zeros(size, CHUNK, dtype=torch.bool, device=device),
        }


def build(cameras=2, state_dim=6, action_dim=6, device="cpu", **_):
    """A policy in training mode."""
    return ACT(state_dim, action_dim).to(device).train()
