//! Craft: GF(2) algebra, LFSR scramblers and their recovery, LDPC and BCH codes, parity fingerprints.
