//! What tasks wait on, with all cores at it at once.
//!
//! In each test a number of tasks, half of them on cores of their own and half
//! wherever they are taken, do the same thing equally often. Many give way in the middle of it, so that
//! the others on their core have to wait. A third of the waits is given up, some of them just when they
//! are over. What is counted must come out; what is lost hangs.
//!
//! | | |
//! |---|---|
//! | `locks` | mutex, reader-writer lock, semaphore |
//! | `channels` | channels of all kinds, and `select!` |
//! | `signals` | notify, event, barrier, once |

mod channels;
mod locks;
mod signals;

use super::{join, on_all_cores, scaled, spawn, spawn_on};
use alloc::{sync::Arc, vec::Vec};
use core::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
};
use executor::{TaskHandle, stats};

/// Tasks for each core.
const CROWD: usize = 4;

/// One of the tasks: which it is, and what it does by chance.
struct Player {
    number: usize,
    /// Of all together.
    count: usize,
    /// How often each does what is to be done.
    turns: usize,
    /// Of a xorshift.
    state: u64,
}

impl Player {
    fn new(number: usize, count: usize, turns: usize) -> Self {
        Self {
            number,
            count,
            turns,
            state: (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % end
    }

    /// Whether the next of `ways` ways that a thing can go is the rare one.
    fn one_in(&mut self, ways: u64) -> bool {
        self.below(ways) == 0
    }

    /// Waits for a future; but one time in three, if it has to wait, it is dropped after
    /// a few more turns. Then it may have got what it waited for, and nobody else must lack it. None: dropped.
    async fn impatient<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut patience = None;
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            if patience.is_none() {
                patience = Some(match self.one_in(3) {
                    true => self.below(4),
                    false => u64::MAX,
                });
            }
            match &mut patience {
                Some(0) => return Poll::Ready(None),
                Some(u64::MAX) => {}
                Some(turns) => {
                    *turns -= 1;
                    cx.waker().wake_by_ref();
                }
                None => unreachable!("set above"),
            }
            Poll::Pending
        })
        .await
    }

    /// The same, until it was waited for in patience.
    async fn insist<F: Future>(&mut self, mut make: impl FnMut() -> F) -> F::Output {
        loop {
            if let Some(output) = self.impatient(make()).await {
                return output;
            }
        }
    }
}

/// How many tasks play.
fn crowd_size() -> usize {
    CROWD * stats::stats().cores.len()
}

/// Runs `play` in a crowd of tasks on all cores, each with the same `shared`; together they do
/// something about `turns` times. How often exactly.
async fn crowd<S, F>(turns: usize, shared: Arc<S>, play: impl Fn(Arc<S>, Player) -> F) -> usize
where
    S: Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    join(spawn_crowd(turns, shared, play)).await;
    turns / crowd_size() * crowd_size()
}

/// The same, for who has something else to do meanwhile.
fn spawn_crowd<S, F>(
    turns: usize,
    shared: Arc<S>,
    play: impl Fn(Arc<S>, Player) -> F,
) -> Vec<TaskHandle<()>>
where
    S: Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (cores, count) = (stats::stats().cores.len(), crowd_size());
    let players = (0..count).map(|number| {
        let game = play(shared.clone(), Player::new(number, count, turns / count));
        match number % 2 {
            0 => spawn_on(number / 2 % cores, game),
            _ => spawn(game),
        }
    });
    players.collect()
}

/// Polls a future one time.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// A test of `make test`, and the same a hundred times longer.
macro_rules! contended {
    ($name:ident, $long:ident, $play:expr) => {
        #[testing::kernel_test(cores = 4, limit = 300)]
        fn $name() {
            super::on_all_cores($play(super::scaled(10_000)));
        }

        #[testing::kernel_test(cores = 4, limit = 7200, long = true)]
        fn $long() {
            super::on_all_cores($play(1_000_000));
        }
    };
}
use contended;
