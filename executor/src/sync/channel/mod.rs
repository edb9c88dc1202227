//! Channels: messages from many to many, each to one.
//!
//! | | |
//! |---|---|
//! | [`bounded`] | waits to send while so many are in it; with 0, until somebody receives |
//! | [`unbounded`] | never waits to send |
//! | [`StaticChannel`] | bounded, in a `static`, without allocation |
//!
//! Both ends can be cloned. Messages of one sender are received in the order in which they were sent. Who waits is served in the
//! order in which he came, at either end, and nobody overtakes: while others wait, `try_send` finds it full and
//! `try_recv` empty. All futures may be dropped at any time: one that sends has then sent nothing
//! (of a rendezvous: unless it was received already), one that receives has taken nothing.
//!
//! A channel is closed by [`close`](Sender::close), or when the last of either end is dropped. Then nothing more is sent;
//! what was sent before is still received, and only then are receivers refused. When the last receiver is
//! dropped, so is what is in the channel. Errors of senders give the message back.
//!
//! `try_send` to a bounded channel works in interrupts. Nothing else does.
//!
//! # Patterns
//!
//! **Fan-out**: many take from one; whoever is free takes the next.
//!
//! ```
//! use executor::{Runtime, spawn, sync::channel::bounded};
//!
//! # let runtime = Runtime::builder().workers(2).build()?;
//! let sum: u32 = runtime.block_on(async {
//!     let (jobs, receiver) = bounded(4);
//!     let workers = [(); 3].map(|()| {
//!         let receiver = receiver.clone();
//!         spawn(async move {
//!             let mut sum = 0;
//!             while let Ok(job) = receiver.recv().await {
//!                 sum += job;
//!             }
//!             sum
//!         })
//!     });
//!     for job in 1..=100 {
//!         jobs.send(job).await.expect("the workers receive");
//!     }
//!     // No more: the workers end when they have done what there is.
//!     drop(jobs);
//!     let mut sum = 0;
//!     for worker in workers {
//!         sum += worker.await.expect("nobody cancels it");
//!     }
//!     sum
//! });
//! assert_eq!(sum, 5050);
//! # Ok::<(), executor::BuildError>(())
//! ```
//!
//! **Fan-in**: many send to one; it ends when all of them have.
//!
//! ```
//! use executor::{Runtime, spawn, sync::channel::unbounded};
//!
//! # let runtime = Runtime::builder().workers(2).build()?;
//! let mut found = runtime.block_on(async {
//!     let (sender, found) = unbounded();
//!     for start in [0, 10, 20] {
//!         let sender = sender.clone();
//!         spawn(async move {
//!             for number in start..start + 10 {
//!                 if number % 7 == 0 {
//!                     sender.send(number).await.expect("somebody receives");
//!                 }
//!             }
//!         });
//!     }
//!     drop(sender);
//!     let mut all = Vec::new();
//!     while let Ok(number) = found.recv().await {
//!         all.push(number);
//!     }
//!     all
//! });
//! found.sort();
//! assert_eq!(found, [0, 7, 14, 21, 28]);
//! # Ok::<(), executor::BuildError>(())
//! ```
//!
//! **Pipeline**: each stage has a task and a channel to the next. The bounds are what keeps a fast stage from running away: it waits.
//!
//! ```
//! use executor::{Runtime, spawn, sync::channel::{Receiver, bounded}};
//!
//! fn stage(input: Receiver<u64>, work: impl Fn(u64) -> u64 + Send + 'static) -> Receiver<u64> {
//!     let (sender, output) = bounded(2);
//!     spawn(async move {
//!         while let Ok(number) = input.recv().await {
//!             if sender.send(work(number)).await.is_err() {
//!                 break; // Nobody wants the rest, so it asks for no more either.
//!             }
//!         }
//!     });
//!     output
//! }
//!
//! # let runtime = Runtime::builder().workers(2).build()?;
//! runtime.block_on(async {
//!     let (numbers, input) = bounded(2);
//!     let squares = stage(stage(input, |number| number + 1), |number| number * number);
//!     let feed = spawn(async move {
//!         for number in 0.. {
//!             if numbers.send(number).await.is_err() {
//!                 break;
//!             }
//!         }
//!     });
//!     for number in 1..=10 {
//!         assert_eq!(squares.recv().await, Ok(number * number));
//!     }
//!     // The end of the line is gone: one stage after the other ends.
//!     drop(squares);
//!     feed.await.expect("nobody cancels it");
//! });
//! # Ok::<(), executor::BuildError>(())
//! ```

