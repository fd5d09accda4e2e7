"""What an evaluation needs to know besides the checkpoint."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from grpo_dynamics.command import InputError


@dataclass(frozen=True)
class Settings:
    """Settings of an evaluation, the config's section `evaluation` with the study's seed.

    Attributes
    ----------
    benchmarks : list of str
        Names, by growing distance from the training task; the first is the training task's own.
    items : int or None
        At most so many problems of each benchmark; all of them if None.
    samples : int or dict
        Completions per problem, for all benchmarks or by benchmark (1 where it is not named).
    temperature : float
        Sampling temperature; 0 decodes greedily.
    max_completion_length : int
        Tokens.
    batch_size : int
        Completions generated at a time. Sampled completions change with it.
    data_files : dict
        Benchmark to the file that holds its problems.
    seed : int
        The study's seed, from which the sampling seed derives.
    """

    benchmarks: list[str]
    items: int | None = None
    samples: int | dict[str, int] = 1
    temperature: float = 0.0
    max_completion_length: int = 32
    batch_size: int = 256
    data_files: dict[str, str] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.benchmarks:
            raise InputError("evaluation settings: benchmarks: found none, expected at least one name")
        repeats = self.samples.values() if isinstance(self.samples, dict) else [self.samples]
        if self.temperature == 0 and max(repeats, default=1) > 1:
            raise InputError(
                f"evaluation settings: samples: found {self.samples} with temperature 0, "
                "expected 1 (greedy completions of a problem are all the same) or a temperature above 0"
            )

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Read the settings from one JSON object."""
        try:
            return cls(**json.loads(text))
        except (json.JSONDecodeError, TypeError) as error:
            raise InputError(f"evaluation settings: found {error}, expected a JSON object of {cls.__name__}") from error
