"""Plain PyTorch replicas of the policies that stepgauge sizes: what the framework itself does, to compare with."""
