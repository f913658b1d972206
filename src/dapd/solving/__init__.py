"""The front door: checks, choice of a method, the loop, the certificate, the result."""
