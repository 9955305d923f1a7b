"""The laws: what must hold for every file in configs/pos, by enumeration."""
