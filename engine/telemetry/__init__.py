"""What the machine has and what it is doing: hardware facts, health checks, probes."""
