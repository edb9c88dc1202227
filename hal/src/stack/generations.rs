//! What was unmapped and may be reused only when every core has forgotten it.
//!
//! There are two generations. One waits for a ticket, which was drawn after
//! all of it was unmapped. Whatever is unmapped meanwhile is collected; when
//! the first is done, the second gets a ticket of its own. So there is one
//! ticket for many, nobody has to wait for it, and nothing is allocated: the
//! nodes are linked through themselves.

/// Where each node, a number that is not 0, keeps the one behind it.
pub trait Links {
    /// What is behind `node`; 0: nothing.
    fn next(&self, node: u64) -> u64;
    /// Puts `next` behind `node`.
    fn set_next(&self, node: u64, next: u64);
}

/// First and last node of a list. Both 0: none.
#[derive(Clone, Copy, Default)]
struct List {
    first: u64,
    last: u64,
}

impl List {
    const EMPTY: Self = Self { first: 0, last: 0 };

    fn is_empty(self) -> bool {
        self.first == 0
    }

    /// Puts all of `other` behind what is there.
    fn append(&mut self, links: &impl Links, other: Self) {
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            links.set_next(self.last, other.first);
            self.last = other.last;
        }
    }
}

/// Nodes that wait for tickets of type `T`.
pub struct Generations<T> {
    /// No ticket covers these: they came after the last one was drawn.
    collecting: List,
    /// How many those are.
    collected: usize,
    /// The ticket, and what was unmapped before it was drawn.
    waiting: Option<(T, List)>,
    /// Their ticket is done.
    done: List,
}

impl<T: Copy> Generations<T> {
    /// Nothing waits.
    #[allow(clippy::new_without_default, reason = "made in a static")]
    pub const fn new() -> Self {
        Self {
            collecting: List::EMPTY,
            collected: 0,
            waiting: None,
            done: List::EMPTY,
        }
    }

    /// Adds a node that is unmapped by now. Returns how many have come since the last ticket.
    pub fn add(&mut self, links: &impl Links, node: u64) -> usize {
        links.set_next(node, 0);
        let alone = List {
            first: node,
            last: node,
        };
        self.collecting.append(links, alone);
        self.collected += 1;
        self.collected
    }

    /// Moves on what has waited long enough, and draws the next ticket if there is need.
    pub fn advance(
        &mut self,
        links: &impl Links,
        draw: impl Fn() -> T,
        is_done: impl Fn(T) -> bool,
    ) {
        loop {
            if let Some((ticket, nodes)) = self.waiting {
                if !is_done(ticket) {
                    return;
                }
                self.done.append(links, nodes);
                self.waiting = None;
            }
            if self.collecting.is_empty() {
                return;
            }
            // All that was collected is unmapped already, so this ticket covers it.
            self.waiting = Some((draw(), core::mem::take(&mut self.collecting)));
            self.collected = 0;
        }
    }

    /// Takes one that may be reused.
    pub fn take(&mut self, links: &impl Links) -> Option<u64> {
        let node = self.done.first;
        if node == 0 {
            return None;
        }
        self.done.first = links.next(node);
        Some(node)
    }

    /// The ticket that is waited for.
    pub fn ticket(&self) -> Option<T> {
        self.waiting.map(|(ticket, _)| ticket)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.collecting.is_empty() && self.waiting.is_none() && self.done.is_empty()
    }
}
