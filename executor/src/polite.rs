//! Giving way while several futures are asked which is ready.
//!
//! Our own futures are pending once, though they are ready, when a tick has found their poll to last long
//! (`sync::proceed`). Whoever polls one future among others must not draw a conclusion from that. So it
//! gives way itself, before it looks, and [`hold`]s the tick's word while it does.

pub(crate) use crate::sync::proceed;

/// No future of ours gives way until this is dropped. A tick that comes meanwhile is heard after that; unless
/// this is held `firmly`, one of many is heard at once, as a future that is ready again and again might never end.
#[cfg(feature = "alloc")]
#[inline]
pub(crate) fn hold(firmly: bool) -> hal::preempt::SoftHold {
    hal::preempt::hold_soft(firmly)
}

/// Where no tasks are, nobody gives way.
#[cfg(not(feature = "alloc"))]
#[inline]
pub(crate) fn hold(_: bool) -> impl Drop {
    struct Nothing;
    impl Drop for Nothing {
        #[inline]
        fn drop(&mut self) {}
    }
    Nothing
}
