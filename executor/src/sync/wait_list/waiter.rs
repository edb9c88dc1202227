//! The side of who waits: a node in a future, from when it is put into a list until it has left it.

use super::{super::owner::Poller, Answer, Node, WaitList, Waiters, with};
use crate::shim::discard;
use core::{mem::MaybeUninit, pin::Pin, ptr::NonNull, task::Waker};

/// The place for a node in a future. Nothing is written to it before the future has to wait.
pub struct Waiter {
    /// The node was put into a list, and has neither left it nor shown its answer.
    is_waiting: bool,
    node: MaybeUninit<Node>,
}

/// A node that waits no more.
pub struct Answered {
    /// What it was told. None: nothing, it has left before.
    pub answer: Option<Answer>,
    /// What it still waited for at the end.
    pub request: usize,
}

impl Waiter {
    /// One that does not wait.
    #[inline]
    pub fn new() -> Self {
        let mut waiter = MaybeUninit::<Self>::uninit();
        // As a whole it would be a constant, which the compiler copies with zeros where nothing is.
        // SAFETY: it is in bounds.
        unsafe { (&raw mut (*waiter.as_mut_ptr()).is_waiting).write(false) };
        // SAFETY: the other field may be uninitialised.
        unsafe { waiter.assume_init() }
    }

    /// Whether it is in a list, or has an answer there that it has not looked at.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Puts it into the list, behind all others.
    ///
    /// # Safety
    /// 1. It does not wait.
    /// 2. Until it does not wait any more, by [`poll`](Self::poll) or [`leave`](Self::leave) with this same
    ///    list, the list is not dropped, and this neither.
    pub unsafe fn join(
        self: Pin<&mut Self>,
        waiters: &mut Waiters<'_>,
        request: usize,
        waker: Option<Waker>,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.join_for(waiters, (0, request), waker) };
    }

    /// The same, for so much, of which `request` is the rest.
    ///
    /// # Safety
    /// As for [`join`](Self::join).
    pub unsafe fn join_for(
        self: Pin<&mut Self>,
        waiters: &mut Waiters<'_>,
        request: (usize, usize),
        waker: Option<Waker>,
    ) {
        debug_assert!(!self.is_waiting, "a node is in one list at most");
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        this.is_waiting = true;
        let node = NonNull::from_ref(this.node.write(Node::new(request, Poller::here(), waker)));
        // SAFETY: the lock is held; the node is pinned and, by the caller's promise, not dropped before it leaves.
        unsafe { waiters.0.push(node) };
    }

    /// Looks for its answer. None: it still waits, and the answer will wake `waker`, by a `clone`.
    ///
    /// # Safety
    /// It waits, in this list.
    pub unsafe fn poll(
        self: Pin<&mut Self>,
        list: &WaitList,
        waker: &Waker,
        clone: impl FnOnce(&Waker) -> Waker,
    ) -> Option<Answered> {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        let node = this.node();
        // SAFETY: it is its own, and in this list if it has no answer.
        unsafe {
            if node.as_ref().answer().is_none() && update_waker(list, node, waker, clone) {
                return None;
            }
        }
        Some(this.finish())
    }

    /// Looks for its answer, and leaves the waker as it is.
    ///
    /// # Safety
    /// It waits.
    pub unsafe fn look(self: Pin<&mut Self>) -> Option<Answered> {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: it is its own.
        let is_answered = unsafe { this.node().as_ref() }.answer().is_some();
        is_answered.then(|| this.finish())
    }

    /// Takes it out of the list, for good: after this, nobody else touches it. If it has no answer, `uncount`
    /// is called with its request, under the lock. Else what it has been granted is the caller's to hand on.
    ///
    /// # Safety
    /// It waits, in this list.
    pub unsafe fn leave(
        self: Pin<&mut Self>,
        list: &WaitList,
        uncount: impl FnOnce(usize),
    ) -> Answered {
        // SAFETY: nothing is moved out of it.
        let this = unsafe { self.get_unchecked_mut() };
        let node = this.node();
        // SAFETY: it is its own.
        if unsafe { node.as_ref() }.answer().is_some() {
            return this.finish();
        }
        let mut waiters = if cfg!(seeded = "wait_leave_does_not_wait") {
            match list.0.try_lock() {
                Some(ring) => Waiters(ring),
                None => return this.finish(),
            }
        } else {
            list.lock()
        };
        // Asked under the lock, so it is settled.
        // SAFETY: it is its own.
        let is_answered = unsafe { node.as_ref() }.answer().is_some();
        let mut waker = None;
        if !is_answered {
            // SAFETY: no answer, so it is in the list, or in a ring that was detached from it.
            unsafe {
                waiters.0.remove(node);
                waker = with(node, |node| node.waker.take());
                uncount(with(node, |node| node.request));
            }
        }
        drop(waiters);
        // May drop a task, and with it others that wait here.
        discard(waker);
        this.finish()
    }

    /// The node, which waits.
    pub fn node(&self) -> NonNull<Node> {
        debug_assert!(self.is_waiting);
        NonNull::from_ref(&self.node).cast()
    }

    /// What became of it. Nobody else touches the node any more.
    fn finish(&mut self) -> Answered {
        let node = self.node();
        self.is_waiting = false;
        // SAFETY: it has its answer or has left the list; it needs no dropping, as its waker was taken.
        unsafe {
            let answered = Answered {
                answer: node.as_ref().answer(),
                request: with(node, |node| node.request),
            };
            // As whoever uses the memory for something else would: loom finds out if anybody still looks.
            #[cfg(loom)]
            with(node, |node| node.waker = None);
            answered
        }
    }
}

/// Sees to it that the answer wakes `waker`. False: there is one already.
///
/// # Safety
/// The node is alive; it is in this list, or has an answer.
unsafe fn update_waker(
    list: &WaitList,
    node: NonNull<Node>,
    waker: &Waker,
    clone: impl FnOnce(&Waker) -> Waker,
) -> bool {
    let is_same = |own: &Waker| own.will_wake(waker);
    let poller = Poller::here();
    let locked = list.lock();
    // SAFETY: it is alive.
    if unsafe { node.as_ref() }.answer().is_some() {
        return false;
    }
    // SAFETY: the lock is held.
    let known = unsafe {
        with(node, |node| {
            node.poller = poller;
            node.waker.as_ref().is_some_and(is_same)
        })
    };
    drop(locked);
    if known {
        return true;
    }
    let new = clone(waker);
    let locked = list.lock();
    // Asked under the lock: had it been answered since the look above, nobody would wake the new one.
    // SAFETY: it is alive.
    if !cfg!(seeded = "wait_update_after_answer") && unsafe { node.as_ref() }.answer().is_some() {
        drop(locked);
        discard(new);
        return false;
    }
    // SAFETY: the lock is held.
    let old = unsafe { with(node, |node| node.waker.replace(new)) };
    drop(locked);
    discard(old);
    true
}
