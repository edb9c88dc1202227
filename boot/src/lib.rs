//! Spindle boot.
#![no_std]
