"""The softmax bandit, where the mean-field reduction of GRPO is exact."""
