//! Spindle hal.
#![no_std]
