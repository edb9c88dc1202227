//! Time. So far: `wheel`, a timing wheel that knows no clock.
#![allow(dead_code, unused_imports, reason = "what uses it is to come")]

mod list;
mod shim;
mod wheel;
