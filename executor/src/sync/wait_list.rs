//! Who waits, in the order they came: the one list beneath all that tasks wait on.
//!
//! A [`Node`] lives in the pinned future that waits, in a [`Waiter`], so waiting
//! allocates nothing. Who may touch it:
//!
//! | what | guarded by |
//! |---|---|
//! | links, waker, request | the lock of the [`WaitList`] it is in |
//! | `answer` | atomic: set under the lock, read without it |
//!
//! To answer a node is to take it out, take its waker, and set `answer`, in this
//! order, under the lock. Setting it is the last touch: whoever reads an answer
//! has the node to himself and needs the lock no more. Whoever finds none takes
//! the lock, and then either the node is still in the list, or it has its answer.
//! So after [`Waiter::leave`] nobody touches it; and what it was granted before
//! that, `leave` returns, for the primitive to hand on.
//!
//! The lock is innermost and masks interrupts; it is held for a bounded few nodes at
//! a time. No foreign code runs under it: wakers are cloned before, woken and
//! dropped after.
//!
//! What a primitive knows of its waiters without the lock is one bit in its own
//! word. It is set under the lock by who begins to wait, and cleared under the lock by who
//! finds the list empty; not by who leaves, so it may be set for nobody.

mod waiter;

#[cfg(feature = "alloc")]
pub use self::waiter::Answered;
pub use self::waiter::Waiter;

use super::owner::Poller;
use crate::shim::{Guard, Lock, UnsafeCell, const_unless_loom, ordering, wake};
use core::{marker::PhantomPinned, pin::pin, ptr::NonNull, task::Waker};
use hal::sync::atomic::{AtomicU32, Ordering::*};

/// How many are woken each time the lock is taken, at most.
const BATCH: usize = if cfg!(loom) { 2 } else { 8 };

/// What a waiter is told; what each means is for the primitive to say. Not 0.
pub type Answer = u32;

/// None yet.
const WAITING: Answer = 0;
/// Its task was lost, and it was taken out; should another poll it, it begins anew.
pub const SKIPPED: Answer = Answer::MAX;

/// Something that waits.
pub struct Node {
    /// Touched by whoever holds the lock of the list it is in, or by its owner once it has its answer.
    guarded: UnsafeCell<Guarded>,
    /// What became of it. Written under the lock.
    answer: AtomicU32,
    /// How much it asked for, of which `request` may be the rest; for those who give a part at a time.
    #[cfg(all(feature = "alloc", not(loom)))]
    asked: u32,
    /// Others point to it.
    _pinned: PhantomPinned,
}

struct Guarded {
    /// None: in no list.
    next: Option<NonNull<Node>>,
    previous: Option<NonNull<Node>>,
    /// Who began to wait, or has looked last.
    #[cfg_attr(
        not(all(feature = "alloc", not(loom))),
        allow(dead_code, reason = "nobody is lost there")
    )]
    poller: Poller,
    /// Whom to wake. None: nobody has asked yet.
    waker: Option<Waker>,
    /// What it waits for, in the primitive's terms. Kept after it was answered.
    request: usize,
}

// SAFETY: a node in no list is just its content; one in a list is pinned and does not move.
unsafe impl Send for Node {}
// SAFETY: what is not atomic is touched through `unsafe` functions, whose callers hold the lock.
unsafe impl Sync for Node {}

impl Node {
    fn new((_asked, request): (usize, usize), poller: Poller, waker: Option<Waker>) -> Self {
        Self {
            guarded: UnsafeCell::new(Guarded {
                next: None,
                previous: None,
                poller,
                waker,
                request,
            }),
            answer: AtomicU32::new(WAITING),
            #[cfg(all(feature = "alloc", not(loom)))]
            asked: _asked as u32,
            _pinned: PhantomPinned,
        }
    }

    /// Its answer; if there is one, nobody but its owner touches it any more.
    #[inline]
    pub fn answer(&self) -> Option<Answer> {
        // Pairs with the release in `give_answer`.
        let order = ordering!(Acquire unless seeded = "wait_answer_read_relaxed");
        match self.answer.load(order) {
            WAITING => None,
            answer => Some(answer),
        }
    }

