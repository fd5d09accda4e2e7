"""What a language model's sizes say of it before it is there: parameters, adapters, cached keys and values.

No model is loaded and torch is not needed: `plan` runs on a login node.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from grpo_dynamics.command import InputError

# What the base models of the study's own have (`training.pretraining`): tokens of the character tokenizer, width of the
# MLP in hidden sizes, and context.
_OWN_VOCABULARY = 78
_OWN_MLP_WIDTH = {"nemotron": 4.5, "llama": 3, "qwen2": 3}
_OWN_CONTEXT = 512

_BIASED_PROJECTIONS = ("qwen2",)  # queries, keys and values have a bias
_LAYER_NORMS = ("nemotron",)  # norms have a bias; the others' RMS norms have none


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder with rotary positions: Llama, Qwen2, Nemotron and what is built like them.

    Attributes
    ----------
    hidden_size, layers, heads, kv_heads, head_dim, intermediate_size : int
        Width, depth, heads of queries, heads of keys and values, width of a head, width of the MLP.
    gated : bool
        Whether the MLP has a gate: three matrices instead of two.
    vocabulary : int
        Tokens.
    tied : bool
        Whether input and output embeddings are one matrix.
    context : int
        Longest prompt and completion together, tokens.
    qkv_bias, norm_bias : bool
        Whether the projections to queries, keys and values, and the norms, have a bias.
    """

    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    gated: bool
    vocabulary: int
    tied: bool
    context: int
    qkv_bias: bool = False
    norm_bias: bool = False

    @property
    def attention_size(self) -> int:
        """Width of all heads together."""
        return self.heads * self.head_dim

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of a layer's linear maps by name."""
        h, inner = self.hidden_size, self.intermediate_size
        attention, kv = self.attention_size, self.kv_heads * self.head_dim
        gate = {"gate_proj": (h, inner)} if self.gated else {}
        return {
            "q_proj": (h, attention),
            "k_proj": (h, kv),
            "v_proj": (h, kv),
            "o_proj": (attention, h),
            **gate,
            "up_proj": (h, inner),
            "down_proj": (inner, h),
        }

    @property
    def layer_weights(self) -> int:
        """Elements of the matrices of all layers: what a token is multiplied by, without the output layer."""
        return self.layers * sum(inputs * outputs for inputs, outputs in self.matrices.values())

    @property
    def head_weights(self) -> int:
        """Elements of the output layer, vocabulary x hidden_size."""
        return self.vocabulary * self.hidden_size

    @property
    def parameters(self) -> int:
        """All parameters, biases and norms included; equal to transformers' ``num_parameters()``."""
        h = self.hidden_size
        norms = (2 * self.layers + 1) * h * (2 if self.norm_bias else 1)
        biases = self.layers * (self.heads + 2 * self.kv_heads) * self.head_dim if self.qkv_bias else 0
        return self.layer_weights + norms + biases + self.head_weights * (1 if self.tied else 2)

    def adapted(self, target_modules: str | Collection[str]) -> list[str]:
        """The matrices of a layer that get an adapter: all of them ("all-linear"), or those that are named.

        Raises
        ------
        ValueError
            If the model has no matrix of a name.
        """
        names = set(self.matrices) if target_modules == "all-linear" else set(target_modules)
        if unknown := names - set(self.matrices):
            raise InputError(
                f"grpo.lora.target_modules: found {', '.join(sorted(unknown))}, expected all-linear or some of "
                f"{', '.join(self.matrices)}"
            )
        return [name for name in self.matrices if name in names]

    def adapter_parameters(self, rank: int, target_modules: str | Collection[str]) -> int:
        """Parameters of LoRA's adapters (Hu et al. 2021, arXiv 2106.09685): rank x (inputs + outputs) per matrix."""
        return self.layers * rank * sum(sum(self.matrices[name]) for name in self.adapted(target_modules))

    def cache_bytes(self, key: int, value: int) -> int:
        """Bytes of cached keys and values per token, for elements of `key` and `value` bytes."""
        return self.layers * self.kv_heads * self.head_dim * (key + value)


def own_shape(architecture: str, sizes: dict) -> ModelShape:
    """The shape of a base model that the study pretrains.

    Parameters
    ----------
    architecture : {"nemotron", "llama", "qwen2"}
    sizes : dict
        The config's section ``pretraining``.
    """
    hidden, heads = sizes["hidden_size"], sizes["heads"]
    return ModelShape(
        hidden_size=hidden,
        layers=sizes["layers"],
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        intermediate_size=int(_OWN_MLP_WIDTH[architecture] * hidden),
        gated=architecture not in _LAYER_NORMS,
        vocabulary=_OWN_VOCABULARY,
        tied=True,
        context=_OWN_CONTEXT,
        qkv_bias=architecture in _BIASED_PROJECTIONS,
        norm_bias=architecture in _LAYER_NORMS,
    )


def saved_shape(path: Path) -> ModelShape:
    """The shape of a saved model, from its config.json alone (Llama, Nemotron or Qwen2).

    Raises
    ------
    ValueError
        If the file is not such a model's.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        kind = stored["model_type"]
        heads, hidden = stored["num_attention_heads"], stored["hidden_size"]
        shape = ModelShape(
            hidden_size=hidden,
            layers=stored["num_hidden_layers"],
            heads=heads,
            kv_heads=stored.get("num_key_value_heads") or heads,
            head_dim=stored.get("head_dim") or hidden // heads,
            intermediate_size=stored["intermediate_size"],
            gated=kind not in _LAYER_NORMS,
            vocabulary=stored["vocab_size"],
            tied=stored.get("tie_word_embeddings", False),
            context=stored["max_position_embeddings"],
            qkv_bias=kind in _BIASED_PROJECTIONS,
            norm_bias=kind in _LAYER_NORMS,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: found {error!r}, expected the config.json of a saved model") from error
    if kind not in ("llama", "nemotron", "qwen2"):
        raise InputError(
            f"{path}: model_type: found {kind}, expected llama, nemotron or qwen2; give the sizes of another "
            "architecture as shape of the model in the catalogue"
        )
    return shape


def catalogue_shape(entry: dict, sizes: dict, folder: Path) -> ModelShape | None:
    """The shape of a model of the catalogue; None for one from the hub that is neither described nor there.

    What the catalogue's ``shape`` says comes before the model's own config.json: the plan is the same before and after
    a download, and models of other architectures can be described.

    Parameters
    ----------
    entry : dict
        The model's entry in the config's catalogue.
    sizes : dict
        The config's section ``pretraining``.
    folder : Path
        Where the base model is, or will be.
    """
    if "pretraining" in entry:
        return own_shape(entry["architecture"], sizes)
    if "shape" in entry:
        architecture = entry.get("architecture")
        return ModelShape(
            **entry["shape"], qkv_bias=architecture in _BIASED_PROJECTIONS, norm_bias=architecture in _LAYER_NORMS
        )
    if "path" in entry or (folder / "config.json").is_file():
        return saved_shape(folder / "config.json")
    return None