#[cfg(feature = "alloc")]
mod block;
#[cfg(all(feature = "alloc", not(loom)))]
mod blocks;
#[cfg(all(feature = "alloc", loom))]
pub mod blocks;
mod bounded;
mod errors;
mod fixed;
mod futures;
#[cfg(feature = "alloc")]
mod parcels;
mod published;
#[cfg(feature = "alloc")]
mod receiver;
#[cfg(feature = "alloc")]
mod rendezvous;
mod ring;
#[cfg(feature = "alloc")]
mod sender;
#[cfg(feature = "alloc")]
mod shared;
#[cfg(feature = "alloc")]
mod traits;
#[cfg(feature = "alloc")]
mod unbounded;

pub use errors::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};
pub use fixed::{StaticChannel, StaticRecv, StaticSend};
pub use futures::{RecvFrom, SendTo};
#[cfg(feature = "alloc")]
pub use {
    ends::{bounded, try_bounded, try_unbounded, unbounded},
    receiver::{Receiver, Recv, WeakReceiver},
    sender::{Send, Sender, WeakSender},
};

#[cfg(feature = "alloc")]
mod ends {
    use super::{Receiver, Sender, shared::Shared};
    use crate::{NoMemory, memory::Counted};

    /// A channel for so many messages.
    ///
    /// With a capacity of 0, who sends waits until somebody receives.
    ///
    /// ```
    /// use executor::{Runtime, spawn, sync::channel::bounded};
    ///
    /// # let runtime = Runtime::builder().workers(2).build()?;
    /// runtime.block_on(async {
    ///     let (sender, receiver) = bounded(0);
    ///     let meeting = spawn(async move { sender.send("hello").await });
    ///     assert_eq!(receiver.recv().await, Ok("hello"));
    ///     assert_eq!(meeting.await.unwrap(), Ok(()));
    /// });
    /// # Ok::<(), executor::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If there cannot be so many: more than an eighth of `usize` counts. And if there is no memory for them; [`try_bounded`] says
    /// so instead.
    #[track_caller]
    pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
        expect(try_bounded(capacity))
    }

    /// As [`bounded`], but says so when there is no memory.
    ///
    /// ```
    /// use executor::{NoMemory, sync::channel::try_bounded};
    ///
    /// let (sender, receiver) = try_bounded(1)?;
    /// sender.try_send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// # Ok::<(), NoMemory>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for so many.
    ///
    /// # Panics
    /// If there cannot be so many, as [`bounded`].
    #[track_caller]
    pub fn try_bounded<T>(capacity: usize) -> Result<(Sender<T>, Receiver<T>), NoMemory> {
        both(Shared::bounded(capacity)?)
    }

    /// A channel for as many messages as there is memory for. Not for interrupts.
    ///
    /// ```
    /// let (sender, receiver) = executor::sync::channel::unbounded();
    /// for number in 0..1000 {
    ///     sender.try_send(number).unwrap();
    /// }
    /// assert_eq!(receiver.len(), 1000);
    /// ```
    ///
    /// # Panics
    /// If there is no memory for it; [`try_unbounded`] says so instead. So do sends later: there [`try_send`](Sender::try_send) does.
    #[track_caller]
    pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
        expect(try_unbounded())
    }

    /// As [`unbounded`], but says so when there is no memory.
    ///
    /// ```
    /// use executor::{NoMemory, sync::channel::try_unbounded};
    ///
    /// let (sender, receiver) = try_unbounded()?;
    /// sender.try_send(1).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// # Ok::<(), NoMemory>(())
    /// ```
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn try_unbounded<T>() -> Result<(Sender<T>, Receiver<T>), NoMemory> {
        both(Shared::unbounded())
    }

    fn both<T>(shared: Shared<T>) -> Result<(Sender<T>, Receiver<T>), NoMemory> {
        let shared = Counted::try_new(shared).map_err(|_| NoMemory)?;
        Ok((Sender::new(shared.clone()), Receiver::new(shared)))
    }

    #[track_caller]
    fn expect<T>(ends: Result<T, NoMemory>) -> T {
        ends.unwrap_or_else(|NoMemory| panic!("there is no memory for a channel"))
    }
}

