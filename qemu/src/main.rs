//! Runs images.
fn main() {}
