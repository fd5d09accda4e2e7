"""The plan's formulas against real tiny models of the three architectures, counted tensor by tensor."""

import dataclasses
import json
import subprocess
import sys

import pytest
import torch
from conftest import ROOT
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM
from trl import GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

from grpo_dynamics.command import InputError
from grpo_dynamics.training import estimate, model_shape, pretraining, timing
from grpo_dynamics.training.arguments import grpo_config, lora_config
from grpo_dynamics.training.tokenizer import character_tokenizer

# Fewer heads of keys than of queries, no two sizes alike, untied: a size that is taken for another shows.
SIZES = {"hidden_size": 48, "intermediate_size": 112, "layers": 3, "heads": 4, "kv_heads": 2, "head_dim": 16}
LORA = {"rank": 4, "alpha": 8, "target_modules": "all-linear"}
ALONE = {"accelerate": None, "processes": 1, "nodes": 1}

every_architecture = pytest.mark.parametrize("architecture", pretraining.ARCHITECTURES)
every_method = pytest.mark.parametrize("lora", [None, LORA], ids=["full", "lora"])


def build(architecture, attention="sdpa", tied=False, **changed):
    sizes = SIZES | changed
    config = pretraining.ARCHITECTURES[architecture](
        vocab_size=300,
        hidden_size=sizes["hidden_size"],
        intermediate_size=sizes["intermediate_size"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["kv_heads"],
        head_dim=sizes["head_dim"],
        max_position_embeddings=256,
        tie_word_embeddings=tied,
    )
    return AutoModelForCausalLM.from_config(config, attn_implementation=attention)


def shape_of(model, folder):
    model.config.save_pretrained(folder)
    return model_shape.saved_shape(folder / "config.json")


def run_of(shape, config, **changed):
    """A run of the default config with `changed` settings of grpo, on a CPU."""
    return estimate.Run(shape, config["grpo"] | changed, ALONE, prompt=20, gpu=False)


@every_architecture
@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_those_of_transformers(architecture, tied, tmp_path):
    model = build(architecture, tied=tied)
    assert shape_of(model, tmp_path).parameters == model.num_parameters()


@every_architecture
def test_own_base_models_have_their_shape(architecture, config):
    model = pretraining.build(architecture, character_tokenizer(), config["pretraining"])
    shape = model_shape.own_shape(architecture, config["pretraining"])
    assert shape.parameters == model.num_parameters()
    assert (shape.vocabulary, shape.context) == (model.config.vocab_size, model.config.max_position_embeddings)
    assert shape.intermediate_size == model.config.intermediate_size


@pytest.mark.parametrize(
    ("sizes", "parameters"),
    [
        ((3072, 32, 24, 8, 128, 9216, False, 256000, False, 4096), 4.19e9),  # Nemotron-Mini-4B-Instruct
        ((4096, 30, 32, 32, 128, 11008, True, 102400, False, 4096), 6.91e9),  # deepseek-llm-7b-chat
        ((1536, 28, 12, 2, 128, 8960, True, 151936, False, 131072), 1.78e9),  # DeepSeek-R1-Distill-Qwen-1.5B
    ],
)
def test_the_papers_models_have_their_published_sizes(sizes, parameters):
    assert model_shape.ModelShape(*sizes).parameters == pytest.approx(parameters, rel=2e-3)


@every_architecture
@pytest.mark.parametrize("modules", ["all-linear", ["q_proj", "v_proj"], ["o_proj", "down_proj"]])
def test_adapters_are_those_of_peft(architecture, modules, tmp_path):
    model = build(architecture)
    shape = shape_of(model, tmp_path)
    adapted = get_peft_model(model, LoraConfig(r=5, target_modules=modules, task_type="CAUSAL_LM"))
    assert shape.adapter_parameters(5, modules) == adapted.get_nb_trainable_parameters()[0]


def test_a_matrix_that_the_model_lacks_is_named(tmp_path):
    shape = shape_of(build("nemotron"), tmp_path)
    with pytest.raises(InputError, match=r"target_modules: found gate_proj, expected all-linear or some of q_proj"):
        shape.adapter_parameters(4, ["q_proj", "gate_proj"])


@pytest.mark.parametrize(
    ("content", "named"),
    [("{", "JSONDecodeError"), ('{"model_type": "llama"}', "num_attention_heads"), (None, "No such")],
)
def test_a_config_that_is_no_models_is_named(content, named, tmp_path):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(
        InputError, match=rf"config\.json: found .*{named}.*, expected the config\.json of a saved model"
    ):
        model_shape.saved_shape(path)


def test_another_architecture_is_refused(tmp_path):
    build("llama").config.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(stored | {"model_type": "mixtral"}))
    with pytest.raises(InputError, match="model_type: found mixtral, expected llama, nemotron or qwen2"):
        model_shape.saved_shape(tmp_path / "config.json")


def size(tensors):
    return sum(tensor.nbytes for tensor in tensors)