/// What both ends can be asked.
#[cfg(feature = "alloc")]
macro_rules! both_ends {
    ($end:ident) => {
        impl<T> $end<T> {
            /// Closes the channel: nothing more is sent. What is in it can still be received. False: it was closed already.
            ///
            /// ```
            /// let (sender, receiver) = executor::sync::channel::bounded(2);
            /// sender.try_send(1).unwrap();
            /// assert!(sender.close());
            /// assert!(!receiver.close());
            /// assert!(sender.try_send(2).is_err());
            /// assert_eq!(receiver.try_recv(), Ok(1));
            /// ```
            pub fn close(&self) -> bool {
                self.shared.close()
            }

            /// Whether the channel is closed. There may still be messages in it.
            ///
            /// ```
            /// let (sender, receiver) = executor::sync::channel::bounded(1);
            /// sender.try_send(1).unwrap();
            /// assert!(!receiver.is_closed());
            /// drop(sender);
            /// assert!(receiver.is_closed());
            /// assert_eq!(receiver.len(), 1);
            /// ```
            pub fn is_closed(&self) -> bool {
                self.shared.is_closed()
            }

            /// Whether no message is in the channel.
            ///
            /// ```
            /// let (sender, receiver) = executor::sync::channel::bounded(1);
            /// assert!(receiver.is_empty());
            /// sender.try_send(1).unwrap();
            /// assert!(!receiver.is_empty());
            /// ```
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Whether nobody who comes now has a place: there are as many messages as fit, or who waits to send has been
            /// granted what is left. With a capacity of 0: always.
            ///
            /// ```
            /// use executor::sync::channel::{bounded, unbounded};
            ///
            /// let (sender, _receiver) = bounded(1);
            /// assert!(!sender.is_full());
            /// sender.try_send(1).unwrap();
            /// assert!(sender.is_full());
            /// assert!(bounded::<u8>(0).0.is_full());
            /// assert!(!unbounded::<u8>().0.is_full());
            /// ```
            pub fn is_full(&self) -> bool {
                self.shared.is_full()
            }

            /// How many messages are in the channel; at most as many as fit.
            ///
            /// ```
            /// let (sender, receiver) = executor::sync::channel::bounded(2);
            /// sender.try_send(1).unwrap();
            /// assert_eq!((sender.len(), receiver.len()), (1, 1));
            /// ```
            pub fn len(&self) -> usize {
                self.shared.len()
            }

            /// How many messages fit. None: any number.
            ///
            /// ```
            /// use executor::sync::channel::{bounded, unbounded};
            ///
            /// let (sender, receiver) = bounded::<u8>(2);
            /// assert_eq!((sender.capacity(), receiver.capacity()), (Some(2), Some(2)));
            /// assert_eq!(unbounded::<u8>().0.capacity(), None);
            /// ```
            pub fn capacity(&self) -> Option<usize> {
                self.shared.capacity()
            }

            /// How many senders there are.
            ///
            /// ```
            /// let (sender, receiver) = executor::sync::channel::bounded::<u8>(1);
            /// let other = sender.clone();
            /// assert_eq!(receiver.sender_count(), 2);
            /// drop((sender, other));
            /// assert_eq!(receiver.sender_count(), 0);
            /// ```
            pub fn sender_count(&self) -> usize {
                self.shared.senders().get()
            }

            /// How many receivers there are.
            ///
            /// ```
            /// let (sender, receiver) = executor::sync::channel::bounded::<u8>(1);
            /// let other = receiver.clone();
            /// assert_eq!(sender.receiver_count(), 2);
            /// drop((receiver, other));
            /// assert_eq!(sender.receiver_count(), 0);
            /// ```
            pub fn receiver_count(&self) -> usize {
                self.shared.receivers().get()
            }

            /// Whether the other is of the same channel.
            ///
            /// ```
            /// use executor::sync::channel::bounded;
            ///
            /// let (sender, receiver) = bounded::<u8>(1);
            /// assert!(sender.same_channel(&sender.clone()));
            /// assert!(!receiver.same_channel(&bounded(1).1));
            /// ```
            pub fn same_channel(&self, other: &Self) -> bool {
                Counted::ptr_eq(&self.shared, &other.shared)
            }
        }

        impl<T> fmt::Debug for $end<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($end))
                    .field("len", &self.len())
                    .field("capacity", &self.capacity())
                    .field("is_closed", &self.is_closed())
                    .finish_non_exhaustive()
            }
        }
    };
}
#[cfg(feature = "alloc")]
use both_ends;
