//! The deque and the ring: an owner, and thieves who take half in one claim.
//! Slots are checked too: next to each, under loom, is a cell that notices if
//! one is filled while it is read.

use crate::items::{Item, Items, Steps, take};
use executor::queue::{Deque, Ring};
use loom::{
    sync::atomic::{AtomicBool, Ordering::*, fence},
    thread::{self, JoinHandle},
};
use std::{ptr::NonNull, sync::Arc};

const CAPACITY: usize = 4;
/// The counters wrap with the first that is taken or popped.
const START: u32 = u32::MAX;

/// What both queues can do.
trait Queue: Send + Sync + 'static {
    const IS_FIFO: bool;
    fn new() -> Self;
    fn push(&self, item: NonNull<Item>) -> Result<(), NonNull<Item>>;
    fn pop(&self) -> Option<NonNull<Item>>;
    fn take_oldest(&self) -> Option<NonNull<Item>>;
    fn take_half(&self, take: impl FnMut(NonNull<Item>)) -> usize;
    fn steal_into(&self, dest: &Self, most: usize) -> Option<(NonNull<Item>, usize)>;
    fn len(&self) -> usize;
}

macro_rules! queue {
    ($queue:ident, is_fifo = $is_fifo:literal, |$this:ident| $take_oldest:expr) => {
        impl Queue for $queue<Item> {
            const IS_FIFO: bool = $is_fifo;
            fn new() -> Self {
                $queue::starting_at(CAPACITY, START)
            }
            fn push(&self, item: NonNull<Item>) -> Result<(), NonNull<Item>> {
                self.push(item)
            }
            fn pop(&self) -> Option<NonNull<Item>> {
                self.pop()
            }
            fn take_oldest(&self) -> Option<NonNull<Item>> {
                let $this = self;
                $take_oldest
            }
            fn take_half(&self, take: impl FnMut(NonNull<Item>)) -> usize {
                self.take_half(usize::MAX, take)
            }
            fn steal_into(&self, dest: &Self, most: usize) -> Option<(NonNull<Item>, usize)> {
                self.steal_into(dest, most)
            }
            fn len(&self) -> usize {
                self.len()
            }
        }
    };
}

queue!(Deque, is_fifo = false, |deque| deque.take_oldest());
queue!(Ring, is_fifo = true, |ring| {
    let mut oldest = None;
    ring.take_half(1, |item| oldest = Some(item));
    oldest
});

/// A queue, and one for each of two thieves.
struct Scene<Q> {
    items: Items,
    steps: Steps,
    queue: Q,
    pockets: [Q; 2],
}

impl<Q: Queue> Scene<Q> {
    /// `pushed` of the items are in the queue from the start.
    fn new(items: usize, pushed: usize) -> Arc<Self> {
        let scene = Self {
            items: Items::new(items),
            steps: Steps::new(),
            queue: Q::new(),
            pockets: [Q::new(), Q::new()],
        };
        for number in 0..pushed {
            assert!(scene.push(number), "there is room");
        }
        Arc::new(scene)
    }

    /// What the owner does with a new item: if there is no room, it takes it.
    fn push(&self, number: usize) -> bool {
        self.steps.step();
        let pushed = self.queue.push(self.items.fill(number));
        pushed.map_err(take).is_ok()
    }

    fn pop(&self) -> Option<usize> {
        self.steps.step();
        self.queue.pop().map(take)
    }

    /// What a thief does, once.
    fn steal(&self, thief: usize, most: usize) -> Option<(usize, usize)> {
        self.steps.step();
        let (oldest, count) = self.queue.steal_into(&self.pockets[thief], most)?;
        assert!(1 <= count && count <= most.min(CAPACITY / 2));
        Some((take(oldest), count))
    }

    /// What a thief in no need of more does.
    fn take_oldest(&self) -> Option<usize> {
        self.steps.step();
        self.queue.take_oldest().map(take)
    }

    /// A thread besides the owner's.
    fn spawn<R: 'static>(
        self: &Arc<Self>,
        run: impl FnOnce(&Self) -> R + 'static,
    ) -> JoinHandle<R> {
        let scene = self.clone();
        thread::spawn(move || run(&scene))
    }

    /// When all threads have ended: nothing was lost, nothing came twice.
    fn ends(&self) {
        for queue in [&self.queue, &self.pockets[0], &self.pockets[1]] {
            let len = queue.len();
            let mut rest = vec![];
            while let Some(item) = queue.pop() {
                rest.push(take(item));
            }
            assert_eq!(rest.len(), len);
            if !Q::IS_FIFO {
                rest.reverse();
            }
            assert!(rest.is_sorted(), "the owner has them in order: {rest:?}");
        }
        self.items.were_taken_once();
        self.is_like_new();
    }

    /// All slots are free again, and no thief has left the queue busy.
    fn is_like_new(&self) {
        let spare = Items::new(CAPACITY);
        for number in 0..CAPACITY {
            let pushed = self.queue.push(spare.fill(number));
            assert!(pushed.is_ok(), "a slot was not given back");
        }
        let taken = self.queue.take_half(|item| _ = take(item));
        assert_eq!(taken, CAPACITY / 2, "a thief did not end its claim");
        while self.queue.pop().map(take).is_some() {}
        spare.were_taken_once();
    }
}

