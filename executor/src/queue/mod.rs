//! Where runnable tasks wait.
