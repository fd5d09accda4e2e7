"""What each diagnostic says, what it may be confused with, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """`says` is the evidence, with the number for {value}; the others are sentences for a diagnosis that fired."""

    says: str
    confused_with: str
    remedy: str


_COLLAPSE = (
    "The end of a run that has learned its prompts: then the share was higher before. A reward that is the same for "
    "every completion, by a fault of the reward function."
)
_SPREAD = (
    "Prompts that are each either always or never solved: the mean reward lies in between while no group differs. A "
    "reward_std that is pooled over the batch by the trainer."
)
_MIX = (
    "Choose prompts by pass rate (drop those always or never solved), sample more completions per prompt, or filter "
    "groups without a signal while sampling (dynamic sampling, as in DAPO)."
)
_SHRINK = (
    "Lower the learning rate (`predict` says how far it can go) or the number of steps per batch, and clip the "
    "gradient norm; resume from a checkpoint before the onset."
)
_EXPLORE = (
    "Raise beta, clip-higher (epsilon_high) or the temperature, or add an entropy bonus; resume from a checkpoint "
    "before the onset, since a policy without randomness samples nothing new to learn from."
)
_KL = "Raise beta or lower the learning rate; look at completions of the last steps before trusting the reward."
_LENGTH = "Raise max_completion_length, or mask truncated completions out of the loss; read some that were cut off."

ADVICE = {
    "rate_ratio": Advice(
        "the train reward saturates {value} times as fast as the held-out reward",
        "Held-out problems that are harder than the training ones, and rise later for that reason.",
        "Read completions with a high reward; compare the reward with the held-out measure on the same completions.",
    ),
    "heldout_fall": Advice(
        "the held-out reward has lost {value} of its best level while the train reward has not",
        "A held-out set too small for its scatter; a change of the evaluation's prompt or sampling in the middle of "
        "the run; overfitting to few prompts, which memorises instead of exploiting the reward.",
        "Stop at the onset: keep a checkpoint at which the best level was still held. Read completions with a high "
        "reward that the held-out measure calls wrong, and close the loophole in the reward function.",
    ),
    "heldout_gain_share": Advice(
        "the held-out reward gained {value} of what the train reward gained",
        "A held-out measure of another kind or scale than the reward; held-out problems that are much harder; "
        "overfitting to few prompts.",
        "Score the same completions with the reward and with the held-out measure; read those on which they differ.",
    ),
    "signal_share": Advice(
        "{value} of the groups have rewards that differ, so that they have a gradient", _COLLAPSE, _MIX
    ),
    "signal_rows": Advice("in {value} of the rows any rewards differ: the others have no gradient", _COLLAPSE, _MIX),
    "signal_over_chance": Advice(
        "groups with a signal are {value} of what independent rewards of this mean would give", _SPREAD, _MIX
    ),
    "spread_over_chance": Advice(
        "the spread within groups is {value} of what independent rewards of this mean would give", _SPREAD, _MIX
    ),
    "entropy_log_change": Advice(
        "log entropy changed by {value} while the reward rose",
        "Learning prompts with one right answer, which need little entropy; a lower sampling temperature in the middle "
        "of the run.",
        _EXPLORE,
    ),
    "entropy_lost": Advice(
        "log entropy changed by {value} while the reward did not rise, or not any more, or the groups collapsed beyond "
        "chance",
        "A run too short or too noisy for its rise to be seen; a lower sampling temperature in the middle of the run.",
        _EXPLORE,
    ),
    "reward_fall": Advice(
        "the train reward has lost {value} of its best level",
        "Harder prompts later in the run (a curriculum), or a changed reward function.",
        _SHRINK,
    ),
    "kl_unrewarded": Advice(
        "the KL to the reference is {value} nats per token at the end of a run whose reward did not rise",
        "A reward without information (random or constant), under which a policy drifts without being unstable.",
        _SHRINK,
    ),
    "grad_norm_log_growth": Advice(
        "the log of the gradient norm changed by {value} over the second half",
        "Fewer, larger gradients as more groups collapse; longer completions under a loss that sums over tokens.",
        _SHRINK,
    ),
    "ratio_log_growth": Advice(
        "the log of the largest importance ratio changed by {value}",
        "Sampling by another engine than the trainer's (vLLM): a mismatch of their numerics, and not of the policies.",
        _SHRINK,
    ),
    "non_finite_share": Advice(
        "NaN or infinity in {value} of the rows",
        "A measure that has no value in some steps (no completion ended, say), logged as NaN.",
        "Find the first such step: check its completions for empty ones, the loss for a division by 0, the precision "
        "(bf16 rather than fp16), and lower the learning rate.",
    ),
    "kl_level": Advice(
        "the KL to the reference is {value} nats per token at the end",
        "A KL summed over tokens instead of averaged, or another estimator (k1 can be negative, k2 and k3 are not).",
        _KL,
    ),
    "kl_log_growth": Advice(
        "the log of the KL changed by {value} over the second half",
        "A late rise of the reward, which moves the policy; a reference that is updated in between.",
        _KL,
    ),
    "truncated_share": Advice(
        "{value} of the completions are cut off at the length limit at the end",
        "A length limit meant to be reached, such as a budget for thinking.",
        _LENGTH,
    ),
    "truncated_growth": Advice(
        "the share of completions cut off at the length limit changed by {value}",
        "Longer solutions of harder prompts, which the limit was not made for.",
        _LENGTH,
    ),
}
