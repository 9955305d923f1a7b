"""Parity: the encodings against reference arrays, plain loops and other people's libraries."""