/// One item, and two who want it.
fn one_item_goes_to_one<Q: Queue>() {
    loom::model(|| {
        let scene = Scene::<Q>::new(1, 1);
        let thief = scene.spawn(|scene| scene.take_oldest());
        let popped = scene.pop();
        let stolen = thief.join().unwrap();
        assert!(popped.is_some() || stolen.is_some());
        scene.ends();
    });
}

/// What the owner pushes while a thief looks, and pops again at once.
fn items_come_and_go<Q: Queue>() {
    loom::model(|| {
        let scene = Scene::<Q>::new(2, 0);
        let thief = scene.spawn(|scene| scene.steal(0, 2));
        scene.push(0);
        scene.pop();
        scene.push(1);
        scene.pop();
        thief.join().unwrap();
        scene.ends();
    });
}

/// Half of what the owner pops meanwhile: the claim must not reach into it.
fn half_is_claimed_at_once<Q: Queue>() {
    loom::model(|| {
        let scene = Scene::<Q>::new(5, 4);
        let thief = scene.spawn(|scene| scene.steal(0, usize::MAX));
        scene.pop();
        scene.pop();
        scene.push(4);
        scene.pop();
        if let Some((oldest, _)) = thief.join().unwrap()
            && !Q::IS_FIFO
        {
            assert_eq!(oldest, 0);
        }
        scene.ends();
    });
}

/// The owner takes everything, and as many as to bring narrow counters around.
fn counters_do_not_come_around<Q: Queue>() {
    loom::model(|| {
        let scene = Scene::<Q>::new(5, 4);
        let thief = scene.spawn(|scene| scene.steal(0, 2));
        for _ in 0..4 {
            scene.pop();
        }
        scene.push(4);
        thief.join().unwrap();
        scene.ends();
    });
}

/// A full queue: the owner may push where a thief has read, and only there.
fn slots_are_filled_when_they_were_read<Q: Queue>() {
    loom::model(|| {
        let scene = Scene::<Q>::new(7, 4);
        let thief = scene.spawn(|scene| scene.steal(0, 2));
        for number in 4..7 {
            scene.push(number);
        }
        thief.join().unwrap();
        scene.ends();
    });
}

/// The owner pops while a thief copies, and then pushes.
fn slots_are_not_filled_early_by_pops<Q: Queue>() {
    loom::model(|| {
        let scene = Scene::<Q>::new(6, 4);
        let thief = scene.spawn(|scene| scene.steal(0, 2));
        scene.pop();
        scene.push(4);
        scene.push(5);
        thief.join().unwrap();
        scene.ends();
    });
}

/// Two thieves, one after the other or one in vain; then the owner fills the slots.
fn thieves_take_turns<Q: Queue>() {
    loom::model(|| {
        let scene = Scene::<Q>::new(6, 4);
        let thieves = [0, 1].map(|_| scene.spawn(|scene| scene.take_oldest()));
        scene.push(4);
        scene.push(5);
        for thief in thieves {
            thief.join().unwrap();
        }
        scene.ends();
    });
}

/// Two thieves who take several, and an owner who pops.
fn thieves_take_halves<Q: Queue>() {
    loom::model(|| {
        let scene = Scene::<Q>::new(4, 3);
        let thieves = [0, 1].map(|thief| scene.spawn(move |scene| scene.steal(thief, 2)));
        scene.push(3);
        scene.pop();
        for thief in thieves {
            thief.join().unwrap();
        }
        scene.ends();
    });
}

/// What was stolen is stolen again: the content comes a long way.
fn thieves_rob_thieves<Q: Queue>() {
    loom::model(|| {
        let scene = Scene::<Q>::new(3, 0);
        let thief = scene.spawn(|scene| scene.steal(0, 2));
        let second = scene.spawn(|scene| {
            scene.steps.step();
            let [first, second] = &scene.pockets;
            first.steal_into(second, 2).map(|(oldest, _)| take(oldest))
        });
        for number in 0..3 {
            scene.push(number);
        }
        thief.join().unwrap();
        second.join().unwrap();
        scene.ends();
    });
}

/// A full queue's owner takes half away, as a thief would.
fn the_owner_takes_half<Q: Queue>() {
    loom::model(|| {
        let scene = Scene::<Q>::new(5, 4);
        let thief = scene.spawn(|scene| scene.steal(0, 1));
        scene.steps.step();
        let mut taken = vec![];
        let count = scene.queue.take_half(|item| taken.push(take(item)));
        assert_eq!(count, taken.len());
        assert!(taken.is_sorted(), "oldest first: {taken:?}");
        assert!(count <= 2);
        scene.push(4);
        thief.join().unwrap();
        scene.ends();
    });
}

