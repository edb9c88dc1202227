//! Where a panic must not unwind, because who would be told could not put right
//! what it leaves behind: there it ends the program.

/// Ends the program if it is dropped. On the image every panic does that already.
#[must_use]
pub(crate) struct Bomb(pub(crate) &'static str);

impl Bomb {
    /// Nothing has happened.
    pub(crate) fn defuse(self) {
        core::mem::forget(self);
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        // A panic within a panic does not unwind.
        panic!("{}", self.0);
    }
}
