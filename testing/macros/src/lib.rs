//! The `#[kernel_test]` attribute.
