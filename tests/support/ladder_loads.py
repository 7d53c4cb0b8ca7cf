"""Conditions that the ladder's tests have in common: one layer each beside "warm"."""

LOADS = """
[[condition]]
name = "memory pressure"
base = "warm"
state = { memory_pressure = "64MiB" }
[[condition]]
name = "cpu"
base = "warm"
state = { background = "cpu" }
[[condition]]
name = "disk"
base = "warm"
state = { background = "disk" }
[[condition]]
name = "requests"
base = "warm"
state = { background = "requests" }
[[condition]]
name = "kept"
base = "warm"
state = { connection = "reused" }
[[condition]]
name = "hit"
base = "warm"
state = { prefix_cache = "hit" }
"""
