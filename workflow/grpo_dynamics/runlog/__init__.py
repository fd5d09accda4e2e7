"""Readers of GRPO logs as people have them, into one table of the study's names."""
