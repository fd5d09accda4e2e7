"""Evaluation: the summary of scored completions, the settings, and lm-eval end to end on a tiny random model."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from grpo_dynamics import tables
from grpo_dynamics.evaluation.settings import Settings
from grpo_dynamics.evaluation.summary import clustered_error, item_table, summarise, summarise_groups

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,?!+-*/=#\n\\{}'"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    """A random two-layer Llama with a character-level tokenizer, as a saved checkpoint."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate(["<pad>", "<eos>", "<unk>", *ALPHABET])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    fast.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=256,
            pad_token_id=0,
            bos_token_id=None,
            eos_token_id=1,
        )
    )
    model.generation_config.max_new_tokens = 3  # such a cap must not shorten the completions
    folder = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def _sample(item: str, reward: float | None, found_by: str, sample: int = 0) -> dict:
    answer = None if found_by in ("none", "unscorable") else "7"
    return {
        "doc": {"id": item, "group": "", "cluster": item, "sample": sample, "answer": "7"},
        "score": {"reward": reward, "answer": answer, "found_by": found_by},
        "resps": [["#### 7"]],
    }


def test_summary_counts_problems_and_not_samples():
    """Problem means 1, 1/2 and 0: accuracy 1/2, standard error (1/2) / sqrt(3); the rest is left out, and counted."""
    samples = {
        "near": [
            _sample("a", 1.0, "marker", 0),
            _sample("a", 1.0, "box", 1),
            _sample("b", 1.0, "last number", 0),
            _sample("b", 0.0, "none", 1),
            _sample("c", 0.0, "box", 0),
            _sample("c", None, "timeout", 1),
            _sample("d", None, "unscorable", 0),
            _sample("d", None, "unscorable", 1),
        ],
        "far": [_sample("a", 0.0, "none")],
    }
    items = tables.check(item_table(samples, "tiny", 4, 0), tables.EVALUATION_ITEMS)
    assert items["reward"].isna().sum() == 3 and items["answer"].isna().sum() == 4
    near, far = tables.check(summarise(items, ["near", "far"]), tables.EVALUATIONS).to_dict("records")
    assert (near["items"], near["samples"], near["unscorable"], near["timeouts"]) == (3, 2, 1, 1)
    assert near["accuracy"] == pytest.approx(0.5)
    assert near["standard_error"] == pytest.approx(0.5 / math.sqrt(3))
    assert near["no_answer_share"] == pytest.approx(1 / 6)
    assert (near["distance"], far["distance"]) == (0, 1)
    assert far["accuracy"] == 0 and pd.isna(far["standard_error"]) and far["no_answer_share"] == 1


def test_standard_error_is_over_questions_and_not_over_their_variants():
    """Against statsmodels' cluster-robust error of a mean, and the ordinary one where every problem stands alone."""
    rng = np.random.default_rng(0)
    clusters = pd.Series(np.repeat(np.arange(12), 1 + np.arange(12) % 4)).astype(str)
    values = pd.Series((rng.random(len(clusters)) < 0.5).astype(float))
    model = sm.OLS(values, np.ones(len(values)))
    robust = model.fit(cov_type="cluster", cov_kwds={"groups": clusters.astype(int), "use_correction": False})
    assert clustered_error(values, clusters) == pytest.approx(robust.bse.iloc[0] * np.sqrt(12 / 11))
    assert clustered_error(values, pd.Series(values.index)) == pytest.approx(values.sem())
    assert math.isnan(clustered_error(values, pd.Series("one", index=values.index)))


def test_summary_of_groups():
    """Accuracy by kind of problem; a kind that cannot be scored is counted and has none."""
    kinds = {"a": "digits", "b": "digits", "c": "missing"}
    rows = [_sample("a", 1.0, "box"), _sample("b", 0.0, "none"), _sample("c", None, "unscorable")]
    for row in rows:
        row["doc"] |= {"group": kinds[row["doc"]["id"]]}
    base = item_table({"plus": rows, "plain": [_sample("a", 1.0, "box")]}, "tiny", None, None)
    trained = item_table({"plus": rows}, "tiny", 4, 0)
    items = tables.check(pd.concat([base, trained], ignore_index=True), tables.EVALUATION_ITEMS)
    found = tables.check(summarise_groups(items), tables.EVALUATIONS_BY_GROUP)
    assert found["G"].isna().tolist() == [True, True, False, False] and set(found["benchmark"]) == {"plus"}
    digits, missing = found[found["seed"] == 0].to_dict("records")
    assert (digits["group"], digits["items"], digits["accuracy"], digits["no_answer_share"]) == ("digits", 2, 0.5, 0.5)
    assert digits["standard_error"] == pytest.approx(0.5)
    assert (missing["group"], missing["items"], missing["unscorable"]) == ("missing", 0, 1)
    assert math.isnan(missing["accuracy"]) and math.isnan(missing["standard_error"])
    plain = item_table({"plain": [_sample("a", 1.0, "box")]}, "tiny", None, None)
    assert tables.check(summarise_groups(plain), tables.EVALUATIONS_BY_GROUP).empty


def test_summary_refuses_a_benchmark_without_scores():
    items = item_table({"near": [_sample("a", None, "unscorable")]}, "tiny", None, None)
    with pytest.raises(ValueError, match="near: found no completion that can be scored"):
        summarise(items, ["near"])