    /// Tells a node that has just left its list, with the lock held. Its waker is to be
    /// woken after unlocking.
    ///
    /// # Safety
    /// It was in the list until now, and the lock has been held since: so its owner, who would have to take
    /// the lock to leave, has not dropped it.
    unsafe fn give_answer(node: NonNull<Self>, answer: Answer) -> Option<Waker> {
        debug_assert_ne!(answer, WAITING);
        // SAFETY: the caller's promise; not used after the answer is set.
        let this = unsafe { node.as_ref() };
        if cfg!(seeded = "wait_answered_too_early") {
            this.answer.store(answer, Release);
        }
        // SAFETY: the lock is held.
        let waker = unsafe { with(node, |node| node.waker.take()) };
        // Pairs with the acquire in `answer`: from here on the node is its owner's.
        let order = ordering!(Release unless seeded = "wait_answer_written_relaxed");
        this.answer.store(answer, order);
        waker
    }
}

/// Reads or changes the guarded part of a node.
///
/// # Safety
/// The node is alive; and the caller holds the lock of the list it is in, or owns it and it is in none.
#[inline]
unsafe fn with<R>(node: NonNull<Node>, change: impl FnOnce(&mut Guarded) -> R) -> R {
    // SAFETY: 1. the caller says it is alive and nobody else touches it;
    // 2. no `change` in this file touches a second node, so there is one `&mut` at a time.
    unsafe { node.as_ref().guarded.with_mut(|node| change(&mut *node)) }
}

/// The nodes of a list: a ring, of which the first is known.
///
/// Its methods are `unsafe` for one reason: every node in it is alive, and the caller holds the lock.
struct Ring {
    first: Option<NonNull<Node>>,
}

// SAFETY: it refers to nodes, which are `Sync`.
unsafe impl Send for Ring {}

impl Ring {
    /// # Safety
    /// See [`Ring`]; the node is in no list, and stays where it is until it is taken out.
    unsafe fn push(&mut self, node: NonNull<Node>) {
        // SAFETY: the node by the caller's promise, the others because they are in the ring.
        unsafe {
            match self.first {
                None => {
                    with(node, |links| {
                        (links.next, links.previous) = (Some(node), Some(node));
                    });
                    self.first = Some(node);
                }
                Some(first) => insert_before(first, node),
            }
        }
    }

    /// Takes out a node that is in this ring, or in one that was detached from it.
    ///
    /// # Safety
    /// See [`Ring`].
    unsafe fn remove(&mut self, node: NonNull<Node>) {
        // SAFETY: the node and its neighbours are in the ring.
        unsafe {
            let (next, previous) = with(node, |links| (links.next.take(), links.previous.take()));
            let (next, previous) = next.zip(previous).expect("it is in a ring");
            if self.first == Some(node) {
                self.first = (next != node).then_some(next);
            }
            if next != node {
                with(previous, |links| links.next = Some(next));
                with(next, |links| links.previous = Some(previous));
            }
        }
    }
}

/// Puts a node before another, which is in a ring.
///
/// # Safety
/// As for [`Ring`].
unsafe fn insert_before(next: NonNull<Node>, node: NonNull<Node>) {
    // SAFETY: the caller's promise.
    unsafe {
        let previous = with(next, |links| links.previous.replace(node)).expect("it is in a ring");
        with(node, |links| {
            (links.next, links.previous) = (Some(next), Some(previous));
        });
        with(previous, |links| links.next = Some(node));
    }
}

/// The list.
pub struct WaitList(Lock<Ring>);

#[allow(clippy::new_without_default, reason = "it is a part of something")]
impl WaitList {
    const_unless_loom! {
        /// Nobody waits.
        pub const fn new() -> Self {
            Self(Lock::new(Ring { first: None }))
        }
    }

    /// Keeps all others away from the list, and interrupts away from this core.
    pub fn lock(&self) -> Waiters<'_> {
        Waiters(self.0.lock())
    }

    /// Gives all who wait the same answer, and unlocks. Those who come after this began
    /// to do so are left waiting, however long it takes: they have not been meant.
    pub fn answer_all<'a>(&'a self, mut waiters: Waiters<'a>, answer: Answer) {
        let Some(first) = waiters.0.first.take() else {
            return;
        };
        // Stands for the list in the ring that was detached, so that each node there has neighbours and can
        // leave as from any. It is taken out of the ring last, by being left alone.
        let stand_in = pin!(Node::new((0, 0), Poller::NONE, None));
        let stand_in = NonNull::from_ref(stand_in.as_ref().get_ref());
        if !cfg!(seeded = "wait_all_without_stand_in") {
            // SAFETY: the lock is held, and below it is kept until nobody else is in the ring.
            unsafe { insert_before(first, stand_in) };
        }
        let mut next = first;
        loop {
            let mut woken = Woken::new();
            while next != stand_in && !woken.is_full() {
                // SAFETY: it is in the ring, and the lock is held.
                unsafe {
                    let after = with(next, |links| links.next).expect("it is in a ring");
                    waiters.0.remove(next);
                    woken.push(Node::give_answer(next, answer));
                    next = if after == next { stand_in } else { after };
                }
            }
            drop(waiters);
            woken.wake();
            if next == stand_in {
                return;
            }
            waiters = self.lock();
            if !cfg!(seeded = "wait_all_without_stand_in") {
                // The one that was next may have left meanwhile.
                // SAFETY: it is in the ring, and the lock is held.
                next = unsafe { with(stand_in, |links| links.next) }.expect("it is in a ring");
            }
        }
    }
}

