//! Tests of the image as a whole.
