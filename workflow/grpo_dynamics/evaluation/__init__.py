"""lm-eval on a checkpoint, over all benchmarks in one process."""
