//! Spindle testing.
#![no_std]