@every_architecture
@every_method
@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "recomputed"])
def test_a_real_run_holds_and_saves_what_is_estimated(architecture, lora, checkpointing, config, tmp_path):
    tokenizer = character_tokenizer()
    base = pretraining.build(architecture, tokenizer, config["pretraining"] | {"hidden_size": 64, "layers": 2})
    base.save_pretrained(tmp_path / "base")
    changed = {"steps": 2, "completions_per_step": 4, "micro_batch_size": 4, "max_completion_length": 4}
    changed |= {"checkpoint_every": 2, "lora": lora, "gradient_checkpointing": checkpointing}
    run = run_of(model_shape.saved_shape(tmp_path / "base" / "config.json"), config, **changed)
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(tmp_path / "base"),
        reward_funcs=[lambda completions, **columns: [float(index % 2) for index, _ in enumerate(completions)]],
        args=grpo_config(run.grpo, 4, 0, tmp_path / "checkpoints"),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "1+1?"}]}] * 8),
        processing_class=tokenizer,
        peft_config=lora_config(lora),
    )
    trainer.train()
    held = estimate.states(run)
    assert size(trainer.model.parameters()) == held["weights"]
    moments = [state[name] for state in trainer.optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    assert size(moments) == held["optimiser"]
    assert (size(trainer.ref_model.parameters()) if trainer.ref_model else 0) == held["reference"]
    trained = [parameter for parameter in trainer.model.parameters() if parameter.requires_grad]
    assert size(trained) == estimate.backward_memory(run, 20)["gradients"]

    folder = tmp_path / "checkpoints" / "checkpoint-2"
    on_disk = sum(next(folder.glob(name)).stat().st_size for name in ("*model.safetensors", "optimizer.pt"))
    headers = 1200 * len(trained)  # bytes that the two files take for each tensor's name and place
    assert estimate.checkpoint_bytes(run) <= on_disk <= 1.05 * estimate.checkpoint_bytes(run) + headers


@every_architecture
@pytest.mark.parametrize(
    ("lora", "bf16"), [(None, False), (None, True), (LORA, True)], ids=["float32", "autocast", "frozen in bf16"]
)
def test_cached_keys_and_values_are_those_of_transformers(architecture, lora, bf16, config, tmp_path):
    model = build(architecture)
    run = run_of(shape_of(model, tmp_path), config, lora=lora, bf16=bf16)
    if lora:
        model = get_peft_model(model.to(torch.bfloat16), lora_config(lora))
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        cache = model(input_ids=torch.zeros((2, 10), dtype=torch.long), use_cache=True).past_key_values
    found = size(tensor for layer in cache.layers for tensor in (layer.keys, layer.values))
    assert found == 2 * 10 * estimate.cache_bytes(run)


def policy(architecture, lora, checkpointing, bf16=False, **changed):
    """A model as TRL trains it: log-probabilities in tiles, adapters, checkpointing."""
    model = build(architecture, **changed)
    if lora and bf16:
        model = model.to(torch.bfloat16)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    if lora:
        model = get_peft_model(model, lora_config(lora))
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    return model.train()


def log_probabilities(model, batch, length):
    ids = torch.randint(0, 300, (batch, length), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[0, :3] = 0  # padding on the left, as in training
    labels = ids.clone()
    labels[:, :20] = -100
    return model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True).log_probs.sum()


@every_architecture
@every_method
@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize("bf16", [False, True], ids=["float32", "bf16"])
def test_activations_are_estimated_closely_from_above(architecture, lora, checkpointing, bf16, config, tmp_path):
    model = policy(architecture, lora, checkpointing, bf16, layers=6)
    shape = shape_of(build(architecture, layers=6), tmp_path)
    run = run_of(shape, config, lora=lora, gradient_checkpointing=checkpointing, bf16=bf16, micro_batch_size=8)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = tensor  # holding it keeps its address from being used again
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16),
    ):
        log_probabilities(model, 8, 60)
    measured = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    expected = estimate.activations(run, 60)
    if checkpointing:  # the layer that is recomputed in the backward pass is not there yet
        kept_run = run_of(shape, config, lora=lora, bf16=bf16, micro_batch_size=8)
        none, one = (dataclasses.replace(kept_run, shape=dataclasses.replace(shape, layers=n)) for n in (0, 1))
        expected -= estimate.activations(one, 60) - estimate.activations(none, 60)
    elif run.casts:
        expected += 2 * shape.layer_weights
    assert 0.97 * measured <= expected <= 1.25 * measured


@every_architecture
@every_method
@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "recomputed"])
def test_training_computes_what_is_estimated(architecture, lora, checkpointing, config, tmp_path):
    model = policy(architecture, lora, checkpointing, attention="eager", layers=6)
    shape = shape_of(build(architecture, layers=6), tmp_path)
    settings = {"lora": lora, "gradient_checkpointing": checkpointing, "completions_per_step": 4}
    run = run_of(shape, config, **settings)
    # TRL's output layer accumulates its gradients in place, which the counter does not know.
    in_place = {torch.ops.aten.addmm_: lambda total, left, right, **_: 2 * left[0] * left[1] * right[1]}
    with FlopCounterMode(display=False, custom_mapping=in_place) as counter:
        log_probabilities(model, 4, 60).backward()
    assert counter.get_total_flops() == pytest.approx(timing.training_flops(run, 60), rel=0.02)


@every_architecture
def test_sampling_computes_what_is_estimated(architecture, tmp_path):
    model = build(architecture, attention="eager")
    shape = shape_of(model, tmp_path)
    ids = torch.zeros((4, 20), dtype=torch.long)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=9, min_new_tokens=9, do_sample=False)
    expected = timing.forward_flops(shape, 4 * 20, 20, 4)
    expected += sum(timing.forward_flops(shape, 4, seen, 4) for seen in range(21, 29))
    assert counter.get_total_flops() == pytest.approx(expected, rel=1e-6)


def test_the_library_of_the_plan_needs_no_torch():
    code = "import sys, grpo_dynamics.training.plan_text; print({'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "workflow", capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
