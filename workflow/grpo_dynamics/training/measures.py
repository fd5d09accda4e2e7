"""The quantities that the run log adds to TRL's own, as functions of plain tensors.

TRL's ``reward_std`` is pooled over the batch and its token averages are averages over micro-batches; the theory speaks
of the spread within a group and of means over tokens, so both are measured here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch


def group_statistics(rewards: torch.Tensor, advantages: torch.Tensor, G: int) -> dict[str, float]:
    """Statistics of one sampled batch.

    Parameters
    ----------
    rewards : Tensor of shape (B,)
        Rewards, the G completions of a prompt next to each other. NaN marks a completion that could not be scored.
    advantages : Tensor of shape (B,)
        Advantages as the trainer uses them.
    G : int
        Group size, a divisor of B.

    Returns
    -------
    dict
        ``groups``, their number; ``reward``, mean; ``reward_std`` and ``reward_variance``, within-group standard
        deviation and variance (population), means over groups; ``advantage_variance``, variance (population) over the
        batch; ``collapsed_share``, share of groups whose rewards are all equal.
    """
    groups = rewards.double().view(-1, G)
    scored = ~groups.isnan()
    mean = groups.nanmean(dim=1, keepdim=True)
    variance = ((groups - mean) ** 2).nanmean(dim=1)
    # A group is collapsed when its largest and smallest scored rewards agree; one without any has no spread either.
    high = groups.masked_fill(~scored, -torch.inf).amax(dim=1)
    low = groups.masked_fill(~scored, torch.inf).amin(dim=1)
    return {
        "groups": len(groups),
        "reward": groups[scored].mean().item(),
        "reward_std": variance.sqrt().nanmean().item(),
        "reward_variance": variance.nanmean().item(),
        "advantage_variance": advantages.double().var(correction=0).item(),
        "collapsed_share": (high <= low).double().mean().item(),
    }


@dataclass
class TokenStatistics:
    """Sums over the completion tokens of one optimiser step, filled micro-batch by micro-batch.

    Parameters
    ----------
    clip_epsilon : float
        Importance ratios outside 1 -+ `clip_epsilon` are clipped when the advantage pushes them further out.
    """

    clip_epsilon: float
    tokens: float = 0.0
    ratio_min: float = field(default=float("inf"))
    ratio_max: float = field(default=0.0)
    sums: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("entropy", "kl", "ratio_mean", "clip_low", "clip_high"), 0.0)
    )

    def add(
        self,
        logps: torch.Tensor,
        old_logps: torch.Tensor,
        reference_logps: torch.Tensor,
        entropies: torch.Tensor,
        advantages: torch.Tensor,
        mask: torch.Tensor,
    ) -> None:
        """Add a micro-batch.

        Parameters
        ----------
        logps, old_logps, reference_logps, entropies : Tensor of shape (B, T)
            Log-probability of each token under the policy, the policy that sampled it and the base model; entropy of
            the policy at each token, in nats.
        advantages : Tensor of shape (B,)
        mask : Tensor of shape (B, T)
            1 for completion tokens, 0 for padding.

        Notes
        -----
        The KL is the k3 estimator exp(q) - q - 1 with q = log pi_ref - log pi (Schulman 2020), as in GRPO's loss.
        """
        keep = mask.bool()
        ratio = torch.exp(logps - old_logps)[keep].double()
        if not ratio.numel():
            return
        q = (reference_logps - logps)[keep].double()
        push = advantages.unsqueeze(1).expand_as(mask)[keep]
        self.tokens += ratio.numel()
        self.ratio_min = min(self.ratio_min, ratio.min().item())
        self.ratio_max = max(self.ratio_max, ratio.max().item())
        self.sums["ratio_mean"] += ratio.sum().item()
        self.sums["entropy"] += entropies[keep].double().sum().item()
        self.sums["kl"] += (torch.exp(q) - q - 1).sum().item()
        self.sums["clip_low"] += ((ratio < 1 - self.clip_epsilon) & (push < 0)).sum().item()
        self.sums["clip_high"] += ((ratio > 1 + self.clip_epsilon) & (push > 0)).sum().item()

    def means(self) -> dict[str, float]:
        """Means over tokens, the extreme ratios and the number of tokens."""
        tokens = max(self.tokens, 1.0)
        means = {name: value / tokens for name, value in self.sums.items()}
        return {**means, "ratio_min": self.ratio_min, "ratio_max": self.ratio_max, "tokens": int(self.tokens)}


def merged(parts: list[TokenStatistics]) -> TokenStatistics:
    """The statistics of all processes' tokens, from those of each process."""
    whole = TokenStatistics(parts[0].clip_epsilon)
    for part in parts:
        whole.tokens += part.tokens
        whole.ratio_min = min(whole.ratio_min, part.ratio_min)
        whole.ratio_max = max(whole.ratio_max, part.ratio_max)
        whole.sums = {name: value + part.sums[name] for name, value in whole.sums.items()}
    return whole
