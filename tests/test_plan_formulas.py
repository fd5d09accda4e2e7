"""The plan's memory and time, by hand, for a model of seven billion parameters. Measured: test_plan_estimates.py."""

import pytest
from seven_billion import ADAPTERS, GPU, LORA, PARAMETERS, SHAPE, VLLM, job, planned, study

from grpo_dynamics.training import timing
from grpo_dynamics.training.estimate import GB, Hardware, Run, host_memory, training_memory
from grpo_dynamics.training.model_shape import ModelShape


@pytest.fixture
def large(config):
    return study(config)


def run_of(config, launch=None, gpu=True, **changed):
    launch = {"accelerate": None, "processes": 1, "nodes": 1} | (launch or {})
    return Run(ModelShape(**SHAPE), config["grpo"] | changed, launch, prompt=400, gpu=gpu)


def peak(run):
    return sum(training_memory(run, Hardware(**GPU)).values()) / GB


def test_full_weights_take_sixteen_bytes_and_the_reference_four(large):
    parts = training_memory(run_of(large, lora=None, vllm=None, completions_per_step=4), Hardware(**GPU))
    held = sum(parts[name] for name in ("weights", "optimiser", "gradients", "reference"))
    assert held == 20 * PARAMETERS


def test_only_sharded_processes_share_weights(large):
    settings = {"lora": None, "vllm": None, "completions_per_step": 32}
    alone = training_memory(run_of(large, **settings), Hardware(**GPU))
    for accelerate, shards in (("several_gpus", 1), ("sharded", 4)):
        run = run_of(large, {"accelerate": accelerate, "processes": 4}, **settings)
        parts = training_memory(run, Hardware(**GPU))
        for name in ("weights", "optimiser", "reference"):
            assert parts[name] == alone[name] / shards


@pytest.mark.parametrize(
    ("launch", "lora", "expected"),
    [
        ({}, None, 0),
        ({"accelerate": "several_gpus", "processes": 4}, None, 4 * PARAMETERS),
        ({"accelerate": "several_nodes", "nodes": 2}, None, 4 * PARAMETERS),
        ({"accelerate": "several_gpus", "processes": 4}, LORA, 4 * ADAPTERS),
        ({"accelerate": "sharded", "processes": 4}, None, 0),
    ],
)
def test_copies_of_the_model_sum_their_gradients_in_buckets(large, launch, lora, expected):
    parts = training_memory(run_of(large, launch, lora=lora), Hardware(**GPU))
    assert parts["gradient buckets"] == expected


def test_merging_adapters_in_float32_takes_the_nodes_memory(large):
    assert host_memory(run_of(large)) == 4 * (PARAMETERS + ADAPTERS) + 5 * GB
    # Four processes load two bytes per weight each, which is more than the first one merges.
    four = {"accelerate": "several_gpus", "processes": 4}
    assert host_memory(run_of(large, four)) == 4 * (2 * PARAMETERS + 5 * GB)
    assert host_memory(run_of(large, lora=None)) == 8 * PARAMETERS + 5 * GB


def test_merging_adapters_without_a_gpu_is_the_peak_of_a_small_batch(large):
    small = {"vllm": None, "completions_per_step": 1, "micro_batch_size": 1}
    parts = training_memory(run_of(large, gpu=False, **small), Hardware(**GPU))
    assert sum(parts.values()) == 4 * PARAMETERS + 12 * ADAPTERS
    float32 = training_memory(run_of(large, gpu=False, bf16=False, **small), Hardware(**GPU))
    assert sum(float32.values()) > 4 * PARAMETERS + 12 * ADAPTERS
    assert "merging in float32" not in float32


def test_a_server_of_its_own_frees_the_gpus_that_train(large):
    server = run_of(large, vllm=VLLM | {"mode": "server"})
    assert peak(run_of(large)) - peak(server) == pytest.approx(40)
    table = planned(large | {"grpo": server.grpo}, job(gpu=2))
    assert table["devices"].tolist() == [2]


SERVED = {"heldout_every": 10, "heldout_problems": 128}


@pytest.mark.parametrize(
    ("mode", "gpus", "together", "rounds"),
    [
        ("colocate", 1, 32, 1),
        ("colocate", 2, 64, 1),
        ("server", 1, 128, 4),
        ("server", 2, 128, 2),
    ],
)
def test_a_vllm_samples_for_all_processes_that_it_serves(large, mode, gpus, together, rounds):
    """Four processes with 32 completions each. A token of one completion caches 30 x 32 x 128 x 4 bytes; beside the
    weights a GPU has room for 37 completions of 1424 tokens, two have room for 94."""
    vllm = VLLM | {"mode": mode, "tensor_parallel_size": gpus}
    run = run_of(large, {"accelerate": "several_gpus", "processes": 4}, vllm=vllm, **SERVED)
    layers, head = 30 * (4 * 4096**2 + 3 * 4096 * 11008), 102400 * 4096
    batch = together / rounds
    token = (2 * (layers + head) + batch * (400 + 512) * 491520) / 1.5e12
    prefill = batch * (400 * (2 * layers + 4 * 400 * 4096 * 30) + 2 * head) / 5e14
    found = timing.step_seconds(run, Hardware(**GPU), 1024)
    assert found["sampling"] == pytest.approx(rounds * (1024 * token + prefill) / gpus)
    assert found["held out"] == pytest.approx(found["sampling"] / 10)


def test_recomputation_starts_the_kernels_of_a_forward_pass_again(large):
    """Adapters on all matrices count 30 layers as 60, in each of 32 micro-batches; a second per layer."""
    slow = Hardware(**GPU | {"layer_ms": 1000})
    for checkpointing, passes in ((False, 3), (True, 4)):
        parts = timing.step_seconds(run_of(large, gradient_checkpointing=checkpointing), slow, 1024)
        assert parts["loss and gradient"] == pytest.approx(passes * 32 * 60)


def hours(run):
    return sum(timing.step_seconds(run, Hardware(**GPU), 1024).values())


@pytest.mark.parametrize(
    ("changed", "longer"),
    [
        ({"gradient_checkpointing": False}, False),
        ({"lora": None}, True),
        ({"vllm": None}, True),
        ({"K_ref": 4}, False),
        ({"heldout_every": 1}, True),
        ({"completions_per_step": 64}, False),
    ],
)
def test_what_makes_a_step_longer(large, changed, longer):
    assert (hours(run_of(large, **changed)) > hours(run_of(large))) == longer


def test_more_processes_share_the_work(large):
    alone = timing.step_seconds(run_of(large), Hardware(**GPU), 1024)
    four = timing.step_seconds(run_of(large, {"accelerate": "several_gpus", "processes": 4}), Hardware(**GPU), 1024)
    assert four["loss and gradient"] == pytest.approx(alone["loss and gradient"] / 4)
    assert alone["held out"] / 4 == pytest.approx(four["held out"])


def test_tokens_by_hand(large):
    grpo = {"steps": 10, "K_ref": 2, "completions_per_step": 8, "heldout_every": 5, "heldout_problems": 3}
    run = run_of(large, **grpo, max_completion_length=100)
    assert timing.training_tokens(run) == ((5 * 8 + 2 * 3) * 100, 10 * 8 * 500)


def test_hardware_is_bound_by_the_slowest_of_three():
    hardware = Hardware(**GPU)
    assert hardware.seconds(traffic=3e12) == pytest.approx(2)
    assert hardware.seconds(flops=1e15) == pytest.approx(2)
    assert hardware.seconds(launches=2000) == pytest.approx(2)
    assert hardware.seconds(traffic=3e12, flops=2e15, launches=1) == pytest.approx(4)
