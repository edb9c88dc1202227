//! Spindle drivers.
#![no_std]
