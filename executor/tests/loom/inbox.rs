//! The inbox: whoever pushes into an empty one knows it, and who takes gets all.

use crate::items::{Item, Items, Steps, take_all};
use executor::queue::Inbox;
use loom::{
    sync::atomic::{AtomicBool, Ordering::*, fence},
    thread::{self, JoinHandle},
};
use std::sync::Arc;

struct Scene {
    items: Items,
    steps: Steps,
    inbox: Inbox<Item>,
}

impl Scene {
    fn new(items: usize) -> Arc<Self> {
        Arc::new(Self {
            items: Items::new(items),
            steps: Steps::new(),
            inbox: Inbox::new(),
        })
    }

    /// Pushes an item; whether the inbox was empty.
    fn push(&self, number: usize) -> bool {
        self.steps.step();
        // SAFETY: items live as long as the model, and each is pushed once.
        unsafe { self.inbox.push(self.items.fill(number)) }
    }

    fn take_all(&self) -> Vec<usize> {
        self.steps.step();
        take_all(self.inbox.take_all())
    }

    /// A thread that pushes one item after the other; which found the inbox empty.
    fn pushes<const N: usize>(self: &Arc<Self>, numbers: [usize; N]) -> JoinHandle<Vec<usize>> {
        let scene = self.clone();
        thread::spawn(move || {
            let numbers = numbers.into_iter();
            numbers.filter(|&number| scene.push(number)).collect()
        })
    }

    /// Whatever is left when all threads have ended is one more batch. The first
    /// of each batch, and no other, had found the inbox empty.
    fn ends(&self, mut batches: Vec<Vec<usize>>, mut found_empty: Vec<usize>) {
        batches.push(self.take_all());
        assert!(self.inbox.is_empty());
        let mut firsts: Vec<_> = batches
            .iter()
            .filter_map(|batch| batch.first().copied())
            .collect();
        firsts.sort();
        found_empty.sort();
        assert_eq!(firsts, found_empty);
        self.items.were_taken_once();
    }
}

/// Two who push, and the owner, who takes all twice.
#[test]
fn all_that_is_pushed_is_taken() {
    loom::model(|| {
        let scene = Scene::new(3);
        let threads = (scene.pushes([0, 1]), scene.pushes([2]));
        let batches = [0, 1].map(|_| scene.take_all());
        let mut found_empty = threads.0.join().unwrap();
        found_empty.extend(threads.1.join().unwrap());
        for batch in &batches {
            let of_one = batch.iter().filter(|&&number| number < 2);
            assert!(of_one.is_sorted(), "as they arrived: {batch:?}");
        }
        scene.ends(batches.into(), found_empty);
    });
}

/// The owner and a thief both take all.
#[test]
fn two_who_take_get_different_items() {
    loom::model(|| {
        let scene = Scene::new(3);
        let pushing = scene.pushes([0, 1, 2]);
        let thief = {
            let scene = scene.clone();
            thread::spawn(move || scene.take_all())
        };
        let taken = scene.take_all();
        let found_empty = pushing.join().unwrap();
        scene.ends(vec![taken, thief.join().unwrap()], found_empty);
    });
}

/// What was taken is pushed again while another is in the middle of a push.
#[test]
fn an_item_may_come_back() {
    loom::model(|| {
        let scene = Scene::new(2);
        let mut found_empty = vec![];
        assert!(scene.push(0));
        let pushing = scene.pushes([1]);
        scene.steps.step();
        let mut again = scene.inbox.take_all();
        while let Some(item) = again.pop_front() {
            scene.steps.step();
            // SAFETY: it was just taken out.
            if unsafe { scene.inbox.push(item) } {
                // SAFETY: items live as long as the model.
                found_empty.push(unsafe { item.as_ref() }.number);
            }
        }
        found_empty.extend(pushing.join().unwrap());
        let rest = scene.take_all();
        // If 1 was taken along with 0, that 1 found it empty is of an earlier batch.
        assert!(found_empty.contains(&rest[0]));
        scene.items.were_taken_once();
    });
}

/// Either who goes to sleep sees what was pushed, or who pushed sees a sleeper.
#[test]
fn a_sleeper_sees_an_earlier_push() {
    loom::model(|| {
        let scene = Scene::new(1);
        let is_idle = Arc::new(AtomicBool::new(false));
        let sleeper = {
            let (scene, is_idle) = (scene.clone(), is_idle.clone());
            thread::spawn(move || {
                is_idle.store(true, Relaxed);
                fence(SeqCst);
                scene.take_all()
            })
        };
        assert!(scene.push(0));
        fence(SeqCst);
        let sees_sleeper = is_idle.load(Relaxed);
        let taken = sleeper.join().unwrap();
        assert!(sees_sleeper || taken == [0], "nobody runs what was pushed");
        scene.ends(vec![taken], vec![0]);
    });
}