/// Either who goes to sleep sees what was pushed, or who pushed sees a sleeper;
/// whatever the owner pushes and pops after that.
fn a_sleeper_sees_an_earlier_push<Q: Queue>() {
    loom::model(|| {
        // The item that the owner will pop is another: the oldest, or the newest.
        let older = usize::from(Q::IS_FIFO);
        let scene = Scene::<Q>::new(older + 2, older);
        let is_idle = Arc::new(AtomicBool::new(false));
        let sleeper = {
            let is_idle = is_idle.clone();
            scene.spawn(move |scene| {
                is_idle.store(true, Relaxed);
                fence(SeqCst);
                scene.steps.step();
                scene.queue.len() > 0
            })
        };
        scene.push(older);
        fence(SeqCst);
        let sees_sleeper = is_idle.load(Relaxed);
        scene.push(older + 1);
        assert_ne!(scene.pop(), Some(older));
        let sees_push = sleeper.join().unwrap();
        assert!(sees_sleeper || sees_push, "nobody runs what was pushed");
        scene.ends();
    });
}

/// Who only looks may see pushes without the pops that followed, or a claim
/// without the push before it. It counts neither more than fits nor less than none.
fn a_bystander_counts_within_bounds<Q: Queue>() {
    loom::model(|| {
        let scene = Scene::<Q>::new(CAPACITY + 1, 0);
        let bystander = scene.spawn(|scene| {
            scene.steps.step();
            scene.queue.len()
        });
        for number in 0..=CAPACITY {
            scene.push(number);
            scene.pop();
        }
        assert!(bystander.join().unwrap() <= CAPACITY);
        scene.ends();
    });
    loom::model(|| {
        let scene = Scene::<Q>::new(1, 0);
        let bystander = scene.spawn(|scene| {
            scene.steps.step();
            scene.queue.len()
        });
        let thief = scene.spawn(|scene| scene.take_oldest());
        scene.push(0);
        thief.join().unwrap();
        assert!(bystander.join().unwrap() <= 1);
        scene.ends();
    });
}

macro_rules! models {
    ($($name:ident,)*) => {
        mod deque {
            use super::{Deque, Item};
            $(#[test] fn $name() { super::$name::<Deque<Item>>(); })*
        }
        mod ring {
            use super::{Item, Ring};
            $(#[test] fn $name() { super::$name::<Ring<Item>>(); })*
        }
    };
}

models! {
    one_item_goes_to_one,
    items_come_and_go,
    half_is_claimed_at_once,
    counters_do_not_come_around,
    slots_are_filled_when_they_were_read,
    slots_are_not_filled_early_by_pops,
    thieves_take_turns,
    thieves_take_halves,
    thieves_rob_thieves,
    the_owner_takes_half,
    a_sleeper_sees_an_earlier_push,
    a_bystander_counts_within_bounds,
}

mod rotating {
    //! The ring's push and pop in one step.

    use super::{Item, Ring, Scene, take};

    impl Scene<Ring<Item>> {
        /// A new item takes the place at the back. None: a thief is at it, and it is pushed as usual.
        fn rotate(&self, number: usize) -> Option<usize> {
            self.steps.step();
            let item = self.items.fill(number);
            match self.queue.rotate(item) {
                Some(oldest) => Some(take(oldest)),
                None => {
                    self.queue.push(item).map_err(take).ok();
                    None
                }
            }
        }
    }

    /// A full ring: the slot at the back may be one that a thief has read, and only then.
    #[test]
    fn a_full_ring_turns_when_its_slots_were_read() {
        loom::model(|| {
            let scene = Scene::<Ring<Item>>::new(6, 4);
            let thief = scene.spawn(|scene| scene.steal(0, 2));
            scene.rotate(4);
            scene.rotate(5);
            thief.join().unwrap();
            scene.ends();
        });
    }

    /// What is rotated in is seen whole by a thief, and what is rotated out comes once.
    #[test]
    fn a_thief_takes_what_was_rotated_in() {
        loom::model(|| {
            let scene = Scene::<Ring<Item>>::new(4, 1);
            let thief = scene.spawn(|scene| scene.steal(0, 2));
            for number in 1..4 {
                scene.rotate(number);
            }
            thief.join().unwrap();
            scene.ends();
        });
    }

    /// With no other item, the new one comes back at once.
    #[test]
    fn an_empty_ring_gives_back_what_it_got() {
        loom::model(|| {
            let scene = Scene::<Ring<Item>>::new(2, 0);
            let thief = scene.spawn(|scene| scene.take_oldest());
            assert_eq!(scene.rotate(0), Some(0));
            assert_eq!(scene.rotate(1), Some(1));
            assert_eq!(thief.join().unwrap(), None);
            scene.ends();
        });
    }
}
