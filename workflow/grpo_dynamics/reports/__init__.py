"""What is found in a run, shown: on the terminal, as JSON, and as a self-contained page."""
