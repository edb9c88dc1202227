//! Waiting until a moment.

use super::{
    driver::{self, Here},
    instant::Instant,
    timers::{Moved, Node},
};
use crate::{NoMemory, task};
use core::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// Waits for a while. A duration beyond the end of the clock never ends.
///
/// The time counts from this call, not from the first poll: by the clock of the
/// executor that this runs on, or the machine's where none runs.
///
/// # Panics
/// When it is polled where no [`Runtime`](crate::Runtime) runs, as within
/// [`block_on_simple`](crate::block_on_simple): no timer would wake it.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now().saturating_add(duration))
}

/// Waits until a moment. If it is past, the sleep is over when first polled.
///
/// # Panics
/// As [`sleep`].
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        deadline,
        home: None,
        node: Node::idle(),
    }
}

/// Future of [`sleep`] and [`sleep_until`]. Once over, it stays so until it is [`reset`](Self::reset).
///
/// It never ends early. Its timer is with the core that first polled it and
/// stays there, wherever it is polled later; dropping it takes the timer away.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep {
    deadline: Instant,
    /// Where the node is registered; None: nowhere.
    home: Option<Here>,
    /// Others point to it while it is registered: never moved then.
    node: Node,
}

impl Sleep {
    /// When it ends.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether that moment has come.
    pub fn is_elapsed(&self) -> bool {
        self.node.has_fired() || driver::now() >= self.deadline.as_nanos()
    }

    /// Makes it end at another moment, also if it is over already.
    ///
    /// A task that waits for it need not poll it again; one that has seen it end does.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        this.deadline = deadline;
        let Some(home) = &this.home else {
            this.node.set_fired(false);
            return;
        };
        // SAFETY: it is a part of what is pinned.
        let node = unsafe { Pin::new_unchecked(&this.node) };
        // SAFETY: `home` is where it was registered.
        match unsafe { home.timers().reset(node, deadline.as_nanos()) } {
            Moved::Earliest => home.arm(deadline.as_nanos()),
            Moved::Later => {}
            Moved::HasFired => {
                // Whoever waited was or will be woken, and registers again when it polls.
                this.home = None;
                this.node.set_fired(false);
            }
        }
    }

    /// Registers the timer with the core that this runs on.
    fn start(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let here = Here::current().expect(
            "a sleep was polled where no runtime runs, so that no timer would wake it: await it in a task or within `Runtime::block_on`",
        );
        let deadline = self.deadline.as_nanos();
        if here.now() >= deadline {
            // Who sleeps for no time again and again gives way now and then.
            if task::poll_proceed(cx).is_pending() {
                return Poll::Pending;
            }
            self.node.set_fired(true);
            return Poll::Ready(());
        }
        // SAFETY: only `poll` calls this, and there it is pinned.
        let node = unsafe { Pin::new_unchecked(&self.node) };
        // SAFETY: 1. no home, so it is registered nowhere; `poll` saw that it has not fired;
        // 2. from here on `home` is where all go, and `drop` cancels it there.
        match unsafe { here.timers().register(node, deadline, cx.waker().clone()) } {
            Ok(true) => here.arm(deadline),
            Ok(false) => {}
            Err(NoMemory) => {
                // The core's first timer needs some. Until there is, it looks at the clock again and again.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        self.home = Some(here);
        task::waits_for(&"time");
        Poll::Pending
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        if this.node.has_fired() {
            return Poll::Ready(());
        }
        let Some(home) = &this.home else {
            return this.start(cx);
        };
        // SAFETY: it is a part of what is pinned.
        let node = unsafe { Pin::new_unchecked(&this.node) };
        // SAFETY: `home` is where it was registered.
        match unsafe { home.timers().update_waker(node, cx.waker()) } {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            // SAFETY: registered, so it was pinned, and is until the end of this drop.
            let node = unsafe { Pin::new_unchecked(&self.node) };
            // SAFETY: `home` is where it was registered.
            unsafe { home.timers().cancel(node) };
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
