"""Many problems on the device together."""
