"""What the live callback costs: its share of the training time in a real run of a tiny model.

    python benchmarks/callback.py

The run's steps take a quarter of a second; those of a large model take longer, and the checks do not.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from grpo_dynamics.callback import HealthCallback
from grpo_dynamics.tasks import ladder
from grpo_dynamics.tasks.scoring import verifiable_reward
from grpo_dynamics.training import pretraining

STEPS = 120
SIZES = {"steps": 100, "batch_size": 32, "learning_rate": 3e-3, "hidden_size": 64, "layers": 3, "heads": 2}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        pretraining.pretrain("llama", {"right_share": 0.2, "worked_share": 0.0}, SIZES, seed=0, folder=base)
        problems = ladder.rows(ladder.generate("ladder_in_distribution", 500, seed=0))
        callback = HealthCallback(share=1.0)
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(base),
            processing_class=AutoTokenizer.from_pretrained(base, padding_side="left"),
            reward_funcs=[verifiable_reward],
            args=GRPOConfig(
                output_dir=folder,
                max_steps=STEPS,
                per_device_train_batch_size=64,
                num_generations=4,
                max_completion_length=32,
                beta=0.01,
                learning_rate=3e-4,
                logging_steps=1,
                save_strategy="no",
                bf16=False,
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_list(
                [
                    {
                        "prompt": [{"role": "user", "content": row["question"]}],
                        "answer": row["answer"],
                        "kind": "number",
                    }
                    for row in problems
                ]
            ),
            callbacks=[callback],
        )
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
    print(
        f"{STEPS} steps of {seconds / STEPS:.2f} s; checks took {1000 * callback.seconds / STEPS:.1f} ms a step, ",
        end="",
    )
    print(f"{100 * callback.seconds / seconds:.2f} % of the time, without the limit of 1 % that the callback keeps")


if __name__ == "__main__":
    main()
