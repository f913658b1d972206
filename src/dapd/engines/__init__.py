"""How steps are repeated; what they compute is in `dapd.methods`."""