/// The list, locked.
pub struct Waiters<'a>(Guard<'a, Ring>);

impl Waiters<'_> {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.0.first.is_none()
    }

    /// Takes out those at the front and at the back who are lost: they would never make use of what they are granted.
    /// One that was sent to another task, which has not polled it yet, finds that it has to go behind all others. How
    /// much they had got of what they asked for; None: there are no such.
    #[inline]
    pub fn skip_lost(&mut self) -> Option<usize> {
        #[cfg(all(feature = "alloc", not(loom)))]
        if crate::scheduler::lost::is_any() {
            return self.skip();
        }
        None
    }

    #[cfg(all(feature = "alloc", not(loom)))]
    #[cold]
    fn skip(&mut self) -> Option<usize> {
        let mut got = None;
        while let Some(first) = self.0.first {
            // SAFETY: they are in the list, and the lock is held.
            unsafe {
                let last = with(first, |node| node.previous).expect("it is in a ring");
                let Some(lost) = [first, last]
                    .into_iter()
                    .find(|&node| with(node, |node| node.poller.is_lost()))
                else {
                    break;
                };
                self.0.remove(lost);
                // Its waker stays where it is: what is lost is never freed.
                let node = lost.as_ref();
                *got.get_or_insert(0) += node.asked as usize - with(lost, |node| node.request);
                // Pairs with the acquire in `answer`, as that of any other.
                node.answer.store(SKIPPED, Release);
            }
        }
        got
    }

    /// Looks at what the first one waits for, and may change it. None: nobody waits.
    pub fn with_first<R>(&mut self, change: impl FnOnce(&mut usize) -> R) -> Option<R> {
        let first = self.0.first?;
        // SAFETY: it is in the list, and the lock is held.
        Some(unsafe { with(first, |node| change(&mut node.request)) })
    }

    /// Takes out the one that has waited longest and answers it. False: nobody waits.
    pub fn answer_first(&mut self, answer: Answer, woken: &mut Woken) -> bool {
        self.answer_one(self.0.first, answer, woken)
    }

    /// Takes out the one that came last and answers it. False: nobody waits.
    pub fn answer_last(&mut self, answer: Answer, woken: &mut Woken) -> bool {
        // SAFETY: it is in the list, and the lock is held.
        let last = |first| unsafe { with(first, |node| node.previous) };
        self.answer_one(self.0.first.and_then(last), answer, woken)
    }

    fn answer_one(
        &mut self,
        node: Option<NonNull<Node>>,
        answer: Answer,
        woken: &mut Woken,
    ) -> bool {
        let Some(node) = node else {
            return false;
        };
        // SAFETY: it is in the list, and the lock is held.
        unsafe {
            self.0.remove(node);
            woken.push(Node::give_answer(node, answer));
        }
        true
    }
}

/// Wakers that are to be woken once the list is unlocked. Until then they are nowhere else: so what has them is neither preempted, which
/// would keep those waiting who have got something, nor left for good.
pub struct Woken {
    wakers: [Option<Waker>; BATCH],
    count: usize,
    /// Dropped last.
    #[cfg(not(loom))]
    _guard: hal::preempt::Guard,
}

impl Woken {
    /// None yet.
    pub fn new() -> Self {
        Self {
            wakers: [const { None }; BATCH],
            count: 0,
            #[cfg(not(loom))]
            _guard: hal::preempt::guard(),
        }
    }

    /// Whether these have to be woken before there are more.
    pub fn is_full(&self) -> bool {
        self.count == BATCH
    }

    /// One more. There is room for it.
    pub fn push(&mut self, waker: Option<Waker>) {
        self.wakers[self.count] = waker;
        self.count += 1;
    }

    /// Wakes them. The list is not locked here.
    pub fn wake(self) {
        let Self { wakers, count, .. } = self;
        wakers.into_iter().take(count).flatten().for_each(wake);
    }
}
