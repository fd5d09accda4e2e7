"""The theory: oscillator coefficients and thresholds, the three-phase law, finite-group sums."""
