"""TRL's GRPOTrainer with the study's measurements in its log."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from accelerate.utils import gather_object
from torch.utils.data import Dataset, Sampler
from transformers import TrainerCallback
from trl import GRPOTrainer

from grpo_dynamics import seeds
from grpo_dynamics.tasks import chat
from grpo_dynamics.tasks.scoring import score
from grpo_dynamics.training.measures import TokenStatistics, group_statistics, merged

# Keys of the study's measurements in the trainer's log, beside TRL's own.
PREFIX = "measured/"


class InstrumentedGRPOTrainer(GRPOTrainer):
    """A GRPOTrainer that logs, every optimiser step, what the theory speaks of (columns of `tables.RUN_LOG`).

    The measurements go into ``trainer.state.log_history``, which TRL saves with each checkpoint: a run that is
    interrupted and resumed therefore has a log without gap or duplicate.

    Parameters
    ----------
    heldout : Dataset
        Rows with ``prompt`` (a conversation), ``answer`` and ``kind``.
    heldout_every : int
        Optimiser steps between two measurements of the held-out reward.
    opens_thinking : bool
        Whether the chat template's generation prompt opens the thinking part (`chat.opens_thinking`).
    """

    def __init__(self, *args, heldout: Dataset, heldout_every: int, opens_thinking: bool = False, **kwargs):
        super().__init__(*args, **kwargs)
        self._heldout = heldout
        self._heldout_every = heldout_every
        self._opens_thinking = opens_thinking
        self._group: dict[str, float] = {}
        self._sampled_at = 0
        self._rewards: torch.Tensor | None = None
        self._last_pass: tuple[torch.Tensor, torch.Tensor] | None = None
        self._token_statistics = TokenStatistics(self.args.epsilon)
        self.step_started = 0.0
        self.add_callback(_StepClock(self))

    def _get_train_sampler(self, dataset=None):
        return _OrderOfPass(super()._get_train_sampler(dataset), lambda: int(self.state.epoch or 0))

    def _calculate_rewards(self, *args, **kwargs):
        per_function = super()._calculate_rewards(*args, **kwargs)  # (all completions, reward functions)
        weights = self.reward_weights.to(per_function.device)
        unscored = per_function.isnan().all(dim=1)
        self._rewards = (per_function * weights).nansum(dim=1).masked_fill(unscored, torch.nan)
        return per_function

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        advantages = self.accelerator.gather(output["advantages"])
        sampled = self._metrics["train"]  # TRL has just measured the lengths of this batch
        self._group = {
            **group_statistics(self._rewards, advantages, self.num_generations),
            "completion_length": sampled["completions/mean_length"][-1],
            "truncated_share": sampled["completions/clipped_ratio"][-1],
        }
        self._sampled_at = self.state.global_step
        return output

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        result = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if kwargs.get("compute_entropy"):  # only the pass of the loss asks for the entropy
            self._last_pass = (result[0].detach(), result[1].detach())
        return result

    def _compute_loss(self, model, inputs):
        loss = super()._compute_loss(model, inputs)
        logps, entropies = self._last_pass
        self._token_statistics.add(
            logps,
            inputs.get("old_per_token_logps", logps),
            inputs["ref_per_token_logps"],
            entropies,
            inputs["advantages"],
            inputs["completion_mask"],
        )
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the measurements to the log of an optimiser step; other logs (the summary at the end) pass through."""
        if "grad_norm" in logs:
            seconds = time.perf_counter() - self.step_started
            step = self.state.global_step
            measured = {
                **self._group,
                **merged(gather_object([self._token_statistics])).means(),
                "sample_age": step - 1 - self._sampled_at,
                "seconds": seconds,
            }
            if step % self._heldout_every == 0:
                measured["heldout_reward"] = self.heldout_reward()
            logs |= {PREFIX + name: value for name, value in measured.items()}
            self._token_statistics = TokenStatistics(self.args.epsilon)
        super().log(logs, start_time)

    @torch.no_grad()
    def heldout_reward(self) -> float:
        """Mean reward of one completion per held-out problem, sampled as in training.

        The measurement has a random state of its own, so that measuring more or less often changes no run (vLLM, which
        keeps its own, excepted).
        """
        process, processes = self.accelerator.process_index, self.accelerator.num_processes
        # Every process has as many problems, so that all generate equally often; those dealt twice count once.
        share = -(-len(self._heldout) // processes)
        own = range(process * share, (process + 1) * share)
        size = self.args.per_device_train_batch_size * self.args.steps_per_generation  # as many as in training
        rewards = []
        was_training = self.model.training
        self.model.eval()
        devices = [self.accelerator.device] if self.accelerator.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            names = ["heldout", self.state.global_step, *([process] if process else [])]
            torch.manual_seed(seeds.derive(self.args.seed, *names))
            for start in range(0, share, size):
                rows = self._heldout[[index % len(self._heldout) for index in own[start : start + size]]]
                prompt_ids, images, fields = self._tokenize_prompts(rows["prompt"])
                completion_ids, _ = self._generate_single_turn(prompt_ids, images, fields, num_generations=1)
                texts = self.processing_class.batch_decode(completion_ids, skip_special_tokens=True)
                rewards += [
                    score(chat.scored_text(text, self._opens_thinking), answer, kind).reward
                    for text, answer, kind in zip(texts, rows["answer"], rows["kind"], strict=True)
                ]
        self.model.train(was_training)
        counted = [reward for index, reward in zip(own, rewards, strict=True) if index < len(self._heldout)]
        counted = gather_object(counted)
        return sum(counted) / len(counted)


class _OrderOfPass(Sampler):
    """TRL's order of prompts, as it is in an uninterrupted run: TRL's own sampler starts over when a run resumes.

    Parameters
    ----------
    sampler : RepeatSampler
        TRL's sampler, which draws a new order for each pass through the prompts.
    passes : callable
        Passes that the run has finished.
    """

    def __init__(self, sampler: Sampler, passes: Callable[[], int]):
        self._sampler, self._passes = sampler, passes

    def __iter__(self):
        generator = self._sampler.generator.manual_seed(self._sampler.seed)
        for _ in range(self._passes()):
            torch.randperm(self._sampler.num_samples, generator=generator)
        return iter(self._sampler)

    def __len__(self) -> int:
        return len(self._sampler)


class _StepClock(TrainerCallback):
    """Notes when an optimiser step starts, before its completions are sampled."""

    def __init__(self, trainer: InstrumentedGRPOTrainer):
        self._trainer = trainer

    def on_step_begin(self, args, state, control, **kwargs):
        self._trainer.step_started = time.perf_counter()
