"""Base models, the instrumented GRPO trainer and the run log it writes."""