def test_prompts_are_tokenized_as_in_training(checkpoint, tmp_path):
    """The chat template writes all special tokens: a tokenizer that would add one of its own adds none."""
    from tokenizers import processors
    from transformers import AutoTokenizer

    from grpo_dynamics.evaluation import run
    from grpo_dynamics.tasks import chat

    shutil.copytree(checkpoint, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    start = ("<unk>", tokenizer.unk_token_id)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing("<unk> $A", special_tokens=[start])
    tokenizer.save_pretrained(tmp_path / "model")
    assert AutoTokenizer.from_pretrained(tmp_path / "model")("2 + 3")["input_ids"][0] == tokenizer.unk_token_id

    lm = run.load_model(str(tmp_path / "model"), batch_size=1)
    conversation = chat.conversation("2 + 3?")
    expected = tokenizer.apply_chat_template(conversation, add_generation_prompt=True, return_dict=False)
    text = lm.apply_chat_template(conversation)
    assert lm.tok_encode(text) == lm.tok_batch_encode([text])[0][0].tolist() == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"benchmarks": []}', "benchmarks: found none"),
        ('{"benchmarks": ["gsm8k"], "samples": 8}', "samples: found 8 with temperature 0"),
        ('{"benchmarks": ["gsm8k"], "samples": {"gsm8k": 2}}', "samples: found .* with temperature 0"),
        ('{"benchmark": ["gsm8k"]}', "found .*benchmark.*, expected a JSON object of Settings"),
        ("gsm8k", "expected a JSON object of Settings"),
    ],
)
def test_bad_settings_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        Settings.from_json(text)


def test_every_benchmark_has_a_task_file():
    from grpo_dynamics.evaluation.run import TASKS
    from grpo_dynamics.tasks.benchmarks import BENCHMARKS

    assert {path.stem for path in TASKS.glob("[!l]*.yaml")} == set(BENCHMARKS)


def test_lm_eval_end_to_end(checkpoint, tmp_path, monkeypatch):
    """One loaded model: greedy and sampled completions, scored, in the tables; and what must be refused."""
    import torch

    from grpo_dynamics.evaluation import run
    from grpo_dynamics.tasks.scoring import score

    rows = [{"id": f"p{i}", "question": f"Tom has {i} pens. How many?", "answer": f"{i}"} for i in range(5)]
    (tmp_path / "ladder_names.jsonl").write_text("\n".join(json.dumps({**row, "kind": "number"}) for row in rows))
    gsm8k = [{"question": row["question"], "answer": f"so #### {row['answer']}"} for row in rows]
    (tmp_path / "gsm8k.jsonl").write_text("\n".join(map(json.dumps, gsm8k)))
    files = {name: str(tmp_path / f"{name}.jsonl") for name in ("ladder_names", "gsm8k")}
    loaded = []
    monkeypatch.setattr(run, "load_model", lambda *args, load=run.load_model: loaded.append(load(*args)) or loaded[-1])
    settings = {
        "benchmarks": ["ladder_names", "gsm8k"],
        "max_completion_length": 20,
        "batch_size": 4,
        "data_files": files,
    }
    run.main(
        checkpoint=str(checkpoint),
        model="tiny",
        settings=json.dumps(settings),
        items=tmp_path / "items.parquet",
        summary=tmp_path / "summary.csv",
        group_size=4,
        seed=0,
    )
    items = tables.read(tmp_path / "items.parquet", tables.EVALUATION_ITEMS)
    summary = tables.read(tmp_path / "summary.csv", tables.EVALUATIONS)
    assert summary[["benchmark", "distance", "items", "samples"]].values.tolist() == [
        ["ladder_names", 0, 5, 1],
        ["gsm8k", 1, 5, 1],
    ]
    assert set(items["G"]) == {4} and set(items["model"]) == {"tiny"}
    for row in items.itertuples():
        expected = score(row.completion, row.gold)
        assert (row.reward, row.found_by) == (expected.reward, expected.found_by)
    means = items.groupby("benchmark")["reward"].mean()
    assert means[summary["benchmark"]].tolist() == pytest.approx(summary["accuracy"].tolist())

    # The greedy completion is the model's own, and generation_config's cap of 3 tokens did not shorten it.
    (lm,) = loaded
    inputs = lm.tokenizer("Tom has 3 pens. How many?\n", return_tensors="pt")
    with torch.no_grad():
        tokens = lm.model.generate(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], max_new_tokens=20, do_sample=False
        )[0, inputs["input_ids"].shape[1] :]
    (found,) = items.query("benchmark == 'ladder_names' and item == 'p3'")["completion"]
    assert found == lm.tokenizer.decode(tokens, skip_special_tokens=True) and len(tokens) > 3

    # Several samples per problem: different from each other, the same for the same seed.
    sampled = Settings.from_json(json.dumps({**settings, "temperature": 1.0, "samples": {"gsm8k": 3}, "items": 2}))
    first, again, other = (run.evaluate(lm, sampled, seed)["gsm8k"] for seed in (0, 0, 1))
    assert [row["doc"]["sample"] for row in first] == [0, 1, 2] * 2
    texts = [[row["resps"][0][0] for row in rows] for rows in (first, again, other)]
    assert texts[0] == texts[1] != texts[2] and len(set(texts[0])) > 1

    # A prompt that would be cut, and a benchmark that does not exist, are refused before anything is generated.
    with pytest.raises(ValueError, match=r"ladder_names: problem p0: found a prompt of 26 tokens .* context of 256"):
        run.evaluate(lm, Settings(["ladder_names"], max_completion_length=231, data_files=files))
    with pytest.raises(ValueError, match=r"benchmarks: found \['gsm9k'\]"):
        run.evaluate(lm, Settings(["gsm9k"]))
