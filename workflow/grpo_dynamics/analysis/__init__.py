"""Fits, group-size tests, transfer, diagnostics and the claims ledger."""
