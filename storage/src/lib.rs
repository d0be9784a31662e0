//! Tenon.
