//! The image.
#![no_std]
