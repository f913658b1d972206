"""How steps are repeated; what they compute is in `dapd.methods`."""

ENGINES = ("numpy", "plain")  # compiled where f, M and φ are built in; without compiled code


def check_engine(engine: str) -> None:
    """Say what there is where an engine is unknown."""
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, found {engine!r}")
