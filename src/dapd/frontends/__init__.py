"""dapd inside other libraries: each module only translates."""
