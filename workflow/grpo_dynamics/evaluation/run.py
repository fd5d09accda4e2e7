"""All benchmarks of one checkpoint, in one process, on one loaded model.

    python -m grpo_dynamics.evaluation.run --checkpoint DIR --model NAME --settings JSON \
        --items items.parquet --summary summary.csv [--group-size 4 --seed 0]
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import torch
import typer
from lm_eval import evaluate as lm_eval_evaluate
from lm_eval.api.task import Task
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from grpo_dynamics import command, provenance, seeds, tables
from grpo_dynamics.command import InputError
from grpo_dynamics.evaluation.settings import Settings
from grpo_dynamics.evaluation.summary import item_table, summarise
from grpo_dynamics.progress import Progress
from grpo_dynamics.tasks import chat

TASKS = Path(__file__).parents[2] / "benchmarks"


def main(
    checkpoint: Annotated[str, typer.Option(help="folder of the checkpoint (or a model's id on the hub)")],
    model: Annotated[str, typer.Option(help="name of the model in the tables")],
    settings: Annotated[str, typer.Option(help="evaluation settings as JSON")],
    items: Annotated[Path, typer.Option(help="table of completions to write (.parquet)")],
    summary: Annotated[Path, typer.Option(help="table of accuracies to write (.csv)")],
    group_size: Annotated[int | None, typer.Option(help="G of the run; none for the base model")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of the run; none for the base model")] = None,
    chat_template: Annotated[Path | None, typer.Option(help="file of a chat template, not the model's own")] = None,
) -> None:
    chosen = Settings.from_json(settings)
    lm = load_model(checkpoint, chosen.batch_size, chat_template)
    provenance.record(items.parent)
    label = f"{model}, base" if group_size is None else f"{model} G={group_size} seed={seed}"
    derived = seeds.derive(chosen.seed, "evaluation", model, group_size, seed)
    samples = evaluate(lm, chosen, derived, label)
    completions = item_table(samples, model, group_size, seed)
    accuracies = summarise(completions, chosen.benchmarks)
    tables.write(completions, items, tables.EVALUATION_ITEMS)
    tables.write(accuracies, summary, tables.EVALUATIONS)
    found = ", ".join(f"{row.benchmark} {row.accuracy:.3f}" for row in accuracies.itertuples())
    print(f"{label}: {found}", flush=True)


class ReportingHFLM(HFLM):
    """lm-eval's Hugging Face model, which reports how many completions it has generated."""

    progress: Progress | None = None
    _generated = 0

    def _model_generate(self, context, *args, **kwargs):
        output = super()._model_generate(context, *args, **kwargs)
        self._generated += len(context)
        if self.progress:
            self.progress.report(self._generated)
        return output


def load_model(checkpoint: str, batch_size: int, chat_template: Path | None = None) -> ReportingHFLM:
    """Load a checkpoint for lm-eval, on the GPU if there is one.

    Only the settings decide how completions are decoded: whatever the checkpoint's generation_config.json says of
    lengths, temperatures or penalties is put aside, and reported. Its stop tokens are kept.

    Raises
    ------
    ValueError
        If there is no such checkpoint, or if its tokenizer has no chat template and none is given.
    """
    # Of its warnings, the one that matters here is about prompts that are cut: `check_prompts` refuses those.
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    if not Path(checkpoint).is_dir() and checkpoint.count("/") != 1:
        raise InputError(f"checkpoint: found no folder {checkpoint}, expected a saved model or a hub id (owner/name)")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype="auto").to(device)
    stored = model.generation_config
    tokens = {name: getattr(stored, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    model.generation_config = GenerationConfig(**tokens)
    changed = set(stored.to_diff_dict()) - set(model.generation_config.to_diff_dict())
    aside = sorted(name for name in changed if not name.startswith(("_", "output_", "use_cache", "transformers")))
    if aside:
        print(f"{checkpoint}: generation_config.json: put aside: {', '.join(aside)}", flush=True)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    chat.set_template(tokenizer, chat_template, checkpoint)
    # As in training: the chat template writes all special tokens, and the tokenizer adds none.
    return ReportingHFLM(pretrained=model, tokenizer=tokenizer, batch_size=batch_size, add_bos_token=False)


def evaluate(lm: ReportingHFLM, settings: Settings, seed: int = 0, label: str = "evaluation") -> dict[str, list[dict]]:
    """Generate and score the completions of all benchmarks.

    Parameters
    ----------
    lm : HFLM
        The loaded model.
    settings : Settings
    seed : int
        Seed of the sampling.
    label : str
        What the lines of progress start with.

    Returns
    -------
    dict
        Benchmark to lm-eval's samples: a row per completion with its ``doc``, ``resps`` and ``score``.

    Raises
    ------
    ValueError
        If a benchmark is not known, or if a prompt and its completion do not fit into the model's context.
    """
    metadata = {
        "data_files": settings.data_files,
        "items": settings.items,
        "samples": settings.samples,
        "seed": settings.seed,
        "opens_thinking": chat.opens_thinking(lm.tokenizer),
    }
    manager = TaskManager(include_path=str(TASKS), include_defaults=False, metadata=metadata)
    unknown = [name for name in settings.benchmarks if name not in manager.all_tasks]
    if unknown:
        raise InputError(f"evaluation settings: benchmarks: found {unknown}, expected names among {manager.all_tasks}")
    loaded = manager.load(settings.benchmarks)
    for name in settings.benchmarks:
        task = loaded["tasks"][name]
        task.set_config(key="generation_kwargs", value=decoding(settings), update=True)
        check_prompts(lm, task, settings.max_completion_length)
    lm.progress = Progress(label, sum(len(loaded["tasks"][name].eval_docs) for name in settings.benchmarks))
    torch.manual_seed(seed)
    results = lm_eval_evaluate(lm, loaded, bootstrap_iters=0, apply_chat_template=True)
    return {name: results["samples"][name] for name in settings.benchmarks}


def decoding(settings: Settings) -> dict[str, object]:
    """lm-eval's generation_kwargs: greedy at temperature 0, else plain sampling from the whole distribution."""
    length = {"max_gen_toks": settings.max_completion_length}
    if settings.temperature == 0:
        return {**length, "do_sample": False}
    return {**length, "do_sample": True, "temperature": settings.temperature, "top_p": 1.0, "top_k": 0}


def check_prompts(lm: HFLM, task: Task, max_completion_length: int) -> None:
    """Refuse prompts that lm-eval would cut to make room for the completion; report characters without a token.

    Raises
    ------
    ValueError
        Naming the first problem whose prompt is too long.
    """
    unknown = 0
    for doc in task.eval_docs:
        prompt = lm.apply_chat_template([{"role": "user", "content": task.doc_to_text(doc)}])
        tokens = lm.tok_encode(prompt)
        if len(tokens) + max_completion_length > lm.max_length:
            raise InputError(
                f"{task.config.task}: problem {doc['id']}: found a prompt of {len(tokens)} tokens and completions of "
                f"up to {max_completion_length}, expected no more than the model's context of {lm.max_length} together"
            )
        unknown += lm.tokenizer.unk_token_id is not None and lm.tokenizer.unk_token_id in tokens
    if unknown:
        print(f"{task.config.task}: {unknown} prompts hold characters that the tokenizer does not know", flush=True)


if __name__ == "__main__":
    command.run(main)
