"""The ways in which `auto` may solve a problem: Clarabel, second-order steps, and restarted first-order methods.

Each says how long it will probably take, and makes progress step by step, so `auto` may change its mind.
"""
