"""Reproducibility study of "Predictable GRPO: A Closed-Form Model of Training Dynamics", as a library."""

__version__ = "0.1.0"
