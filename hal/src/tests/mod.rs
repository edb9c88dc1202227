//! Tests of hal in the image.
